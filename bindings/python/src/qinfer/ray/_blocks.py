"""Names for beginnings of prompts, by which a router knows which replica has evaluated one.

A cache finds blocks by their tokens and all tokens before them, and so does the hash of a block here. Of a long prompt
only some blocks are named, two for each doubling of its length, so that a replica's names stay few: where two prompts
have the same beginning, the router knows at least two thirds of it."""

from __future__ import annotations

import array
import base64
import ctypes
import hashlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from .._cache import KvCache

_BYTES = 8  # of a name
_MOST_PROMPTS = 256
_MOST_NAMES = 4096
_MOST_BLOCKS = 1 << 16


def _marks() -> Iterator[int]:
    """1, 2, 3, 4, 6, 8, 12, 16, and so on: after how many blocks a beginning has a name."""
    yield 1
    for power in itertools.count(1):
        yield 1 << power
        yield 3 << (power - 1)


def names_of(tokens: Sequence[int], block_tokens: int) -> list[bytes]:
    """The names of the beginnings of a prompt, shorter ones first."""
    data, name, names = array.array("i", tokens).tobytes(), b"", []
    n, size, marks = min(len(tokens) // block_tokens, _MOST_BLOCKS), block_tokens * 4, _marks()
    mark = next(marks)
    for block in range(n):
        name = hashlib.blake2b(name + data[block * size : (block + 1) * size], digest_size=_BYTES).digest()
        if block + 1 == mark:
            names.append(name)
            mark = next(marks)
    return names


def length_of(n_names: int) -> int:
    """The blocks of the beginning that has so many names."""
    return list(itertools.islice(_marks(), n_names))[-1] if n_names else 0


def packed(names: Sequence[bytes]) -> str:
    return base64.b85encode(b"".join(names)).decode("ascii")


def unpacked(text: str) -> frozenset[bytes]:
    data = base64.b85decode(text)
    return frozenset(data[at : at + _BYTES] for at in range(0, len(data), _BYTES))


class Resident:
    """Which beginnings of the prompts that were asked for are in a cache: those of the last ones."""

    def __init__(self, cache: KvCache) -> None:
        self._cache, self._block_tokens = cache, int(cache.stats["block_tokens"])
        self._prompts: OrderedDict[bytes, tuple[Any, list[bytes]]] = OrderedDict()  # tokens as C has them
        self._lock = threading.Lock()

    def note(self, tokens: Sequence[int]) -> None:
        names = names_of(tokens, self._block_tokens)
        if not names:
            return
        with self._lock:
            self._prompts[names[-1]] = (ctypes.c_int32 * len(tokens))(*tokens), names
            self._prompts.move_to_end(names[-1])
            while len(self._prompts) > _MOST_PROMPTS:
                self._prompts.popitem(last=False)

    def names(self) -> list[bytes]:
        """Of what the cache has now, those used last first. Prompts of which it has nothing are forgotten."""
        with self._lock:
            prompts = list(reversed(self._prompts.items()))
        found: dict[bytes, None] = {}
        for key, (tokens, names) in prompts:
            blocks = self._cache.find(tokens) // self._block_tokens
            known = [name for name, mark in zip(names, _marks(), strict=False) if mark <= blocks]
            if len(found) + len(known) > _MOST_NAMES:
                break
            found.update(dict.fromkeys(known))
            if not known:
                with self._lock:
                    self._prompts.pop(key, None)
        return list(found)
