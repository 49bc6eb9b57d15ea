"""OpenAI's interface on a local model and without their package: chat.completions, completions, embeddings. A Client of a
model draws each request by itself; one of an Engine, and every AsyncClient, draws the requests of all threads and tasks
together."""

from __future__ import annotations

import ctypes
import json
import queue
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._engine import AsyncEngine, Engine, Generation, Inbox, Job
from ._errors import CancelledError, QinferError
from ._grammar import Grammar
from ._library import Handle, Held, call, expect, lib, read_text, read_tokens, sized, text_at
from ._model import Cancel, ChatPrompt, Model, Path, model_of
from ._session import POOLINGS, Session
from ._stream import Stream

MAX_DRAFT = 8
_PROMPT_ROWS = 64  # of logits, where log probabilities of prompts are asked for
_PROMPT_OPTIONS = ("template", "template_name", "now", "plain_content")
_MORE_FIELDS = (
    "top_k", "min_p", "repetition_penalty", "chat_template_kwargs", "max_reasoning_tokens", "reasoning"
)  # fmt: skip


class Object(dict[str, Any]):
    """A dict whose members are attributes, too: response.choices[0].message.content."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


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

    def take(self) -> list[Object]:
        """Chunks, or the whole once it is complete."""
        return self.parse(self.read())

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

    def parse(self, data: str) -> list[Object]:
        if not self._streams:
            return [json.loads(data, object_hook=Object)] if data else []
        events = [event.removeprefix("data: ") for event in data.split("\n\n")]
        return [json.loads(event, object_hook=Object) for event in events if event and event != "[DONE]"]


class _Run:
    """One request that draws tokens."""

    def __init__(self, request: Request, answer: Answer, model: Model) -> None:
        self._request, self._answer = request, answer
        self._session = _session_of(request, model, model, MAX_DRAFT)
        self._grammar = Grammar.json_schema(model, request.schema) if request.schema else None

    def objects(self) -> Iterator[Object]:
        with self._session, self._request, self._answer:
            stream: Stream[Object] = Stream(self._session, self._work)
            try:
                yield from stream
            finally:
                stream.close()

    def _work(self, put: Callable[[Object | None], bool], ending: Cancel) -> None:
        info = sized(_abi.qinfer_token_info)

        def goes_on() -> bool:
            taken = self._answer.take()
            return all([put(item) for item in taken]) and put(None)

        with Held(ending):
            for choice in range(self._request.info.n_choices):
                self._session.set_grammar(self._grammar)
                with _Generation(self._request, choice, self._session, ending) as generation:
                    ended = self._answer.step(lib.qinfer_openai_answer_begin, choice, generation)
                    while goes_on() and not ended:
                        call(lib.qinfer_generation_next, generation, ctypes.byref(info))
                        ended = self._answer.step(lib.qinfer_openai_answer_add, choice, generation)
                if not goes_on():
                    return


def _session_of(request: Request, source: Any, model: Model, max_draft: int) -> Session:
    """Room for any choice of the request."""
    info = request.info
    room = info.longest_prompt + info.max_new_tokens if info.max_new_tokens else 0
    wants_prompt = (info.flags & _abi.QINFER_OPENAI_PROMPT_LOGPROBS) != 0
    return Session(
        source,
        max_tokens=min(room, model.info["context_tokens"]),
        max_logits=min(info.longest_prompt, _PROMPT_ROWS) if wants_prompt else 0,
        max_draft=max_draft,
    )


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
    ) -> None:
        self._request, self._answer, self._engine, self._put, self._end = request, answer, engine, put, end
        self._grammar = Grammar.json_schema(engine.model, request.schema) if request.schema else None
        self._jobs: list[Job] = []
        self._left = request.info.n_choices
        self._failed: BaseException | None = None
        self._leaves = self._cancelled = False
        self._skipped = 0  # characters of the answer that another engine has given
        self.given = 0  # so far, by others too
        self.left: dict[int, Left] = {}  # by choice

    def submit(self, sessions: Sequence[Session] = (), given: int = 0) -> None:
        """Prompts whose log probabilities are wanted are evaluated here and now. sessions: to go on where another engine's
        jobs have left; for each choice one of all its tokens, which are the jobs' from now on. `given`: as it was there."""
        self._skipped = given
        ready: list[Job] = []
        try:
            for choice in range(self._request.info.n_choices):
                session = sessions[choice] if sessions else None
                job, ended = self._job(choice, session)
                self._jobs.append(job)
                if ended:
                    self._note_left(choice, job.session, False)
                    self._left -= 1
                    job.close()
                else:
                    ready.append(job)
            self._give()
            for job in ready:
                self._engine.submit(job)
            if self._cancelled:  # by another thread, which found none yet
                self.cancel()
        except BaseException:
            self.cancel()
            for job in ready:
                if not job.submitted:
                    job.close()
            raise
        if not ready:
            self._end(None)

    def _job(self, choice: int, drawn: Session | None) -> tuple[Job, bool]:
        session = self.new_session() if drawn is None else drawn
        try:
            session.set_grammar(self._grammar)
            generation = _Generation(self._request, choice, session, None, drawn is not None)
            ended = self._answer.step(lib.qinfer_openai_answer_begin, choice, generation)
            if drawn is not None and not ended:
                ended = self._draw_again(choice, session, generation)
        except BaseException:
            session.close()
            raise
        over = [ended]

        def token(_: Any) -> None:
            if over[0]:
                return
            try:
                over[0] = self._answer.step(lib.qinfer_openai_answer_add, choice, generation)
                self._give()
            except Exception as failure:  # noqa: BLE001 - raised again by the one who reads
                self._fail(failure)
            if over[0]:
                job.cancel()  # nothing where the generation has ended itself

        def end(error: BaseException | None) -> None:
            goes_on = self._leaves and isinstance(error, CancelledError) and not over[0]
            if error is not None and not over[0] and not goes_on:
                self._fail(error)
            self._note_left(choice, session, goes_on)
            self._left -= 1
            if self._left == 0:
                going = any(not left.ended for left in self.left.values())
                self._end(self._failed or (HasLeft() if going else None))

        job = Job(session, generation, token, end)
        return job, ended

    def new_session(self) -> Session:
        """Room for any choice."""
        return _session_of(self._request, self._engine.cache, self._engine.model, MAX_DRAFT)

    def _draw_again(self, choice: int, session: Session, generation: _Generation) -> bool:
        """What was drawn elsewhere, for the answer; whether the choice has ended with it."""
        info, ended = sized(_abi.qinfer_token_info), False
        for _ in range(len(session) - len(self._request.prompt_of(choice))):
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


def _answer_of(request: Request, prefix: str, fields: Mapping[str, Any]) -> Answer:
    return Answer(request, f"{prefix}-{uuid.uuid4().hex}", fields.get("model") or "local", int(time.time()))


class _Route:
    def __init__(self, client: Client | AsyncClient) -> None:
        self._client = client

    def _request(self, kind: int, fields: dict[str, Any]) -> Request:
        """Fields that are None are as if they were not there; extra_body has more of them, and variables of the template."""
        extra = dict(fields.pop("extra_body", None) or {})
        with_prompt = {name: extra.pop(name) for name in _PROMPT_OPTIONS if name in extra}
        fields |= {name: extra.pop(name) for name in _MORE_FIELDS if name in extra}
        if extra:
            fields["chat_template_kwargs"] = {**extra, **(fields.get("chat_template_kwargs") or {})}
        data = json.dumps(fields, ensure_ascii=False).encode("utf-8")
        return Request(self._client.model, kind, data, ChatPrompt([], **with_prompt), new_seed())

    def _draw(self, kind: int, prefix: str, fields: dict[str, Any]) -> Any:
        request = self._request(kind, fields)
        answer = _answer_of(request, prefix, fields)
        engine = self._client.engine
        if isinstance(self._client, AsyncClient):
            return self._adraw(request, answer, self._client.engine)
        objects = _drawn(request, answer, engine) if engine else _Run(request, answer, self._client.model).objects()
        if request.streams:
            return objects
        (whole,) = objects
        return whole

    async def _adraw(self, request: Request, answer: Answer, engine: Engine) -> Any:
        """The whole answer, or an iterator once the request is submitted."""
        objects = _adrawn(request, answer, engine)
        if request.streams:
            return objects
        (whole,) = [item async for item in objects]
        return whole


def _drawn(request: Request, answer: Answer, engine: Engine) -> Iterator[Object]:
    items: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    jobs = Jobs(request, answer, engine, lambda data: items.put((True, data)), lambda end: items.put((False, end)))
    jobs.submit()
    try:
        while True:
            going, item = items.get()
            if going:
                yield from answer.parse(item)
            elif item is not None:
                raise item
            else:
                return
    finally:
        jobs.cancel()


async def _adrawn(request: Request, answer: Answer, engine: Engine) -> AsyncIterator[Object]:
    inbox = Inbox()
    jobs = Jobs(request, answer, engine, inbox.put, inbox.end)
    jobs.submit()
    try:
        async for data in inbox:
            for item in answer.parse(data):
                yield item
    finally:
        jobs.cancel()


class ChatCompletions(_Route):
    def create(self, *, messages: Any, **fields: Any) -> Any:
        """A chat completion, or with stream=True an iterator of chunks, of the members that the service gives. Fields are
        the service's, and top_k, min_p, repetition_penalty, max_reasoning_tokens and reasoning (False: none is looked
        for). UnsupportedError names one that is not honoured. extra_body: variables of the model's template, template,
        template_name, now, plain_content."""
        fields["messages"] = list(messages)
        return self._draw(_abi.QINFER_OPENAI_CHAT, "chatcmpl", fields)


class Completions(_Route):
    def create(self, *, prompt: Any, **fields: Any) -> Any:
        """A completion of a text, of tokens, or of a list of either; as of chats."""
        return self._draw(_abi.QINFER_OPENAI_COMPLETION, "cmpl", {**fields, "prompt": prompt})


class Embeddings(_Route):
    def create(self, *, input: Any, pooling: str = "default", **fields: Any) -> Any:  # noqa: A002 - the service's name
        """Embeddings of a text, of tokens, or of a list of either. pooling: as in Session.embedding()."""
        model = self._client.model
        with self._request(_abi.QINFER_OPENAI_EMBEDDINGS, {**fields, "input": input}) as request:
            answer = _answer_of(request, "embd", fields)
            with answer, Session(model, max_tokens=request.info.longest_prompt, embeddings=True) as session:
                for prompt in range(request.info.n_prompts):
                    answer.embed(prompt, session, POOLINGS[pooling])
                return answer.take()[0]


class _Chat:
    def __init__(self, client: Client | AsyncClient) -> None:
        self.completions = ChatCompletions(client)


class Client:
    """client = Client("path"); client.chat.completions.create(messages=[...]); client.completions; client.embeddings. Of an
    Engine: what several threads ask for is drawn together."""

    def __init__(self, model: Model | Path | Engine) -> None:
        self.engine = model if isinstance(model, Engine) else None
        self.model = model.model if isinstance(model, Engine) else model_of(model)
        expect(Model, self.model)
        self.chat, self.completions, self.embeddings = _Chat(self), Completions(self), Embeddings(self)


class AsyncClient:
    """client = AsyncClient(AsyncEngine("path")); await client.chat.completions.create(messages=[...]), and with
    stream=True `async for chunk in await ...`; client.completions. Embeddings are Client's."""

    def __init__(self, engine: AsyncEngine | Model | Path) -> None:
        self.engine: Engine = engine if isinstance(engine, Engine) else AsyncEngine(engine)
        self.model = self.engine.model
        self.chat, self.completions = _Chat(self), Completions(self)
