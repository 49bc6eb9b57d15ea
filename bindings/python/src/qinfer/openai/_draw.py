"""Requests of OpenAI's interface, and the jobs of an engine that answer them."""

from __future__ import annotations

import ctypes
import json
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from .. import _abi
from .._cache import KvCache
from .._cancel import Cancel
from .._engine import Engine, Generation, Job
from .._errors import CancelledError, QinferError
from .._grammar import Grammar
from .._library import Handle, call, lib, read_text, read_tokens, sized, text_at
from .._model import ChatPrompt, Model
from .._session import Session
from .._vectors import pooling_of
from ._object import Object, build

MAX_DRAFT = 8  # tokens guessed ahead, which changes none
_PROMPT_ROWS = 64  # of logits, where log probabilities of prompts are asked for
T = TypeVar("T", bound=Object)


def new_seed() -> int:
    return uuid.uuid4().int & (2**64 - 1)


def error_json(error: QinferError) -> str:
    """What a client of the service is told of an error."""
    told = _abi.qinfer_error(code=error.status, detail=error.detail)
    told.message = error.message.encode("utf-8")[: _abi.qinfer_error.message.size - 1]
    return read_text(lib.qinfer_openai_error_json, ctypes.byref(told))


class Request(Handle):
    """The bytes of a request, read. `seed`: where it has none; prompt: template and date."""

    _free = "qinfer_openai_request_free"

    def __init__(self, model: Model, kind: int, data: bytes, prompt: ChatPrompt, seed: int) -> None:
        options = sized(_abi.qinfer_openai_options, seed=seed)
        options.chat = ctypes.pointer(prompt.options)
        self._create(
            lambda out: call(
                lib.qinfer_openai_request_create, model, kind, data, len(data), ctypes.byref(options), out
            )
        )
        self.info = sized(_abi.qinfer_openai_info)
        call(lib.qinfer_openai_request_get_info, self, ctypes.byref(self.info))
        self.schema = text_at(self.info.schema, self.info.schema_len)
        self.streams = (self.info.flags & _abi.QINFER_OPENAI_STREAM) != 0

    def tokens(self, prompt: int) -> list[int]:
        return read_tokens(lib.qinfer_openai_request_tokens, self, prompt, room=self.info.longest_prompt + 1)

    def prompt_of(self, choice: int) -> list[int]:
        return self.tokens(choice * int(self.info.n_prompts) // int(self.info.n_choices))


class _Generation(Generation):
    def __init__(
        self, request: Request, choice: int, session: Session, cancel: Cancel | None, goes_on: bool = False
    ) -> None:
        create = lib.qinfer_openai_generation_resume if goes_on else lib.qinfer_openai_generation_create
        self._create(lambda out: call(create, request, choice, session, cancel, out))


class Answer(Handle):
    """What becomes of a request. created: seconds since 1970."""

    _free = "qinfer_openai_answer_free"

    def __init__(self, request: Request, name: str, model: str, created: int) -> None:
        options = sized(_abi.qinfer_openai_answer_options, created=created)
        options.id = name.encode("utf-8")
        options.model = model.encode("utf-8")
        self._streams, self._room = request.streams, 1 << 16
        self._create(lambda out: call(lib.qinfer_openai_answer_create, request, ctypes.byref(options), out))

    def step(self, function: Any, choice: int, generation: _Generation) -> bool:
        """Whether the choice has ended."""
        ended = ctypes.c_int32()
        call(function, self, choice, generation, ctypes.byref(ended))
        return ended.value != 0

    def embed(self, prompt: int, session: Session, pooling: int) -> None:
        call(lib.qinfer_openai_answer_embed, self, prompt, session, pooling, None)

    def read(self) -> str:
        n, complete = ctypes.c_size_t(), ctypes.c_int32()
        while True:
            buffer = ctypes.create_string_buffer(self._room)
            try:
                call(lib.qinfer_openai_answer_bytes, self, buffer, self._room, ctypes.byref(n), ctypes.byref(complete))
                break
            except Exception:
                if n.value <= self._room:
                    raise
                self._room = n.value
        return buffer.raw[: n.value].decode("utf-8")

    def parse(self, data: str, kind: type[T]) -> list[T]:
        """Chunks, or the whole once it is complete."""
        if not self._streams:
            return [build(kind, json.loads(data))] if data else []
        events = [event.removeprefix("data: ") for event in data.split("\n\n")]
        return [build(kind, json.loads(event)) for event in events if event and event != "[DONE]"]


def _session_of(request: Request, cache: KvCache, model: Model) -> Session:
    """Room for any choice of the request."""
    info = request.info
    room = info.longest_prompt + info.max_new_tokens if info.max_new_tokens else 0
    wants_prompt = (info.flags & _abi.QINFER_OPENAI_PROMPT_LOGPROBS) != 0
    return Session(
        cache,
        max_tokens=min(room, model.info["context_tokens"]),
        max_logits=min(info.longest_prompt, _PROMPT_ROWS) if wants_prompt else 0,
        max_draft=MAX_DRAFT,
    )


def embed(model: Model, request: Request, answer: Answer, pooling: str, kind: type[T]) -> T:
    """The answer of a request for embeddings, prompt by prompt."""
    longest, number = request.info.longest_prompt, pooling_of(pooling)
    cache = KvCache(model, block_tokens=32, budget_blocks=longest // 32 + 2)
    with answer, Session(cache, max_tokens=longest, embeddings=True) as session:
        for prompt in range(request.info.n_prompts):
            answer.embed(prompt, session, number)
        return answer.parse(answer.read(), kind)[0]


class HasLeft(Exception):
    """Jobs have left their engine, as they were asked to."""


@dataclass(frozen=True)
class Left:
    """A choice of jobs that have left: its tokens, the prompt's too; and unless it has ended, or there was no memory for
    one, a session of them, which is the caller's to close."""

    tokens: list[int]
    ended: bool
    session: Session | None


class Jobs:
    """One request, whose choices an engine draws together. `put` gets bytes of the answer as text, on the engine's thread,
    and `end` the error that ended it, or None."""

    def __init__(
        self,
        request: Request,
        answer: Answer,
        engine: Engine,
        put: Callable[[str], object],
        end: Callable[[BaseException | None], object],
        timeout: float | None = None,
    ) -> None:
        self._timeout = timeout
        self._request, self._answer, self._engine, self._put, self._end = request, answer, engine, put, end
        self._grammar = Grammar.json_schema(engine.model, request.schema) if request.schema else None
        self._jobs: list[Job] = []
        self._left = request.info.n_choices
        self._failed: BaseException | None = None
        self._leaves = self._cancelled = False
        self._skipped = 0  # characters of the answer that another engine has given
        self.given = 0  # so far, by others too
        self.left: dict[int, Left] = {}  # by choice

    def submit(self, sessions: Sequence[Session] = (), given: int = 0, over: Sequence[bool] = ()) -> None:
        """Prompts whose log probabilities are wanted are evaluated here and now. sessions: to go on where another engine's
        jobs have left; for each choice one of all its tokens, which are the jobs' from now on, whatever becomes of them.
        `given`: as it was there. over: for each choice whether it had ended there."""
        self._skipped = given
        ready: list[Job] = []
        try:
            for choice in range(self._request.info.n_choices):
                job, ended = self._job(choice, sessions[choice], over[choice]) if sessions else self._job(choice)
                self._jobs.append(job)
                if ended:
                    self._note_left(choice, job.session, False)
                    self._left -= 1
                    job.close()
                else:
                    ready.append(job)
            self._give()
            for job in ready:
                self._engine.submit(job, timeout=self._timeout)
            if self._cancelled:  # by another thread, which found none yet
                self.cancel()
        except BaseException:
            self.cancel()
            for job in self._jobs:
                if not job.submitted:
                    job.close()
            for session in sessions[len(self._jobs) :]:
                session.close()
            raise
        if not ready:
            self._end(None)

    def _job(self, choice: int, drawn: Session | None = None, was_over: bool = False) -> tuple[Job, bool]:
        session = self.new_session() if drawn is None else drawn
        try:
            session.set_grammar(self._grammar)
            generation = _Generation(self._request, choice, session, None, drawn is not None)
            ended = self._answer.step(lib.qinfer_openai_answer_begin, choice, generation)
            if drawn is not None and not ended:
                ended = self._draw_again(choice, session, generation, was_over)
        except BaseException:
            session.close()
            raise
        over = [ended]

        def token(_: Any) -> None:
            if over[0]:
                return
            try:
                ends = self._answer.step(lib.qinfer_openai_answer_add, choice, generation)
                self._give()
                over[0] = ends  # with all its text, so that what comes between is an error
            except Exception as failure:  # noqa: BLE001 - raised again by the one who reads
                self._fail(failure)
            if over[0]:
                job.cancel()  # nothing where the generation has ended itself

        def end(error: BaseException | None) -> None:
            goes_on = self._leaves and isinstance(error, CancelledError) and not over[0]
            if error is not None and not over[0] and not goes_on:
                self._fail(error)
            try:
                self._note_left(choice, session, goes_on)
            except (Exception, SystemExit) as failure:  # noqa: BLE001 - of this request: the engine's others go on
                self._fail(failure)
            self._left -= 1
            if self._left == 0:
                going = any(not left.ended for left in self.left.values())
                self._end(self._failed or (HasLeft() if going else None))

        job = Job(session, generation, token, end)
        return job, ended

    def new_session(self) -> Session:
        """Room for any choice."""
        return _session_of(self._request, self._engine.cache, self._engine.model)

    def _draw_again(self, choice: int, session: Session, generation: _Generation, was_over: bool) -> bool:
        """What was drawn elsewhere, for the answer; whether the choice has ended with it. One that was at its limit has
        ended in a step without a token."""
        info, ended = sized(_abi.qinfer_token_info), False
        for _ in range(len(session) - len(self._request.prompt_of(choice)) + was_over):
            if ended:
                break
            call(lib.qinfer_generation_next, generation, ctypes.byref(info))
            ended = self._answer.step(lib.qinfer_openai_answer_add, choice, generation)
        return ended

    def leave(self) -> None:
        """From any thread: it ends as soon as it can, so that another engine goes on. HasLeft is its end where there is
        something to go on with, in `left`."""
        self._leaves = True
        self.cancel()

    def _note_left(self, choice: int, session: Session, goes_on: bool) -> None:
        if not goes_on:
            if self._request.info.n_choices > 1:
                self.left[choice] = Left(session.tokens, True, None)
            return
        fork = None
        with suppress(QinferError):  # the other engine evaluates the tokens then
            fork = session.fork()
        self.left[choice] = Left(session.tokens, False, fork)

    def _fail(self, error: BaseException) -> None:
        self._failed = self._failed or error
        self.cancel()

    def _give(self) -> None:
        data = self._answer.read()
        self.given += len(data)
        if self._skipped:
            self._skipped, data = max(0, self._skipped - len(data)), data[self._skipped :]
        if data:
            self._put(data)

    def cancel(self) -> None:
        self._cancelled = True
        for job in self._jobs:
            job.cancel()
