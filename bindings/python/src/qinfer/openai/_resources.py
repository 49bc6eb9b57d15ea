"""What a client has: chats, completions, embeddings and the list of models."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from .. import _abi
from .._engine import Engine
from .._model import ChatPrompt
from .._model import Model as LoadedModel
from ._answers import (
    ChatCompletion,
    ChatCompletionChunk,
    Completion,
    CreateEmbeddingResponse,
    Model,
    ModelPage,
    ParsedChatCompletion,
)
from ._draw import Answer, Request, embed, new_seed
from ._errors import answered
from ._fields import (
    ChatFields,
    CompletionFields,
    EmbeddingFields,
    Fields,
    Messages,
    ModelName,
    ParseFields,
)
from ._parsing import StreamManager, format_for, parsed
from ._streams import Stream

if TYPE_CHECKING:
    from ._client import _Base, _Sync

T = TypeVar("T")


def request_of(model: LoadedModel, kind: int, fields: Fields) -> Request:
    data = json.dumps(fields.body, ensure_ascii=False, default=_plain).encode("utf-8")
    return Request(model, kind, data, ChatPrompt([], **fields.prompt), new_seed())


def _plain(value: Any) -> Any:
    """Of objects of pydantic, and what else can be iterated, what JSON has for it."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if hasattr(value, "__iter__"):
        return list(value)
    raise TypeError(f"{value!r:.80} is nothing that JSON has")


def answer_to(request: Request, fields: Fields, prefix: str) -> Answer:
    model = str(fields.body.get("model") or "local")
    return Answer(request, f"{prefix}-{uuid.uuid4().hex}", model, int(time.time()))


class Resource:
    def __init__(self, client: _Base) -> None:
        self._client = client

    def _fields(self, given: dict[str, Any]) -> Fields:
        with answered():
            return Fields(given, self._client.timeout)

    def _engine(self, fields: Fields) -> Engine:
        with answered():
            return self._client._models.engine_of(fields.model)

    def _draw(self, kind: int, prefix: str, given: dict[str, Any], whole: type[Any], chunk: type[Any]) -> Any:
        fields = self._fields(given)
        engine = self._engine(fields)
        with answered():
            request = request_of(engine.model, kind, fields)
            answer = answer_to(request, fields, prefix)
        stream: Stream[Any] = Stream(request, answer, chunk if request.streams else whole, engine, fields.timeout)
        if request.streams:
            return stream
        (complete,) = stream
        return complete


class ChatCompletions(Resource):
    @overload
    def create(
        self, *, messages: Messages, model: ModelName = ..., stream: Literal[True], **fields: Unpack[ChatFields]
    ) -> Stream[ChatCompletionChunk]: ...

    @overload
    def create(
        self,
        *,
        messages: Messages,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[ChatFields],
    ) -> ChatCompletion: ...

    @overload
    def create(
        self, *, messages: Messages, model: ModelName = ..., stream: bool, **fields: Unpack[ChatFields]
    ) -> ChatCompletion | Stream[ChatCompletionChunk]: ...

    def create(self, **fields: Any) -> Any:
        """A chat completion, or with stream=True an iterator of chunks. UnsupportedError, which is a BadRequestError, names a
        field that is not honoured. Where a schema has "strict": true, its objects have no properties but those it names."""
        _needs("messages", fields)
        return self._draw(_abi.QINFER_OPENAI_CHAT, "chatcmpl", fields, ChatCompletion, ChatCompletionChunk)

    @overload
    def parse(
        self,
        *,
        messages: Messages,
        response_format: type[T],
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[T]: ...

    @overload
    def parse(
        self,
        *,
        messages: Messages,
        response_format: None = None,
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[Any]: ...

    def parse(
        self,
        *,
        messages: Messages,
        response_format: type[T] | None = None,
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[T] | ParsedChatCompletion[Any]:
        """create() with a class of pydantic's kind as response_format: message.parsed is an object of it, and of calls of
        tools that pydantic_function_tool() made function.parsed_arguments. LengthFinishReasonError where it was cut off."""
        given: dict[str, Any] = {**fields, **({"model": model} if model else {})}
        answer = self.create(messages=messages, **given, response_format=format_for(response_format))
        return parsed(answer, response_format, given.get("tools"))

    def stream(
        self, *, messages: Messages, model: ModelName = "", response_format: Any = None, **fields: Unpack[ParseFields]
    ) -> StreamManager:
        """A with statement's object, which gives events: "content.delta", "content.done" and so on."""
        given: dict[str, Any] = {**fields, **({"model": model} if model else {})}
        form = response_format if isinstance(response_format, dict) else format_for(response_format)
        chunks = lambda: self.create(messages=messages, stream=True, **given, response_format=form)  # noqa: E731
        return StreamManager(chunks, response_format, given.get("tools"))


class Chat:
    def __init__(self, client: _Sync) -> None:
        self.completions = ChatCompletions(client)


class Completions(Resource):
    @overload
    def create(
        self, *, prompt: Any, model: ModelName = ..., stream: Literal[True], **fields: Unpack[CompletionFields]
    ) -> Stream[Completion]: ...

    @overload
    def create(
        self,
        *,
        prompt: Any,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[CompletionFields],
    ) -> Completion: ...

    @overload
    def create(
        self, *, prompt: Any, model: ModelName = ..., stream: bool, **fields: Unpack[CompletionFields]
    ) -> Completion | Stream[Completion]: ...

    def create(self, **fields: Any) -> Any:
        """A completion of a text, of tokens, or of a list of either; as of chats."""
        _needs("prompt", fields)
        return self._draw(_abi.QINFER_OPENAI_COMPLETION, "cmpl", fields, Completion, Completion)


class Embeddings(Resource):
    def create(
        self,
        *,
        input: str | Sequence[Any],  # noqa: A002 - the service's name
        model: ModelName = "",
        **fields: Unpack[EmbeddingFields],
    ) -> CreateEmbeddingResponse:
        """Embeddings of a text, of tokens, or of a list of either."""
        given: dict[str, Any] = {"input": input, **fields, **({"model": model} if model else {})}
        pooling = given.pop("pooling", "default")
        prepared = self._fields(given)
        with answered():
            source = self._client._models.model_of(prepared.model)
            with request_of(source, _abi.QINFER_OPENAI_EMBEDDINGS, prepared) as request:
                answer = answer_to(request, prepared, "embd")
                return embed(source, request, answer, pooling, CreateEmbeddingResponse)


class ModelList:
    def __init__(self, client: _Sync) -> None:
        self._client = client

    def list(self) -> ModelPage:
        """The models that names are known of, and those that were asked for."""
        return self._client._models.listed()

    def retrieve(self, model: str) -> Model:
        with answered():
            return self._client._models.found(model)


def _needs(name: str, fields: dict[str, Any]) -> None:
    if name not in fields:
        raise TypeError(f"create() needs the argument {name!r}")
