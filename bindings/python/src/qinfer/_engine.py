"""Many requests as one batch: a thread that steps a scheduler, and what programs with threads or asyncio see of it."""

from __future__ import annotations

import asyncio
import collections
import ctypes
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Unpack, cast

from . import _abi, _exit
from ._apart import Apart
from ._cache import KvCache
from ._errors import CancelledError, QinferError, StateError
from ._infos import EngineStats
from ._library import Handle, call, encoded, error_of, lib, members_of, pointer, sized, text_at
from ._load import Path
from ._model import Model
from ._options import SamplerOptions
from ._results import FINISHES, Generated, generate_options
from ._session import Session

_WAIT_NS = 100_000_000  # after which a thread without requests ends


@dataclass(frozen=True)
class Piece:
    """What a token has brought: new text, which may be empty, and with the last one why it was that."""

    text: str
    token: int
    logprob: float | None = None
    finish: str | None = None


@dataclass(frozen=True)
class _Shared:
    """How a request shares the engine with others."""

    priority: int
    key: int
    timeout: float | None


class _Scheduler(Handle):
    _free = "qinfer_scheduler_free"

    def __init__(
        self, cache: KvCache, max_running: int, max_waiting: int, step_ms: float, park: Path | None, park_bytes: int
    ) -> None:
        options = sized(
            _abi.qinfer_scheduler_options,
            max_running=max_running,
            max_waiting=max_waiting,
            step_ns=int(step_ms * 1e6),
            park_path=encoded(park),
            park_bytes=park_bytes,
        )
        self._create(lambda out: call(lib.qinfer_scheduler_create, cache, ctypes.byref(options), out))
        planned = ctypes.c_uint64()
        call(lib.qinfer_scheduler_plan, ctypes.byref(options), ctypes.byref(planned))
        self.memory_bytes = planned.value


class _Request(Handle):
    _free = "qinfer_request_free"

    def __init__(self, scheduler: _Scheduler, generation: Handle, options: Any) -> None:
        self._create(
            lambda out: call(lib.qinfer_scheduler_submit, scheduler, generation, ctypes.byref(options), out)
        )

    @classmethod
    def for_blocks(cls, scheduler: _Scheduler, session: Session, n_tokens: int, options: Any) -> _Request:
        made, reserve = cls.__new__(cls), lib.qinfer_scheduler_reserve
        made._create(lambda out: call(reserve, scheduler, session, n_tokens, ctypes.byref(options), out))
        return made

    def cancel(self) -> None:
        self._begin()  # and not ask(), which refuses where the interpreter ends
        try:
            lib.qinfer_request_cancel(pointer(self))
        finally:
            self._end()


class Generation(Handle):
    _free = "qinfer_generation_free"
    keeps: Any = None  # what it uses, until it is freed

    @classmethod
    def of(cls, session: Session, options: Any) -> Generation:
        made = cls()
        made._create(lambda out: call(lib.qinfer_generation_create, session, ctypes.byref(options), out))
        return made

    @property
    def result(self) -> Any:
        """A qinfer_generate_result."""
        filled = sized(_abi.qinfer_generate_result)
        call(lib.qinfer_generation_get_result, self, ctypes.byref(filled))
        return filled


class Reservation:
    """Blocks for so many tokens of a session that others fill, such as one that is loaded: it waits its turn as requests
    do. `ready(error)` is called once on the engine's thread, with None where they are promised; free them with close(),
    once the session that has taken them is submitted."""

    def __init__(
        self,
        cache: KvCache,
        n_tokens: int,
        ready: Callable[[BaseException | None], object],
        *,
        embeddings: bool = False,
    ) -> None:
        self.n_tokens, self._ready = n_tokens, ready
        self.session = Session(cache, max_tokens=n_tokens, embeddings=embeddings)  # in whose name they are promised
        self._request: _Request | None = None
        self._told = False
        self._forget: Callable[[], object] = lambda: None  # by the engine

    def _tell(self, error: BaseException | None) -> None:
        if not self._told:
            self._told = True
            self._ready(error)

    def close(self) -> None:
        """Also before they are promised: ready() is not called then."""
        self._told = True
        self._forget()
        for handle in (self._request, self.session):
            if handle is not None:
                handle.close()


class Job:
    """A generation that an engine draws. `token(info)` is called on the engine's thread for each token, and once
    `end(error)`, with None where all is well; they must not raise."""

    def __init__(
        self,
        session: Session,
        generation: Generation,
        token: Callable[[Any], object],
        end: Callable[[BaseException | None], object],
    ) -> None:
        self.session, self.generation = session, generation
        self._token, self._end = token, end
        self._request: _Request | None = None
        self._cancelled = self._ended = False

    def cancel(self) -> None:
        """From any thread; end() is called once the engine has seen it."""
        self._cancelled = True
        request = self._request
        if request is not None:
            with suppress(ValueError):  # closed meanwhile
                request.cancel()

    @property
    def submitted(self) -> bool:
        return self._request is not None

    def _finish(self, error: BaseException | None) -> None:
        if self._ended:
            return
        if isinstance(error, CancelledError) and not self._cancelled:
            error = self.session._reason_of(error)
        self._ended = True
        self._end(error)

    def close(self) -> None:
        """Frees what it holds, once it has ended or was not submitted."""
        for handle in (self._request, self.generation, self.session):
            if handle is not None:
                handle.close()


class Engine:
    """Draws the tokens of many requests together, on a thread of its own, with each request's tokens the same as alone.
    `source` is a cache, or a model or the path of one, which then gets a cache that keeps prefixes, of `budget_bytes` (0
    = one session of the model's context): blocks for a prompt and all tokens that may follow it are promised before a
    request begins, so give max_tokens, and a budget for as many requests as are to run together. With `park`, a
    directory, a request begins with blocks for its prompt; where they run out, one is written there (park_bytes in all at
    most, 0 = as many as needed) and goes on when there is room.

    max_running, max_waiting: requests; 0 = 16 and 256. step_ms: what an evaluation should take at most while tokens are
    drawn."""

    def __init__(
        self,
        source: KvCache | Model | Path,
        *,
        budget_bytes: int = 0,
        max_running: int = 0,
        max_waiting: int = 0,
        step_ms: float = 100,
        park: Path | None = None,
        park_bytes: int = 0,
    ) -> None:
        self.cache = source if isinstance(source, KvCache) else KvCache(source, budget_bytes=budget_bytes, prefix=True)
        self.model = self.cache.model
        self.max_running, self.max_waiting = max_running or 16, max_waiting or 256
        self._scheduler = _Scheduler(self.cache, max_running, max_waiting, step_ms, park, park_bytes)
        self._jobs: dict[int, Job] = {}
        self._reservations: dict[int, Reservation] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._thread: Apart | None = None
        self._closing = False

    @property
    def stats(self) -> EngineStats:
        """Requests that wait, run and are parked, steps and rows so far, and the memory that the scheduler takes."""
        filled = sized(_abi.qinfer_scheduler_stats)
        call(lib.qinfer_scheduler_get_stats, self._scheduler, ctypes.byref(filled))
        return cast(EngineStats, {**members_of(filled), "memory_bytes": self._scheduler.memory_bytes})

    def _prepare(
        self, tokens: Sequence[int], options: Any, grammar: Any, max_draft: int, sampler: SamplerOptions
    ) -> tuple[Session, Generation]:
        """A session of the cache with room for the tokens and what may follow, and its generation."""
        room = len(tokens) + options.max_tokens if options.max_tokens else 0
        session = Session(self.cache, max_tokens=min(room, self.model.info["context_tokens"]), max_draft=max_draft)
        try:
            session.append(tokens)
            session.set_sampler(**sampler)
            session.set_grammar(grammar)
            return session, Generation.of(session, options)
        except BaseException:
            session.close()
            raise

    def submit(self, job: Job, *, priority: int = 0, key: int = 0, timeout: float | None = None) -> None:
        """[any thread] Higher priorities begin first; keys (users) share alike; after `timeout` seconds the job ends with
        CancelledError. NoMemoryError where max_waiting are waiting."""
        options = sized(_abi.qinfer_request_options, priority=priority, key=key)
        if timeout is not None:
            options.deadline_ns = max(1, time.monotonic_ns() + int(timeout * 1e9))
        with self._lock:
            self._check()
            options.user = number = next(self._ids)
            self._jobs[number] = job  # its first event may come at once
            try:
                job._request = _Request(self._scheduler, job.generation, options)
                self._begin_thread()
            except BaseException:
                self._jobs.pop(number, None)  # the thread of another request may have ended it
                job.cancel()
                raise
        if job._cancelled:  # by its first event, which found no request yet
            job.cancel()

    def _check(self) -> None:
        """StateError where nothing can be submitted any more."""
        _exit.check()
        if self._closing or _exit.begun():
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "the engine is closed", 0)

    def reserve(self, reservation: Reservation) -> None:
        """[any thread] Errors as submit()'s."""
        options = sized(_abi.qinfer_request_options)
        with self._lock:
            self._check()
            options.user = number = next(self._ids)
            self._reservations[number] = reservation
            reservation._forget = lambda: self._reservations.pop(number, None)
            try:
                reservation._request = _Request.for_blocks(
                    self._scheduler, reservation.session, reservation.n_tokens, options
                )
                self._begin_thread()
            except BaseException:
                self._reservations.pop(number, None)
                raise

    def _begin_thread(self) -> None:
        """The first request finds none, and so does one after a while, or in a child of fork()."""
        if self._thread is not None and not self._thread.over:
            return
        self._thread = Apart(self._run)
        self._thread.start()

    def _run(self) -> None:
        """Where it rests it ends nothing: requests that come then are another thread's."""
        waiting, event = ctypes.c_int32(), sized(_abi.qinfer_event)
        rests = False
        try:
            while not self._closing:
                call(lib.qinfer_scheduler_wait, self._scheduler, _WAIT_NS, ctypes.byref(waiting))
                if waiting.value != 0:
                    self._step(event)
                elif self._rests():
                    rests = True
                    return
        finally:
            if not rests:
                self._end_all()

    def _rests(self) -> bool:
        """Without requests there is no thread, which would keep the engine."""
        with self._lock:
            if self._jobs or self._reservations:
                return False
            self._thread = None
            return True

    def _end_all(self) -> None:
        with self._lock:
            jobs = list(self._jobs.values())
            self._jobs.clear()
            reservations = list(self._reservations.values())
            self._reservations.clear()
        closed = StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "the engine was closed", 0)
        for job in jobs:
            job._finish(closed)
            job.close()
        for reservation in reservations:
            reservation._tell(closed)

    def _step(self, event: Any) -> None:
        try:
            call(lib.qinfer_scheduler_step, self._scheduler)
        except QinferError as failure:  # of the system: nothing was evaluated
            for job in list(self._jobs.values()):
                job._finish(failure)
                job.cancel()
            for number in list(self._reservations):
                self._tell_reservation(number, failure)
        while True:
            call(lib.qinfer_scheduler_next, self._scheduler, ctypes.byref(event))
            if event.kind == _abi.QINFER_EVENT_NONE:
                return
            self._tell_reservation(event.user, _end_of(event))
            known = self._jobs.get(event.user)
            if known is not None:
                self._tell(known, event)

    def _tell(self, job: Job, event: Any) -> None:
        if event.kind == _abi.QINFER_EVENT_TOKEN:
            job._token(event.token)
        elif event.kind == _abi.QINFER_EVENT_END:
            job._finish(_end_of(event))
            self._jobs.pop(event.user, None)  # another thread's submit() may have ended by an exception
            job.close()

    def _tell_reservation(self, number: int, error: BaseException | None) -> None:
        """Another thread may close it meanwhile."""
        reservation = self._reservations.pop(number, None)
        if reservation is not None:
            reservation._tell(error)

    def close(self) -> None:
        """Ends the thread; requests that have not ended fail with StateError."""
        with self._lock:  # after which none is submitted
            self._closing = True
            thread = self._thread
        first = thread.end(lambda: None) if thread is not None and not thread.inside else None
        self._end_all()  # where the thread had not begun
        self._scheduler.close()
        if first is not None:
            raise first

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncEngine(Engine):
    """An Engine for asyncio: any number of tasks, of any loops, stream from it.

    engine = qinfer.AsyncEngine("path", budget_bytes=1 << 30)
    async for piece in engine.stream("Once upon a time", max_tokens=50): print(piece.text, end="")
    """

    async def stream(
        self,
        prompt: str | Sequence[int],
        max_tokens: int = 0,
        *,
        stop: Sequence[str] = (),
        logprobs: bool = False,
        grammar: Any = None,
        max_draft: int = 8,
        priority: int = 0,
        key: int = 0,
        timeout: float | None = None,
        **sampler: Unpack[SamplerOptions],
    ) -> AsyncIterator[Piece]:
        """The text after a prompt, token by token. Leaving the loop cancels the request. grammar, and the options of
        Session.set_sampler(); max_draft: tokens guessed ahead, which changes none."""
        shared = _Shared(priority, key, timeout)
        options = generate_options(max_tokens, stop, logprobs=logprobs)
        async for piece in self._draw(prompt, options, grammar, max_draft, shared, sampler, []):
            yield piece

    async def generate(
        self,
        prompt: str | Sequence[int],
        max_tokens: int = 0,
        *,
        stop: Sequence[str] = (),
        grammar: Any = None,
        max_draft: int = 8,
        priority: int = 0,
        key: int = 0,
        timeout: float | None = None,
        **sampler: Unpack[SamplerOptions],
    ) -> Generated:
        """The same, when it has ended."""
        results: list[Any] = []
        shared = _Shared(priority, key, timeout)
        options = generate_options(max_tokens, stop)
        drawn = self._draw(prompt, options, grammar, max_draft, shared, sampler, results)
        pieces = [piece.text async for piece in drawn]
        (result,) = results
        return Generated.of("".join(pieces), result)

    async def _draw(
        self,
        prompt: str | Sequence[int],
        options: Any,
        grammar: Any,
        max_draft: int,
        shared: _Shared,
        sampler: SamplerOptions,
        results: list[Any],
    ) -> AsyncIterator[Piece]:
        """`results` gets what was drawn at the end."""
        inbox, logprobs = Inbox(), options.flags != 0
        tokens = self.model.tokenize(prompt) if isinstance(prompt, str) else list(prompt)
        session, generation = self._prepare(tokens, options, grammar, max_draft, sampler)

        def token(info: Any) -> None:
            text = text_at(ctypes.cast(info.text, ctypes.c_void_p).value, info.text_len)
            finish = FINISHES[info.finish] if info.finish else None
            inbox.put(Piece(text, info.token, info.logprob if logprobs else None, finish))

        def end(error: BaseException | None) -> None:
            try:
                if error is None:
                    results.append(generation.result)
            except BaseException as failure:
                inbox.end(failure)
                raise
            inbox.end(error)

        job = Job(session, generation, token, end)
        try:
            self.submit(job, priority=shared.priority, key=shared.key, timeout=shared.timeout)
        except BaseException:
            job.close()
            raise
        try:
            async for piece in inbox:
                yield piece
        finally:
            job.cancel()


def _end_of(event: Any) -> BaseException | None:
    if event.kind != _abi.QINFER_EVENT_END or event.status == 0:
        return None
    return error_of(event.status, (event.message or b"").decode("utf-8", "replace"), 0)


class Inbox:
    """What another thread puts, for one task of the loop that runs where it was made."""

    def __init__(self) -> None:
        self._loop, self._ready = asyncio.get_running_loop(), asyncio.Event()
        self._items: collections.deque[Any] = collections.deque()
        self._over, self._error = False, None  # type: bool, BaseException | None

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._ready.set)

    def put(self, item: Any) -> None:
        self._items.append(item)
        self._wake()

    def end(self, error: BaseException | None) -> None:
        self._error, self._over = error, True
        self._wake()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for items in self.batches():
            for item in items:
                yield item

    async def batches(self) -> AsyncIterator[list[Any]]:
        """All items that are there, as often as there are some."""
        while True:
            self._ready.clear()
            over = self._over  # before the items: after it none come
            items = []
            while self._items:
                items.append(self._items.popleft())
            if items:
                yield items
            if over:
                if self._error is not None:
                    _exit.check()  # the engine was ended for that, perhaps
                    raise self._error
                return
            if not self._items and not self._over:
                await self._ready.wait()
