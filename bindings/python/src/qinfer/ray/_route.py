"""What a router works with: where a request is to go, what replicas have in their caches, and who wants to know which
replicas there are. Ray Serve copies the module of a router into each process, instead of importing it, so what others
share with it is here."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ._blocks import length_of, unpacked

_NEWS_S = 10.0  # how long what was sent to a replica counts as being there, unless it reports it


@dataclass(frozen=True)
class Route:
    """The first argument of what is sent to replicas: the names of a prompt's beginnings, or the one replica that it is
    for."""

    names: tuple[bytes, ...] = ()
    replica: str = ""


class Contents:
    """What a replica has, as far as it is known here."""

    def __init__(self) -> None:
        self._reported = ""
        self._resident: frozenset[bytes] = frozenset()
        self._sent: dict[bytes, float] = {}  # and until when it counts

    def report(self, text: str) -> None:
        if text != self._reported:
            self._reported, self._resident = text, unpacked(text)

    def send(self, names: tuple[bytes, ...], now: float) -> None:
        self._sent = {name: until for name, until in self._sent.items() if until > now}
        self._sent.update(dict.fromkeys(names, now + _NEWS_S))

    def blocks_of(self, names: tuple[bytes, ...], now: float) -> int:
        """Of the longest of these beginnings that is there."""
        for n in range(len(names), 0, -1):
            if names[n - 1] in self._resident or self._sent.get(names[n - 1], 0) > now:
                return length_of(n)
        return 0

    def size(self) -> int:
        return len(self._resident) + len(self._sent)


Watcher = Callable[[set[str]], object]
_watchers: weakref.WeakSet[Any] = weakref.WeakSet()


def watch(watcher: Watcher) -> None:
    """Has it called, on any thread, with the ids of all replicas that requests are sent to, whenever they change: as far
    as this process has a handle of them. It is kept by the caller."""
    _watchers.add(watcher)


def tell_watchers(running: set[str]) -> None:
    for watcher in list(_watchers):
        watcher(running)
