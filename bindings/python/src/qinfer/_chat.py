"""Conversations: replies taken apart, and turns of which only what is new is evaluated."""

from __future__ import annotations

import ctypes
import json
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._errors import CancelledError
from ._grammar import Grammar
from ._library import Handle, Held, call, expect, lib, read_text, sized, text_at
from ._model import Cancel, ChatPrompt, Model, Path, model_of
from ._session import Generated, Session
from ._stream import Stream

_KINDS = {1: "content", 2: "reasoning", 3: "call"}


@dataclass(frozen=True)
class Part:
    """A piece of a reply: "content" or "reasoning" with new text, or a "call" of a tool with its arguments as text."""

    kind: str
    text: str
    name: str = ""
    id: str = ""


class Reply(Handle):
    """Takes a reply apart while it comes: push() each token, then finish(); each gives the parts that are certain."""

    _free = "qinfer_reply_free"

    def __init__(self, model: Model, prompt: ChatPrompt) -> None:
        expect(ChatPrompt, prompt)
        options = sized(_abi.qinfer_reply_options)
        options.chat = ctypes.pointer(prompt.options)
        data = prompt.json
        with Held(prompt.cancel):
            self._create(
                lambda out: call(lib.qinfer_reply_create, model, data, len(data), ctypes.byref(options), out)
            )

    def push(self, token: int) -> list[Part]:
        call(lib.qinfer_reply_push, self, token)
        return self._parts()

    def finish(self) -> list[Part]:
        call(lib.qinfer_reply_finish, self)
        return self._parts()

    @property
    def message(self) -> dict[str, Any]:
        """What was pushed as a message, to add to the conversation."""
        out: dict[str, Any] = json.loads(read_text(lib.qinfer_reply_message, self))
        return out

    def _parts(self) -> list[Part]:
        parts: list[Part] = []
        part = sized(_abi.qinfer_reply_part)
        while True:
            call(lib.qinfer_reply_next, self, ctypes.byref(part))
            if part.kind == _abi.QINFER_PART_NONE:
                return parts
            text, name = text_at(part.text, part.text_len), text_at(part.name, part.name_len)
            parts.append(Part(_KINDS[part.kind], text, name, (part.id or b"").decode()))


class Chat:
    """A conversation with a model, or the one at a path. Each turn evaluates only what is new.

        chat = Chat(model)
        print(chat.send("What is the capital of France?"))

    messages may be changed between turns. variables are the template's, such as enable_thinking. A turn that fails takes
    its message back; of one that is left, or cancelled, the reply so far stays, if there is any."""

    def __init__(
        self,
        model: Model | Path,
        messages: Iterable[dict[str, Any]] = (),
        tools: Sequence[Mapping[str, Any]] | None = None,
        sampler: Mapping[str, Any] | None = None,
        variables: Mapping[str, Any] | None = None,
        max_tokens: int = 0,
        session: Session | None = None,
    ) -> None:
        self.model = model_of(model)
        expect(Model, self.model)
        self.messages, self.tools, self.max_tokens, self.session = list(messages), tools, max_tokens, session
        self.sampler, self.variables = dict(sampler or {}), dict(variables or {})
        self.result: Generated | None = None
        self._turn: Callable[[], Generator[Part, None, None] | None] = lambda: None  # the last, as long as it is referred to

    def send(self, content: str, **options: Any) -> str:
        """A message of the user; returns what the model says. Calls of tools are in messages[-1]["tool_calls"]."""
        for _ in self.stream(content, **options):
            pass
        return str(self.messages[-1].get("content") or "")

    def stream(
        self,
        content: str | None,
        *,
        max_tokens: int = 0,
        grammar: Grammar | None = None,
        cancel: Cancel | None = None,
    ) -> Generator[Part, None, None]:
        """The parts of the reply as they come. content None: a reply to messages as they are. Ends the turn before, if that
        was left."""
        before = self._turn()
        if before is not None:
            before.close()
        turn = self._stream(content, max_tokens or self.max_tokens, grammar, cancel)
        self._turn = weakref.ref(turn)
        return turn

    def _stream(
        self, content: str | None, max_tokens: int, grammar: Grammar | None, cancel: Cancel | None
    ) -> Generator[Part, None, None]:
        added = [] if content is None else [{"role": "user", "content": content}]
        self.messages += added
        try:
            prompt = ChatPrompt(self.messages, tools=self.tools, **self.variables)
            if self.session is None:
                self.session = Session(self.model)
                self.session.set_sampler(**self.sampler)
            self.session.set_tokens(self.model.tokenize_chat(self.messages, tools=self.tools, **self.variables))
            self.session.set_grammar(grammar)
            with Reply(self.model, prompt) as reply:
                yield from self._reply(self.session, reply, max_tokens, cancel)
        finally:
            if added and self.messages and self.messages[-1] is added[0]:
                self.messages.pop()

    def _reply(
        self, session: Session, reply: Reply, max_tokens: int, cancel: Cancel | None
    ) -> Generator[Part, None, None]:
        received, finished = 0, False

        def work(put: Callable[[Part | None], bool], ending: Cancel) -> None:
            def receive(token: int, _: str) -> bool:
                nonlocal received
                received += token >= 0
                return all([put(None), *(put(part) for part in reply.push(token))] if token >= 0 else [])

            nonlocal finished
            self.result = session.generate(max_tokens, on_token=receive, cancel=ending)
            finished = True
            for part in reply.finish():
                put(part)

        parts: Stream[Part] = Stream(session, work, cancel)
        try:
            yield from parts
        except (GeneratorExit, KeyboardInterrupt, CancelledError):
            parts.close()
            if received:
                if not finished:  # ended by an error, such as a request to cancel
                    reply.finish()
                self.messages.append(reply.message)
            raise
        finally:
            parts.close()
        self.messages.append(reply.message)
