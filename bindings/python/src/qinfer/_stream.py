"""Streams: generations on separate threads, read piece by piece."""

from __future__ import annotations

import asyncio
import queue
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from . import _abi, _exit
from ._apart import Apart
from ._cancel import Cancel
from ._errors import StateError
from ._library import Held, locks_handles

T = TypeVar("T")


class Stream(Iterator[T]):
    """What a generation of a session on a separate thread gives, through a queue. `work` is called there with a
    function that takes one item, or None for no item, and says False once nothing reads any more, and with a Cancel for
    its calls, which leave() requests, and `cancel` too. `wake` is called on that thread when there is something to
    read."""

    def __init__(
        self,
        session: Streaming,
        work: Callable[[Callable[[T | None], bool], Cancel], object],
        cancel: Cancel | None = None,
        wake: Callable[[], object] = lambda: None,
    ) -> None:
        _exit.check()
        if _exit.begun():
            what = "the interpreter ends: a stream cannot begin any more"
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, what, 0)
        self._items: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._left = threading.Event()
        self._over = False
        self._cancel = Cancel.of_call(cancel)
        session._release_left()
        items, left, ending = self._items, self._left, self._cancel

        def put(item: T | None) -> bool:
            if item is not None:
                items.put((True, item))
                wake()
            return not left.is_set()

        def run() -> None:
            end: BaseException | None = None
            try:
                with Held():
                    work(put, ending)
            except BaseException as raised:  # noqa: BLE001 - raised again by the one who reads
                end = raised
            items.put((False, end))
            wake()

        self._reader, self._handled = threading.get_ident(), id(sys.exc_info()[1])
        self._apart = Apart(run)
        session._streams.add(self)
        self._apart.start()

    def __next__(self) -> T:
        if self._over:
            raise StopIteration
        try:
            going, item = self._items.get()
        except BaseException:  # of a signal's handler
            self.close()
            raise
        if going:
            return item  # type: ignore[no-any-return]
        self._over = True
        self._apart.wait()
        if item is not None:
            _exit.check()  # it was cancelled for that, perhaps
            raise item
        raise StopIteration

    @property
    def over(self) -> bool:
        """Whether the end was read, or waited for."""
        return self._over

    @property
    def runs_elsewhere(self) -> bool:
        """Whether another thread than this one still generates it."""
        return not self._apart.over and not self._apart.inside

    @property
    def ready(self) -> bool:
        """Whether next() need not wait."""
        return self._over or not self._items.empty()

    def left_by(self, exception: BaseException) -> bool:
        """Whether this thread made the stream, and before it handled that exception."""
        return self._reader == threading.get_ident() and self._handled != id(exception)

    def leave(self) -> None:
        """Ends the generation, without waiting for that."""
        self._left.set()
        self._cancel.request()

    def close(self) -> None:
        """The same, and waits: the session is free then. What handlers of signals raise meanwhile comes out last."""
        if self._apart.inside or locks_handles():  # of the collector, which may run where the work cannot go on
            if not self._apart.over:
                self.leave()
            return
        first = self._apart.end(self.leave)
        self._over = True
        if first is not None:
            raise first

    def __del__(self) -> None:
        if hasattr(self, "_apart"):
            self.close()


async def follow(begin: Callable[[Callable[[], object]], Stream[T]]) -> AsyncIterator[T]:
    """What a stream gives, for asyncio. `begin` makes the stream with that `wake`. No executor waits for it: where the
    interpreter ends, those refuse before loops of daemon threads have."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def wake() -> None:
        with suppress(RuntimeError):  # of a loop that is closed
            loop.call_soon_threadsafe(ready.set)

    async def arrival() -> None:
        while not stream.ready:
            ready.clear()
            await ready.wait()

    async def end() -> None:
        while not stream.over:
            await arrival()
            with suppress(Exception):  # what ended it, which nothing reads
                next(stream, None)

    stream = begin(wake)
    try:
        while True:
            await arrival()
            item = next(stream, None)
            if item is None:
                return
            yield item
    finally:
        stream.leave()
        await asyncio.shield(end())


class Streaming:
    """stream() and astream() of sessions, by their generate(). `_streams` are those that are referred to."""

    _streams: weakref.WeakSet[Stream[Any]]
    generate: Callable[..., Any]

    def _release_left(self) -> None:
        """Before a stream begins."""

    def stream(self, max_tokens: int = 0, *, stop: Sequence[str] = (), cancel: Cancel | None = None) -> Stream[str]:
        """The text of generate(), piece by piece. Leaving the loop ends the generation; its tokens stay."""
        return self._stream(max_tokens, stop, cancel, lambda: None)

    def astream(
        self, max_tokens: int = 0, *, stop: Sequence[str] = (), cancel: Cancel | None = None
    ) -> AsyncIterator[str]:
        """stream() for asyncio: the loop is free while the model computes."""
        return follow(lambda wake: self._stream(max_tokens, stop, cancel, wake))

    def _stream(
        self, max_tokens: int, stop: Sequence[str], cancel: Cancel | None, wake: Callable[[], object]
    ) -> Stream[str]:
        def work(put: Callable[[str | None], bool], ending: Cancel) -> None:
            self.generate(max_tokens, stop=stop, cancel=ending, on_token=lambda _, text: put(text or None))

        return Stream(self, work, cancel, wake)
