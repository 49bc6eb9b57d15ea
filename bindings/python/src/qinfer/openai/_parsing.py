"""Answers as objects of classes, and streams as events with what was said so far."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, Self

from ._answers import ChatCompletion, ChatCompletionChunk, ParsedChatCompletion
from ._errors import LengthFinishReasonError
from ._object import Object, build
from ._streams import AsyncStream, Stream
from ._strict import format_of, models_of, parsed_by


def format_for(kind: Any) -> Any:
    """A response_format; None for none."""
    return kind if kind is None or isinstance(kind, dict) else format_of(kind)


def parsed(answer: ChatCompletion, kind: Any, tools: Any) -> ParsedChatCompletion[Any]:
    out = build(ParsedChatCompletion, json.loads(answer.model_dump_json(exclude_unset=True)))
    models = models_of(tools)
    for choice in out.choices:
        if choice.finish_reason == "length":
            raise LengthFinishReasonError(completion=answer)
        message = choice.message
        wanted = kind is not None and not isinstance(kind, dict) and message.content and not message.refusal
        message["parsed"] = parsed_by(kind, message.content or "") if wanted else None
        for call in message.tool_calls or ():
            model = models.get(call.function.name)
            call.function["parsed_arguments"] = parsed_by(model, call.function.arguments) if model else None
    return out


class Event(Object):
    """What a stream's manager gives. type: "chunk" (chunk, snapshot), "content.delta" (delta, snapshot), "content.done"
    (content, parsed), "tool_calls.function.arguments.delta" (name, index, arguments, arguments_delta) and
    "tool_calls.function.arguments.done" (name, index, arguments, parsed_arguments)."""

    type: str
    chunk: ChatCompletionChunk
    snapshot: Any
    delta: str
    content: str
    parsed: Any
    name: str
    index: int
    arguments: str
    arguments_delta: str
    parsed_arguments: Any


class _State:
    """The answer as far as it has come."""

    def __init__(self, kind: Any, tools: Any) -> None:
        self._kind, self._tools = kind, tools
        self.snapshot: dict[str, Any] = {}

    def add(self, chunk: ChatCompletionChunk) -> Iterator[Event]:
        if not self.snapshot:
            self.snapshot = {"id": chunk.id, "object": "chat.completion", "created": chunk.created, "model": chunk.model}
            self.snapshot |= {"choices": [], "usage": None}
        if chunk.usage is not None:
            self.snapshot["usage"] = chunk.usage
        yield Event(type="chunk", chunk=chunk, snapshot=self.completion)
        for choice in chunk.choices:
            yield from self._add_choice(choice)

    def _add_choice(self, choice: Any) -> Iterator[Event]:
        choices = self.snapshot["choices"]
        while len(choices) <= choice.index:
            choices.append({"index": len(choices), "finish_reason": None, "message": {"role": "assistant", "content": None}})
        kept, message = choices[choice.index], choices[choice.index]["message"]
        for name in ("content", "reasoning_content"):
            text = choice.delta.get(name)
            if text:
                message[name] = (message.get(name) or "") + text
                if name == "content":
                    yield Event(type="content.delta", delta=text, snapshot=message[name], parsed=None)
        for call in choice.delta.tool_calls or ():
            yield from _add_call(message.setdefault("tool_calls", []), call)
        if choice.logprobs is not None:
            logprobs = kept.setdefault("logprobs", {"content": [], "refusal": None})
            logprobs["content"] += choice.logprobs.content or []
        if choice.finish_reason is not None:
            kept["finish_reason"] = choice.finish_reason
            yield from self._done(message)

    def _done(self, message: dict[str, Any]) -> Iterator[Event]:
        if message["content"] is not None:
            known = self._kind is not None and not isinstance(self._kind, dict)
            made = parsed_by(self._kind, message["content"]) if known else None
            yield Event(type="content.done", content=message["content"], parsed=made)
        for index, call in enumerate(message.get("tool_calls", ())):
            model = models_of(self._tools).get(call["function"]["name"])
            made = parsed_by(model, call["function"]["arguments"]) if model else None
            yield Event(
                type="tool_calls.function.arguments.done", index=index, parsed_arguments=made, **call["function"]
            )

    @property
    def completion(self) -> ChatCompletion:
        return build(ChatCompletion, self.snapshot)

    def final(self) -> ParsedChatCompletion[Any]:
        return parsed(self.completion, self._kind, self._tools)


def _add_call(calls: list[dict[str, Any]], call: Any) -> Iterator[Event]:
    while len(calls) <= call.index:
        calls.append({"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    kept, function = calls[call.index], call.function
    kept["id"] = call.id or kept["id"]
    if function is not None:
        inside = kept["function"]
        inside["name"] += function.name or ""
        inside["arguments"] += function.arguments or ""
        if function.arguments:
            yield Event(
                type="tool_calls.function.arguments.delta",
                name=inside["name"],
                index=call.index,
                arguments=inside["arguments"],
                arguments_delta=function.arguments,
            )


class EventStream(Iterator[Event]):
    """Events of an answer, and the whole of it at the end."""

    def __init__(self, chunks: Stream[ChatCompletionChunk], state: _State) -> None:
        self._chunks, self._state = chunks, state
        self._events = (event for chunk in chunks for event in state.add(chunk))

    def __next__(self) -> Event:
        return next(self._events)

    @property
    def current_completion_snapshot(self) -> ChatCompletion:
        return self._state.completion

    def until_done(self) -> Self:
        for _ in self:
            pass
        return self

    def get_final_completion(self) -> ParsedChatCompletion[Any]:
        return self.until_done()._state.final()

    def close(self) -> None:
        self._chunks.close()


class StreamManager:
    """with client.chat.completions.stream(...) as stream: for event in stream: ..."""

    def __init__(self, begin: Callable[[], Stream[ChatCompletionChunk]], kind: Any, tools: Any) -> None:
        self._begin, self._state = begin, _State(kind, tools)
        self._chunks: Stream[ChatCompletionChunk] | None = None

    def __enter__(self) -> EventStream:
        self._chunks = self._begin()
        return EventStream(self._chunks, self._state)

    def __exit__(self, *_: object) -> None:
        if self._chunks is not None:
            self._chunks.close()


class AsyncEventStream(AsyncIterator[Event]):
    """The same for asyncio."""

    def __init__(self, chunks: AsyncStream[ChatCompletionChunk], state: _State) -> None:
        self._chunks, self._state = chunks, state
        self._events = self._all()

    async def _all(self) -> AsyncIterator[Event]:
        async for chunk in self._chunks:
            for event in self._state.add(chunk):
                yield event

    async def __anext__(self) -> Event:
        return await anext(self._events)

    @property
    def current_completion_snapshot(self) -> ChatCompletion:
        return self._state.completion

    async def until_done(self) -> Self:
        async for _ in self:
            pass
        return self

    async def get_final_completion(self) -> ParsedChatCompletion[Any]:
        return (await self.until_done())._state.final()

    async def close(self) -> None:
        await self._chunks.close()


class AsyncStreamManager:
    """async with client.chat.completions.stream(...) as stream: async for event in stream: ..."""

    def __init__(self, begin: Callable[[], Awaitable[AsyncStream[ChatCompletionChunk]]], kind: Any, tools: Any) -> None:
        self._begin, self._state = begin, _State(kind, tools)
        self._chunks: AsyncStream[ChatCompletionChunk] | None = None

    async def __aenter__(self) -> AsyncEventStream:
        self._chunks = await self._begin()
        return AsyncEventStream(self._chunks, self._state)

    async def __aexit__(self, *_: object) -> None:
        if self._chunks is not None:
            await self._chunks.close()
