"""client.responses: the service's newer interface, over chat completions, of which nothing is stored."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NoReturn, TypeVar, Unpack, overload

from .. import _abi
from .._engine import Engine
from .._model import Model
from ._answers import ChatCompletionChunk
from ._async_resources import AsyncResource
from ._draw import Answer, Request
from ._errors import answered
from ._fields import CallFields, Fields, ModelName
from ._object import build
from ._resources import Resource, _needs, _plain, answer_to, request_of
from ._responses_events import Events
from ._responses_request import Asked, chat_of
from ._responses_types import ParsedResponse, Response, ResponseStreamEvent
from ._streams import AsyncStream, Stream
from ._strict import models_of, parsed_by, schema_of

T = TypeVar("T")
Input = str | Iterable[Mapping[str, Any]]
_STORED = ("retrieve", "delete", "cancel", "input_items", "input_tokens", "compact", "connect", "stream")


class ParseResponseFields(CallFields, total=False):
    """A response's fields, but those that functions have parameters for. What would need a stored response, or a tool that a
    server runs, is refused by name; those of log probabilities, too."""

    instructions: str | None
    max_output_tokens: int | None
    temperature: float | None
    top_p: float | None
    tools: Iterable[Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    reasoning: Mapping[str, Any] | None
    text: Mapping[str, Any] | None
    metadata: Mapping[str, str] | None
    store: bool | None
    include: Sequence[str] | None
    truncation: Literal["disabled"] | None
    stream_options: Mapping[str, Any] | None
    max_tool_calls: int | None
    service_tier: str | None
    safety_identifier: str | None
    prompt_cache_key: str | None
    prompt_cache_options: Mapping[str, Any] | None
    prompt_cache_retention: str | None


class ResponseFields(ParseResponseFields, total=False):
    background: bool | None
    context_management: Iterable[Mapping[str, Any]] | None
    conversation: Any
    moderation: Mapping[str, Any] | None
    previous_response_id: str | None
    prompt: Mapping[str, Any] | None
    top_logprobs: int | None


class _Translated:
    """What streams make of the chunks of a chat completion: the events of a response."""

    events: Events
    _answer: Answer

    def _parse(self, data: str) -> list[ResponseStreamEvent]:
        chunks = self._answer.parse(data, ChatCompletionChunk)
        return [event for chunk in chunks for event in self.events.add(chunk)]

    def _rest(self) -> list[ResponseStreamEvent]:
        return self.events.end()


class ResponseStream(_Translated, Stream[ResponseStreamEvent]):
    """The events of a response."""

    def __init__(self, request: Request, answer: Answer, asked: Asked, engine: Engine, timeout: float | None) -> None:
        self.events = Events(asked)
        super().__init__(request, answer, ChatCompletionChunk, engine, timeout)


class AsyncResponseStream(_Translated, AsyncStream[ResponseStreamEvent]):
    """The same for asyncio."""

    def __init__(self, request: Request, answer: Answer, asked: Asked, engine: Engine, timeout: float | None) -> None:
        self.events = Events(asked)
        super().__init__(request, answer, ChatCompletionChunk, engine, timeout)


def _chat_fields(fields: Fields) -> Asked:
    """Leaves the fields those of a chat completion."""
    with answered():
        asked = chat_of(json.loads(json.dumps(fields.body, ensure_ascii=False, default=_plain)))
        fields.body = asked.chat
        return asked


def _prepared(model: Model, fields: Fields) -> tuple[Request, Answer]:
    with answered():
        request = request_of(model, _abi.QINFER_OPENAI_CHAT, fields)
        return request, answer_to(request, fields, "resp")


def _missing(name: str) -> NoReturn:
    if name in _STORED:
        raise AttributeError(f"responses has no {name!r}: nothing is stored, and no server is there; it has create and parse")
    raise AttributeError(f"'Responses' object has no attribute {name!r}")


class Responses(Resource):
    @overload
    def create(
        self, *, input: Input, model: ModelName = ..., stream: Literal[True], **fields: Unpack[ResponseFields]
    ) -> Stream[ResponseStreamEvent]: ...

    @overload
    def create(
        self,
        *,
        input: Input,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[ResponseFields],
    ) -> Response: ...

    @overload
    def create(
        self, *, input: Input, model: ModelName = ..., stream: bool, **fields: Unpack[ResponseFields]
    ) -> Response | Stream[ResponseStreamEvent]: ...

    def create(self, **fields: Any) -> Any:
        """A response, or with stream=True an iterator of events. Nothing is stored: `input` has the whole conversation, with
        what the responses before have put out. UnsupportedError, which is a BadRequestError, names a field that is not
        honoured, FormatError one whose value is wrong."""
        _needs("input", fields)
        prepared = self._fields(fields)
        asked = _chat_fields(prepared)
        engine = self._engine(prepared)
        request, answer = _prepared(engine.model, prepared)
        stream = ResponseStream(request, answer, asked, engine, prepared.timeout)
        if asked.streams:
            return stream
        for _ in stream:
            pass
        return stream.events.response

    @overload
    def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: type[T],
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[T]: ...

    @overload
    def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: None = None,
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[Any]: ...

    def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: type[T] | None = None,
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[T] | ParsedResponse[Any]:
        """create() with a class of pydantic's kind as text_format: output_parsed is an object of it, and of calls of tools
        that pydantic_function_tool() made parsed_arguments. None where the response is incomplete."""
        given = _with_format({**fields, **({"model": model} if model else {})}, text_format)
        return _parsed(self.create(input=input, **given), text_format, fields.get("tools"))

    def __getattr__(self, name: str) -> Any:
        _missing(name)


class AsyncResponses(AsyncResource):
    @overload
    async def create(
        self, *, input: Input, model: ModelName = ..., stream: Literal[True], **fields: Unpack[ResponseFields]
    ) -> AsyncStream[ResponseStreamEvent]: ...

    @overload
    async def create(
        self,
        *,
        input: Input,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[ResponseFields],
    ) -> Response: ...

    @overload
    async def create(
        self, *, input: Input, model: ModelName = ..., stream: bool, **fields: Unpack[ResponseFields]
    ) -> Response | AsyncStream[ResponseStreamEvent]: ...

    async def create(self, **fields: Any) -> Any:
        """As Responses.create(); stream=True gives an asynchronous iterator."""
        _needs("input", fields)
        prepared = self._fields(fields)
        asked = _chat_fields(prepared)
        model = await self._amodel(prepared)
        engine = self._engine(prepared)
        request, answer = _prepared(model, prepared)
        stream = AsyncResponseStream(request, answer, asked, engine, prepared.timeout)
        if asked.streams:
            return stream
        async for _ in stream:
            pass
        return stream.events.response

    @overload
    async def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: type[T],
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[T]: ...

    @overload
    async def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: None = None,
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[Any]: ...

    async def parse(
        self,
        *,
        input: Input,  # noqa: A002 - the service's name
        text_format: type[T] | None = None,
        model: ModelName = "",
        **fields: Unpack[ParseResponseFields],
    ) -> ParsedResponse[T] | ParsedResponse[Any]:
        """As Responses.parse()."""
        given = _with_format({**fields, **({"model": model} if model else {})}, text_format)
        return _parsed(await self.create(input=input, **given), text_format, fields.get("tools"))

    def __getattr__(self, name: str) -> Any:
        _missing(name)


def _with_format(given: dict[str, Any], kind: Any) -> dict[str, Any]:
    """The fields with the schema of a class, and with tools of chats as responses have them."""
    if kind is not None:
        text = dict(given.get("text") or {})
        if text.get("format") is not None:
            raise TypeError("parse() takes text_format or text with a format, and not both")
        text["format"] = {"type": "json_schema", "name": kind.__name__, "strict": True, "schema": schema_of(kind)}
        given["text"] = text
    if given.get("tools") is not None:
        given["tools"] = [
            {"type": "function", **tool["function"]} if isinstance(tool.get("function"), Mapping) else tool
            for tool in given["tools"]
        ]
    return given


def _parsed(response: Response, kind: Any, tools: Any) -> ParsedResponse[Any]:
    out = build(ParsedResponse, json.loads(response.model_dump_json(exclude_unset=True)))
    models = models_of(tools)
    for item in out.output:
        if item.type == "message" and kind is not None and item.status == "completed":
            for part in item.content:
                part["parsed"] = parsed_by(kind, part.text)
        elif item.type == "function_call":
            model = models.get(item.name)
            item["parsed_arguments"] = parsed_by(model, item.arguments) if model else None
    return out
