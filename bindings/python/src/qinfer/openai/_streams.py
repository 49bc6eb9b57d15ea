"""Answers while they are drawn."""

from __future__ import annotations

import collections
import queue
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any, Generic, Self, TypeVar

from .. import _exit
from .._engine import Engine, Inbox
from ._draw import Answer, Jobs, Request
from ._errors import answered
from ._object import Object

T = TypeVar("T", bound=Object)


class Stream(Iterator[T], Generic[T]):
    """The chunks of an answer. close(), the end of a with statement, or that nothing refers to it any more, end it."""

    def __init__(self, request: Request, answer: Answer, kind: type[Any], engine: Engine, timeout: float | None) -> None:
        self._items: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
        self._ready: collections.deque[T] = collections.deque()
        self._answer, self._kind, self._timeout, self._over = answer, kind, timeout, False
        put = self._items.put  # without the stream, which ends where nothing refers to it
        with answered(timeout):
            self._jobs = Jobs(
                request, answer, engine, lambda data: put((True, data)), lambda end: put((False, end)), timeout
            )
            self._jobs.submit()

    def __next__(self) -> T:
        while not self._ready:
            if self._over:
                raise StopIteration
            try:
                going, item = self._items.get()
            except BaseException:  # of a signal's handler
                self.close()
                raise
            if going:
                self._ready += self._parse(item)
            else:
                self._over = True
                if item is not None:
                    _exit.check()  # the engine was ended for that, perhaps
                    with answered(self._timeout):
                        raise item
                self._ready += self._rest()
        return self._ready.popleft()

    def _parse(self, data: str) -> list[T]:
        return self._answer.parse(data, self._kind)

    def _rest(self) -> list[T]:
        """What comes last, once the answer is complete."""
        return []

    def close(self) -> None:
        self._over = True
        self._ready.clear()
        if hasattr(self, "_jobs"):
            self._jobs.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with suppress(SystemExit):  # where the interpreter ends
            self.close()


class AsyncStream(AsyncIterator[T], Generic[T]):
    """The same for asyncio."""

    def __init__(self, request: Request, answer: Answer, kind: type[Any], engine: Engine, timeout: float | None) -> None:
        inbox = Inbox()
        self._data = aiter(inbox)
        self._ready: collections.deque[T] = collections.deque()
        self._answer, self._kind, self._timeout, self._over = answer, kind, timeout, False
        with answered(timeout):
            self._jobs = Jobs(request, answer, engine, inbox.put, inbox.end, timeout)
            self._jobs.submit()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        while not self._ready:
            if self._over:
                raise StopAsyncIteration
            try:
                with answered(self._timeout):
                    data = await anext(self._data, None)
            except BaseException:
                self._end()
                raise
            if data is None:
                self._over = True
                self._ready += self._rest()
            else:
                self._ready += self._parse(data)
        return self._ready.popleft()

    def _parse(self, data: str) -> list[T]:
        return self._answer.parse(data, self._kind)

    def _rest(self) -> list[T]:
        """What comes last, once the answer is complete."""
        return []

    def _end(self) -> None:
        self._over = True
        self._ready.clear()
        if hasattr(self, "_jobs"):
            self._jobs.cancel()

    async def close(self) -> None:
        self._end()

    async def aclose(self) -> None:
        self._end()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def __del__(self) -> None:
        with suppress(SystemExit):  # where the interpreter ends
            self._end()
