"""Conversations: replies taken apart, and turns of which only what is new is evaluated."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, Self, Unpack

from . import _abi
from ._batch import Batch, Request, Source, engine_of, model_behind, samplers_of
from ._cancel import Cancel
from ._errors import CancelledError, ContextFullError
from ._grammar import Grammar
from ._library import checked_names, expect
from ._load import Path
from ._model import ChatPrompt, Message, Model
from ._options import ManyOptions, SamplerOptions, TurnOptions
from ._reply import Part, Reply
from ._results import Generated
from ._session import Session
from ._stream import Stream, follow


class SessionSource(Protocol):
    """What makes sessions of a model whose layers are elsewhere: qinfer.stages.Pipeline."""

    @property
    def model(self) -> Model: ...

    def session(self, max_tokens: int = 0, **sampler: Any) -> Any: ...


class Chat:
    """A conversation with a model, or the one at a path, or a pipeline of its stages. Each turn evaluates only what is new.

        chat = Chat(model, system="Be brief.")
        print(chat.send("What is the capital of France?"))

    messages may be changed between turns. variables are the template's, such as enable_thinking. A turn that fails takes
    its message back; of one that is left, or cancelled, the reply so far stays, if there is any."""

    def __init__(
        self,
        model: Model | SessionSource | Path,
        messages: Iterable[dict[str, Any]] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampler: SamplerOptions | None = None,
        variables: Mapping[str, Any] | None = None,
        max_tokens: int = 0,
        session: Session | None = None,
        *,
        system: str | None = None,
    ) -> None:
        self._source = Model(model) if isinstance(model, (str, os.PathLike)) else model
        self.model = self._source if isinstance(self._source, Model) else _model_of(self._source)
        self.messages, self.tools, self.max_tokens, self.session = list(messages), tools, max_tokens, session
        if system is not None:
            self.messages.insert(0, {"role": "system", "content": system})
        self.sampler: SamplerOptions = sampler if sampler is not None else {}
        self.variables = dict(variables or {})
        self.result: Generated | None = None
        self._own = session is None
        self._turn: Callable[[], Generator[Part, None, None] | None] = lambda: None  # the last, while it is referred to
        self._open: Callable[[], _Turn | None] = lambda: None

    @property
    def text(self) -> str:
        """What the model has said last, or "" where the last message is not the model's."""
        last = self.messages[-1] if self.messages else {}
        return str(last.get("content") or "") if last.get("role") == "assistant" else ""

    def close(self) -> None:
        """Ends a turn that was left, and frees the session, unless it was given; the messages stay."""
        self._end_turn()
        if self._own and self.session is not None:
            self.session.close()
            self.session = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, content: str, **options: Unpack[TurnOptions]) -> str:
        """A message of the user; returns what the model says. Calls of tools are in messages[-1]["tool_calls"]."""
        before = len(self.messages)
        for _ in self.stream(content, **options):
            pass
        # A model that ends its turn at once leaves no message.
        return str(self.messages[-1].get("content") or "") if len(self.messages) > before else ""

    def stream(self, content: str | None, **options: Unpack[TurnOptions]) -> Generator[Part, None, None]:
        """The parts of the reply as they come. content None: a reply to messages as they are. Ends the turn before, if that
        was left. A grammar is for the content: it begins after the reasoning, which max_reasoning_tokens bounds. reasoning
        False: it holds from the first token on, and nothing is taken for reasoning."""
        checked_names("stream", options, TurnOptions)
        self._end_turn()
        turn = self._stream(content, options)
        self._turn = weakref.ref(turn)
        return turn

    async def astream(self, content: str | None, **options: Unpack[TurnOptions]) -> AsyncIterator[Part]:
        """stream() for asyncio: the loop is free while the model computes."""
        checked_names("astream", options, TurnOptions)
        self._end_turn()
        with self._begun(content, options) as turn:
            parts = follow(turn.begin)
            with turn.ended():
                try:
                    async for part in parts:
                        yield part
                finally:
                    await parts.aclose()  # type: ignore[attr-defined]

    async def asend(self, content: str, **options: Unpack[TurnOptions]) -> str:
        """send() for asyncio."""
        before = len(self.messages)
        async for _ in self.astream(content, **options):
            pass
        return str(self.messages[-1].get("content") or "") if len(self.messages) > before else ""

    def _end_turn(self) -> None:
        before = self._turn()
        if before is not None:
            before.close()
        open_turn = self._open()  # of asyncio, whose generator is closed later
        if open_turn is not None:
            open_turn.leave()

    def _stream(self, content: str | None, options: TurnOptions) -> Generator[Part, None, None]:
        with self._begun(content, options) as turn:
            parts = turn.begin()
            with turn.ended():
                try:
                    yield from parts
                finally:
                    parts.close()

    @contextmanager
    def _begun(self, content: str | None, options: TurnOptions) -> Generator[_Turn, None, None]:
        """A turn; where it leaves no reply the user's message is taken back."""
        added = [] if content is None else [{"role": "user", "content": content}]
        self.messages += added
        try:
            prompt = ChatPrompt(self.messages, tools=self.tools, **self.variables)
            if self.session is None:
                self.session, self._own = self._source.session(**self.sampler), True
            self._set_tokens(self.session)
            self.session.set_grammar(options.get("grammar"))
            with Reply(self.model, prompt, reasoning=options.get("reasoning", True)) as reply:
                turn = _Turn(self, self.session, reply, added, options)
                self._open = weakref.ref(turn)
                yield turn
        finally:
            self._take_back(added)

    def _set_tokens(self, session: Session) -> None:
        tokens, most = self.model.tokenize_chat(self.messages, tools=self.tools, **self.variables), session.info["max_tokens"]
        if len(tokens) >= most:
            message = (
                f"the conversation has {len(tokens)} tokens with this message, and a context of {most} has no room for a "
                "reply: shorten or remove messages"
            )
            raise ContextFullError("QINFER_E_CONTEXT_FULL", _abi.QINFER_E_CONTEXT_FULL, message, len(tokens))
        session.set_tokens(tokens)

    def _take_back(self, added: list[dict[str, Any]]) -> None:
        """Of a turn that left no reply."""
        if added and self.messages and self.messages[-1] is added[0]:
            self.messages.pop()

    @classmethod
    def batch(
        cls,
        source: Source,
        conversations: Sequence[str | Sequence[Message] | Chat],
        *,
        system: str | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        variables: Mapping[str, Any] | None = None,
        max_tokens: int = 0,
        max_reasoning_tokens: int = 0,
        reasoning: bool = True,
        **options: Unpack[ManyOptions],
    ) -> list[Chat]:
        """Replies to many conversations, drawn together; each gets what it gets alone. A conversation is a first message of
        the user, a list of messages, or a Chat, whose messages, tools, variables and sampler are its own. Returns the Chat
        of each, with the reply as its last message: `[chat.text for chat in ...]`. The rest is as in qinfer.generate();
        where one fails, no conversation has changed. An engine that is given for many rounds keeps what they evaluated."""
        checked_names("batch", options, ManyOptions)
        if isinstance(conversations, str):
            raise TypeError("batch() takes a list of conversations, not one text")
        model = model_behind(source)
        begun = [
            one if isinstance(one, Chat) else cls(model, _messages_of(one), tools, None, variables, max_tokens, system=system)
            for one in conversations
        ]
        requests, rooms = [], []
        for chat, sampler in zip(begun, samplers_of(options, len(begun)), strict=True):
            prompt = ChatPrompt(chat.messages, tools=chat.tools, **chat.variables)
            tokens = model.tokenize_chat(chat.messages, tools=chat.tools, **chat.variables)
            own: SamplerOptions = chat.sampler.copy()
            own.update(sampler)
            requests.append(Request(tokens, own, Reply(model, prompt, reasoning=reasoning)))
            rooms.append(len(tokens) + max_tokens if max_tokens else 0)
        with engine_of(source if model_is_inside(source) else model, rooms) as engine:
            results = Batch(engine, max_tokens, options, len(requests), max_reasoning_tokens).run(requests)
        for chat, request, result in zip(begun, requests, results, strict=True):
            chat.result = result
            if result.new_tokens and request.message is not None:
                chat.messages.append(request.message)
        return begun


def _model_of(source: SessionSource) -> Model:
    if not hasattr(source, "session"):
        expect(Model, source)
    return source.model


def model_is_inside(source: Source) -> bool:
    """Whether it is more than a model or the path of one."""
    return hasattr(source, "model")


def _messages_of(conversation: str | Sequence[Message]) -> list[dict[str, Any]]:
    if isinstance(conversation, str):
        return [{"role": "user", "content": conversation}]
    return [dict(message) for message in conversation]


class _Turn:
    """A reply that is being drawn, on a thread of its own."""

    def __init__(
        self, chat: Chat, session: Session, reply: Reply, added: list[dict[str, Any]], options: TurnOptions
    ) -> None:
        self._chat, self._session, self._reply, self._added, self._options = chat, session, reply, added, options
        self._received, self._finished, self._settled = 0, False, False
        self._stream: Stream[Part] | None = None

    def begin(self, wake: Callable[[], object] = lambda: None) -> Stream[Part]:
        self._stream = Stream(self._session, self._work, self._options.get("cancel"), wake)
        return self._stream

    def _work(self, put: Callable[[Part | None], bool], ending: Cancel) -> None:
        def receive(token: int, _: str) -> bool:
            self._received += token >= 0
            return all([put(None), *(put(part) for part in self._reply.take())])

        self._chat.result = self._session.generate(
            self._options.get("max_tokens", 0) or self._chat.max_tokens,
            max_reasoning_tokens=self._options.get("max_reasoning_tokens", 0),
            reply=self._reply,
            on_token=receive,
            cancel=ending,
        )
        self._finished = True
        for part in self._reply.finish():
            put(part)

    @contextmanager
    def ended(self) -> Generator[None, None, None]:
        """After it the reply is the conversation's last message: the whole, or what there is where it was left."""
        try:
            yield
        except (GeneratorExit, KeyboardInterrupt, CancelledError, asyncio.CancelledError):
            self.leave()
            raise
        except BaseException:
            self._settled = True
            raise
        if not self._settled:
            self._settled = True
            self._chat.messages.append(self._reply.message)

    def leave(self) -> None:
        """Ends it. The reply so far becomes a message, if there is any; otherwise the user's message is taken back."""
        if self._settled:
            return
        self._settled = True
        if self._stream is not None:
            self._stream.close()
        if self._received:
            if not self._finished:  # ended by an error, such as a request to cancel
                self._reply.finish()
            self._chat.messages.append(self._reply.message)
        else:
            self._chat._take_back(self._added)
