"""Requests that go on in another process: the text and seed of a request, what was drawn so far, and snapshots of its
sessions. The other process reads the request again, gives the drawn tokens to a new answer, skips what the client has,
and draws on with the keys and values of the snapshots: with the same bits, since tokens depend on nothing else."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy

from .._engine import Engine, Inbox, Reservation
from .._errors import QinferError
from .._model import ChatPrompt, Model
from ..openai._draw import MAX_DRAFT, Answer, Jobs, Request
from .._session import Session

_ROOM_S = 5.0  # that snapshots wait for blocks


@dataclass(frozen=True)
class Ask:
    """A request of OpenAI's interface, and what its answer is to say of itself."""

    kind: int
    body: bytes
    seed: int
    now: str
    name: str
    model: str
    created: int

    def read(self, model: Model) -> Request:
        return Request(model, self.kind, self.body, ChatPrompt([], now=self.now), self.seed)


@dataclass(frozen=True)
class Choice:
    tokens: list[int]
    ended: bool
    snapshot: Any  # bytes as a numpy array, which Ray puts into its object store as they are; None: nothing evaluated


@dataclass(frozen=True)
class Parked:
    """A request that runs nowhere. given: characters of the answer that its client has."""

    ask: Ask
    given: int
    choices: list[Choice]


class _Memory:
    """A file of a snapshot, in memory."""

    def __init__(self, data: Any = b"") -> None:
        self.data = data

    def open(self, _: str, writing: bool) -> _Memory:
        if not writing and len(self.data) == 0:
            raise FileNotFoundError
        return self

    def size(self) -> int:
        return len(self.data)

    def read_at(self, offset: int, n: int) -> bytes:
        return bytes(memoryview(self.data)[offset : offset + n])

    def write_at(self, offset: int, data: bytes) -> None:
        if offset > len(self.data):
            self.data.extend(bytes(offset - len(self.data)))
        self.data[offset : offset + len(data)] = data

    def truncate(self, n: int) -> None:
        del self.data[n:]

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


def _saved(session: Session) -> Any:
    if session.info["n_evaluated"] == 0:
        return None
    memory = _Memory(bytearray())
    session.save("snapshot", files=memory.open)
    return numpy.frombuffer(memory.data, dtype=numpy.uint8)


class Answering:
    """A request that an engine answers: its text comes into the inbox."""

    def __init__(self, engine: Engine, ask: Ask, inbox: Inbox) -> None:
        self.ask, self.inbox, self._engine = ask, inbox, engine
        self.request = ask.read(engine.model)
        answer = Answer(self.request, ask.name, ask.model, ask.created)
        self.jobs = Jobs(self.request, answer, engine, inbox.put, inbox.end)
        # Not where another process would have to know more of tokens drawn before than which they are: log probabilities,
        # for which completions ask also by 0, and mirostat's mu.
        fields = json.loads(ask.body)
        self.may_move = (fields.get("logprobs") is None or fields["logprobs"] is False) and not fields.get("mirostat")

    def parked(self) -> Parked:
        """Once its jobs have left."""
        choices = []
        for index in range(self.request.info.n_choices):
            left = self.jobs.left[index]
            snapshot = None
            if left.session is not None:
                with left.session:
                    snapshot = _saved(left.session)
            choices.append(Choice(left.tokens, left.ended, snapshot))
        return Parked(self.ask, self.jobs.given, choices)


async def resume(engine: Engine, parked: Parked) -> Answering:
    """Goes on with it here. Snapshots wait for room as requests do, but not for long; what is not loaded is evaluated again,
    as a request's prompt is."""
    answering = await asyncio.to_thread(Answering, engine, parked.ask, Inbox())
    until = asyncio.get_running_loop().time() + _ROOM_S
    sessions: list[Session] = []
    spare, submitted = None, False
    try:
        if any(choice.snapshot is not None for choice in parked.choices):
            # A session that is loaded holds its blocks while it waits for the rest of them. Until all are submitted there is
            # room for a whole one besides, so that they never wait for each other alone.
            spare = await _in_time(engine, int(engine.model.info["context_tokens"]), until)
        for choice in parked.choices:
            session = await _loaded(engine, choice, until) if spare is not None else None
            if session is None:
                session = await asyncio.to_thread(_anew, answering, choice)
            sessions.append(session)
        submitted = True  # from here on the sessions are the jobs'
        over = [choice.ended for choice in parked.choices]
        await asyncio.to_thread(answering.jobs.submit, sessions, parked.given, over)
    except BaseException:
        answering.jobs.cancel()
        for session in [] if submitted else sessions:
            session.close()
        raise
    finally:
        if spare is not None:
            spare.close()
    return answering


async def _in_time(engine: Engine, n_tokens: int, until: float) -> Reservation | None:
    """Blocks, if they come by then and the cache ever has so many."""
    with suppress(TimeoutError, QinferError):
        return await asyncio.wait_for(reserved(engine, n_tokens), until - asyncio.get_running_loop().time())
    return None


async def reserved(engine: Engine, n_tokens: int, *, embeddings: bool = False) -> Reservation:
    """Once its blocks are promised."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()

    def tell(error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(_settle, ready, error)

    reservation = Reservation(engine.cache, n_tokens, tell, embeddings=embeddings)
    try:
        engine.reserve(reservation)
        await ready
    except BaseException:
        reservation.close()
        raise
    return reservation


def _settle(future: asyncio.Future[None], error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)


async def _loaded(engine: Engine, choice: Choice, until: float) -> Session | None:
    """Its snapshot, if there is one that can be loaded, and room for it in time."""
    if choice.snapshot is None:
        return None
    reservation = await _in_time(engine, len(choice.tokens), until)
    if reservation is None:
        return None
    memory = _Memory(choice.snapshot)
    try:
        with suppress(QinferError):
            return await asyncio.to_thread(
                Session.load, engine.cache, "snapshot", files=memory.open, max_draft=MAX_DRAFT
            )
    finally:
        reservation.close()  # the session itself holds the blocks now
    return None


def _anew(answering: Answering, choice: Choice) -> Session:
    session = answering.jobs.new_session()
    try:
        session.append(choice.tokens)
    except BaseException:
        session.close()
        raise
    return session
