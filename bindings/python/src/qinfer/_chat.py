"""Conversations: replies taken apart, and turns of which only what is new is evaluated."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from ._errors import CancelledError
from ._grammar import Grammar
from ._library import expect
from ._model import Cancel, ChatPrompt, Model, Path, model_of
from ._reply import Part, Reply
from ._session import Generated, Session
from ._stream import Stream

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
        before = len(self.messages)
        for _ in self.stream(content, **options):
            pass
        # A model that ends its turn at once leaves no message.
        return str(self.messages[-1].get("content") or "") if len(self.messages) > before else ""

    def stream(
        self,
        content: str | None,
        *,
        max_tokens: int = 0,
        grammar: Grammar | None = None,
        cancel: Cancel | None = None,
        max_reasoning_tokens: int = 0,
        reasoning: bool = True,
    ) -> Generator[Part, None, None]:
        """The parts of the reply as they come. content None: a reply to messages as they are. Ends the turn before, if that
        was left. A grammar is for the content: it begins after the reasoning, which max_reasoning_tokens bounds. reasoning
        False: it holds from the first token on, and nothing is taken for reasoning."""
        before = self._turn()
        if before is not None:
            before.close()
        limits = {"max_tokens": max_tokens or self.max_tokens, "max_reasoning_tokens": max_reasoning_tokens}
        turn = self._stream(content, limits, grammar, reasoning, cancel)
        self._turn = weakref.ref(turn)
        return turn

    def _stream(
        self,
        content: str | None,
        limits: Mapping[str, Any],
        grammar: Grammar | None,
        reasoning: bool,
        cancel: Cancel | None,
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
            with Reply(self.model, prompt, reasoning=reasoning) as reply:
                yield from self._reply(self.session, reply, limits, cancel)
        finally:
            if added and self.messages and self.messages[-1] is added[0]:
                self.messages.pop()

    def _reply(
        self, session: Session, reply: Reply, limits: Mapping[str, Any], cancel: Cancel | None
    ) -> Generator[Part, None, None]:
        received, finished = 0, False

        def work(put: Callable[[Part | None], bool], ending: Cancel) -> None:
            def receive(token: int, _: str) -> bool:
                nonlocal received
                received += token >= 0
                return all([put(None), *(put(part) for part in reply.take())])

            nonlocal finished
            self.result = session.generate(**limits, reply=reply, on_token=receive, cancel=ending)
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
