"""The same as _resources.py for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, overload

from .. import _abi
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
from ._draw import embed
from ._errors import answered
from ._fields import ChatFields, CompletionFields, EmbeddingFields, Fields, Messages, ModelName, ParseFields
from ._parsing import AsyncStreamManager, format_for, parsed
from ._resources import Resource, _needs, answer_to, request_of
from ._streams import AsyncStream

if TYPE_CHECKING:
    from ._client import _Async

T = TypeVar("T")


class AsyncResource(Resource):
    async def _amodel(self, fields: Fields) -> LoadedModel:
        """A model that must be loaded is, on a thread."""
        with answered():
            models = self._client._models
            if models.is_ready(fields.model):
                return models.model_of(fields.model)
            return await asyncio.to_thread(models.model_of, fields.model)

    async def _adraw(self, kind: int, prefix: str, given: dict[str, Any], whole: type[Any], chunk: type[Any]) -> Any:
        fields = self._fields(given)
        model = await self._amodel(fields)
        engine = self._engine(fields)
        with answered():
            request = request_of(model, kind, fields)
            answer = answer_to(request, fields, prefix)
        stream: AsyncStream[Any] = AsyncStream(request, answer, chunk if request.streams else whole, engine, fields.timeout)
        if request.streams:
            return stream
        (complete,) = [one async for one in stream]
        return complete


class AsyncChatCompletions(AsyncResource):
    @overload
    async def create(
        self, *, messages: Messages, model: ModelName = ..., stream: Literal[True], **fields: Unpack[ChatFields]
    ) -> AsyncStream[ChatCompletionChunk]: ...

    @overload
    async def create(
        self,
        *,
        messages: Messages,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[ChatFields],
    ) -> ChatCompletion: ...

    @overload
    async def create(
        self, *, messages: Messages, model: ModelName = ..., stream: bool, **fields: Unpack[ChatFields]
    ) -> ChatCompletion | AsyncStream[ChatCompletionChunk]: ...

    async def create(self, **fields: Any) -> Any:
        """As ChatCompletions.create(); stream=True gives an asynchronous iterator."""
        _needs("messages", fields)
        return await self._adraw(_abi.QINFER_OPENAI_CHAT, "chatcmpl", fields, ChatCompletion, ChatCompletionChunk)

    @overload
    async def parse(
        self,
        *,
        messages: Messages,
        response_format: type[T],
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[T]: ...

    @overload
    async def parse(
        self,
        *,
        messages: Messages,
        response_format: None = None,
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[Any]: ...

    async def parse(
        self,
        *,
        messages: Messages,
        response_format: type[T] | None = None,
        model: ModelName = "",
        **fields: Unpack[ParseFields],
    ) -> ParsedChatCompletion[T] | ParsedChatCompletion[Any]:
        """As ChatCompletions.parse()."""
        given: dict[str, Any] = {**fields, **({"model": model} if model else {})}
        answer = await self.create(messages=messages, **given, response_format=format_for(response_format))
        return parsed(answer, response_format, given.get("tools"))

    def stream(
        self, *, messages: Messages, model: ModelName = "", response_format: Any = None, **fields: Unpack[ParseFields]
    ) -> AsyncStreamManager:
        """As ChatCompletions.stream(), for `async with`."""
        given: dict[str, Any] = {**fields, **({"model": model} if model else {})}
        form = response_format if isinstance(response_format, dict) else format_for(response_format)
        chunks = lambda: self.create(messages=messages, stream=True, **given, response_format=form)  # noqa: E731
        return AsyncStreamManager(chunks, response_format, given.get("tools"))


class AsyncChat:
    def __init__(self, client: _Async) -> None:
        self.completions = AsyncChatCompletions(client)


class AsyncCompletions(AsyncResource):
    @overload
    async def create(
        self, *, prompt: Any, model: ModelName = ..., stream: Literal[True], **fields: Unpack[CompletionFields]
    ) -> AsyncStream[Completion]: ...

    @overload
    async def create(
        self,
        *,
        prompt: Any,
        model: ModelName = ...,
        stream: Literal[False] | None = None,
        **fields: Unpack[CompletionFields],
    ) -> Completion: ...

    @overload
    async def create(
        self, *, prompt: Any, model: ModelName = ..., stream: bool, **fields: Unpack[CompletionFields]
    ) -> Completion | AsyncStream[Completion]: ...

    async def create(self, **fields: Any) -> Any:
        """As Completions.create()."""
        _needs("prompt", fields)
        return await self._adraw(_abi.QINFER_OPENAI_COMPLETION, "cmpl", fields, Completion, Completion)


class AsyncEmbeddings(AsyncResource):
    async def create(
        self,
        *,
        input: str | Sequence[Any],  # noqa: A002 - the service's name
        model: ModelName = "",
        **fields: Unpack[EmbeddingFields],
    ) -> CreateEmbeddingResponse:
        """Embeddings of a text, of tokens, or of a list of either; the loop is free while a thread evaluates them."""
        given: dict[str, Any] = {"input": input, **fields, **({"model": model} if model else {})}
        pooling = given.pop("pooling", "default")
        prepared = self._fields(given)
        source = await self._amodel(prepared)
        with answered(), request_of(source, _abi.QINFER_OPENAI_EMBEDDINGS, prepared) as request:
            answer = answer_to(request, prepared, "embd")
            return await asyncio.to_thread(
                lambda: embed(source, request, answer, pooling, CreateEmbeddingResponse)
            )


class _Listing:
    """To await, or to iterate over."""

    def __init__(self, page: ModelPage) -> None:
        self._page = page

    def __await__(self) -> Generator[Any, None, ModelPage]:
        return self._get().__await__()

    async def _get(self) -> ModelPage:
        return self._page

    async def __aiter__(self) -> AsyncIterator[Model]:
        for one in self._page:
            yield one


class AsyncModelList:
    def __init__(self, client: _Async) -> None:
        self._client = client

    def list(self) -> _Listing:
        return _Listing(self._client._models.listed())

    async def retrieve(self, model: str) -> Model:
        with answered():
            return self._client._models.found(model)
