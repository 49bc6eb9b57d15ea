"""chat.completions.create() as programs for OpenAI's service call it, on a local model and without their package."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._grammar import Grammar
from ._library import expect
from ._model import Cancel, ChatPrompt, Message, Model, Path, model_of
from ._reply import Part, Reply
from ._session import Generated, Session
from ._stream import Stream

_FINISHES = {"end": "stop", "stop": "stop", "length": "length", "callback": "stop"}


class Object(dict[str, Any]):
    """A dict whose members are attributes, too: response.choices[0].message.content."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class _StopTexts:
    """Passes text on up to the first stop text, and holds back what may begin one."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop, self._held, self.found = [text for text in stop if text], "", False

    def push(self, text: str) -> str:
        self._held += text
        places = [at for at in (self._held.find(stop) for stop in self._stop) if at >= 0]
        if places:
            self.found = True
            return self._take(min(places))
        longest = max((len(stop) for stop in self._stop), default=1) - 1
        for keep in range(min(longest, len(self._held)), 0, -1):
            if any(stop.startswith(self._held[-keep:]) for stop in self._stop):
                return self._take(len(self._held) - keep)
        return self._take(len(self._held))

    def _take(self, n: int) -> str:
        taken, self._held = self._held[:n], self._held[n:]
        return taken

    def finish(self) -> str:
        return "" if self.found else self._take(len(self._held))


def _call_of(part: Part, index: int) -> dict[str, Any]:
    function = {"name": part.name, "arguments": part.text}
    return Object(index=index, id=part.id, type="function", function=Object(function))


class Completions:
    def __init__(self, model: Model) -> None:
        self._model = model

    def create(
        self,
        *,
        messages: Sequence[Message],
        model: str = "",
        stream: bool = False,
        max_tokens: int | None = None,
        max_completion_tokens: int | None = None,
        temperature: float = 1.0,
        top_p: float | None = None,
        seed: int | None = None,
        stop: str | Sequence[str] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        response_format: Mapping[str, Any] | None = None,
        presence_penalty: float = 0,
        frequency_penalty: float = 0,
        extra_body: Mapping[str, Any] | None = None,
        max_reasoning_tokens: int = 0,
        reasoning: bool = True,
    ) -> Any:
        """A completion, or with stream an iterator of chunks. extra_body: variables of the model's template. The members
        are those of the service; what it has besides these parameters is refused by Python as an unknown argument. The
        last two are as in Chat.stream()."""
        prompt = ChatPrompt(messages, tools=tools, **(extra_body or {}))
        tokens = self._model.tokenize_chat(messages, tools=tools, **(extra_body or {}))
        limit = max_completion_tokens or max_tokens or 0
        room = len(tokens) + limit if limit else 0
        session = Session(self._model, max_tokens=min(room, self._model.info["context_tokens"]))
        session.set_sampler(
            temperature=temperature,
            top_p=0.0 if top_p is None or top_p >= 1 else top_p,
            seed=seed if seed is not None else uuid.uuid4().int & (2**64 - 1),
            presence_penalty=presence_penalty,
            frequency_penalty=frequency_penalty,
        )
        session.append(tokens)
        session.set_grammar(self._grammar(response_format))
        stops = [stop] if isinstance(stop, str) else list(stop or ())
        limits = {"max_tokens": limit, "max_reasoning_tokens": max_reasoning_tokens}
        run = _Run(self._model, session, prompt, limits, reasoning, stops, model)
        return run.chunks() if stream else run.completion()

    def _grammar(self, response_format: Mapping[str, Any] | None) -> Grammar | None:
        kind = (response_format or {}).get("type", "text")
        if kind == "text":
            return None
        if kind == "json_object":
            return Grammar.json_schema(self._model, {"type": "object"})
        if kind == "json_schema":
            return Grammar.json_schema(self._model, (response_format or {})["json_schema"]["schema"])
        raise ValueError(f'response_format type is {kind!r}, expected "text", "json_object" or "json_schema"')


class _Run:
    """One completion."""

    def __init__(
        self,
        model: Model,
        session: Session,
        prompt: ChatPrompt,
        limits: Mapping[str, Any],
        reasoning: bool,
        stop: list[str],
        name: str,
    ) -> None:
        self.model, self.session, self.prompt, self.limits, self.reasoning = model, session, prompt, limits, reasoning
        self.stop = _StopTexts(stop)
        self.head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": name or "local"}
        self.n_calls = 0
        self.result: Generated | None = None

    def deltas(self) -> Iterator[dict[str, Any]]:
        with self.session, Reply(self.model, self.prompt, reasoning=self.reasoning) as reply:

            def work(put: Any, ending: Cancel) -> None:
                def receive(token: int, _: str) -> bool:
                    going = all([put(delta) for part in reply.take() for delta in self.deltas_of(part)])
                    return going and not self.stop.found

                self.result = self.session.generate(**self.limits, reply=reply, on_token=receive, cancel=ending)
                for part in reply.finish():
                    for delta in self.deltas_of(part):
                        put(delta)

            stream: Stream[dict[str, Any]] = Stream(self.session, work)
            try:
                yield from stream
            finally:
                stream.close()
        rest = self.stop.finish()
        if rest:
            yield {"content": rest}

    def deltas_of(self, part: Part) -> list[dict[str, Any]]:
        if part.kind == "call":
            self.n_calls += 1
            return [{"tool_calls": [_call_of(part, self.n_calls - 1)]}]
        if part.kind == "reasoning":
            return [{"reasoning_content": part.text}]
        text = "" if self.stop.found else self.stop.push(part.text)
        return [{"content": text}] if text else []

    def finish_reason(self) -> str:
        if self.n_calls:
            return "tool_calls"
        return "stop" if self.stop.found or self.result is None else _FINISHES[self.result.finish]

    def usage(self) -> Object:
        prompt, new = (self.result.prompt_tokens, self.result.new_tokens) if self.result else (0, 0)
        details = Object(reasoning_tokens=self.result.reasoning_tokens if self.result else 0)
        return Object(
            prompt_tokens=prompt,
            completion_tokens=new,
            total_tokens=prompt + new,
            completion_tokens_details=details,
        )

    def chunks(self) -> Iterator[Object]:
        def chunk(delta: dict[str, Any], finish: str | None) -> Object:
            choice = Object(index=0, delta=Object(delta), finish_reason=finish)
            return Object(self.head, object="chat.completion.chunk", choices=[choice])

        yield chunk({"role": "assistant", "content": ""}, None)
        for delta in self.deltas():
            yield chunk(delta, None)
        yield chunk({}, self.finish_reason())

    def completion(self) -> Object:
        message = Object(role="assistant", content="")
        for delta in self.deltas():
            for name, value in delta.items():
                message[name] = message[name] + value if name in message else value
        choice = Object(index=0, message=message, finish_reason=self.finish_reason())
        return Object(self.head, object="chat.completion", choices=[choice], usage=self.usage())


class _Chat:
    def __init__(self, model: Model) -> None:
        self.completions = Completions(model)


class Client:
    """client = Client("path"); client.chat.completions.create(messages=[...])"""

    def __init__(self, model: Model | Path) -> None:
        self.model = model_of(model)
        expect(Model, self.model)
        self.chat = _Chat(self.model)
