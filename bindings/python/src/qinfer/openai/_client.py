"""Clients: objects with the interface of those in the service's package."""

from __future__ import annotations

import copy as copies
from collections.abc import Mapping
from typing import Any, Self

from .._engine import Engine
from .._model import Model
from ._async_resources import AsyncChat, AsyncCompletions, AsyncEmbeddings, AsyncModelList
from ._fields import NOT_GIVEN, refused, seconds
from ._models import Models, Source
from ._resources import Chat, Completions, Embeddings, ModelList
from ._responses import AsyncResponses, Responses

_MISSING = (
    "images", "audio", "files", "fine_tuning", "moderations", "batches", "uploads", "vector_stores",
    "assistants", "threads", "realtime", "conversations", "evals", "containers", "videos", "webhooks",
    "with_raw_response", "with_streaming_response", "get", "post",
)  # fmt: skip


class _Beta:
    def __init__(self, chat: Any) -> None:
        self.chat = chat


class _Base:
    """What all clients have: models, and a timeout in seconds."""

    def __init__(self, models: Models, timeout: float | None = None) -> None:
        self._models, self.timeout = models, timeout
        self._attach()

    def _attach(self) -> None:
        """Gives it chat, completions and so on."""
        raise NotImplementedError

    def with_options(self, *, timeout: Any = NOT_GIVEN, max_retries: int | None = None, **others: Any) -> Self:
        """The same client with another timeout; the models are loaded once for both. max_retries changes nothing."""
        _refuse({name: value for name, value in others.items() if name not in ("api_key", "organization", "project")})
        other = copies.copy(self)
        if timeout is not NOT_GIVEN:
            other.timeout = seconds(timeout)
        other._attach()
        return other

    copy = with_options

    def __getattr__(self, name: str) -> Any:
        if name in _MISSING:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}: it has chat.completions, responses, completions, embeddings and models"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class _Sync(_Base):
    def _attach(self) -> None:
        self.chat, self.completions, self.embeddings = Chat(self), Completions(self), Embeddings(self)
        self.models, self.beta, self.responses = ModelList(self), _Beta(self.chat), Responses(self)

    def close(self) -> None:
        """Ends what its models are doing, and frees those that the client has loaded."""
        self._models.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Async(_Base):
    def _attach(self) -> None:
        self.chat, self.completions, self.embeddings = AsyncChat(self), AsyncCompletions(self), AsyncEmbeddings(self)
        self.models, self.beta, self.responses = AsyncModelList(self), _Beta(self.chat), AsyncResponses(self)

    async def close(self) -> None:
        """Ends what its models are doing, and frees those that the client has loaded."""
        self._models.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Client(_Sync):
    """client = Client("path"); client.chat.completions.create(messages=[...]); client.completions; client.embeddings. What
    several threads ask for is drawn together, by an engine that keeps what it has evaluated: a conversation that goes on is
    not evaluated again. Without max_tokens a request is promised the model's whole context, of which a client of a model has
    four, in at most half of the free memory: for more at a time give an Engine with a budget."""

    def __init__(self, model: Source) -> None:
        super().__init__(Models(model, {}, False))
        self._models.model_of(None)

    @property
    def engine(self) -> Engine:
        return self._models.engine_of(None)

    @property
    def model(self) -> Model:
        return self._models.model_of(None)


class AsyncClient(_Async):
    """client = AsyncClient("path"); await client.chat.completions.create(messages=[...]), and with stream=True
    `async for chunk in await ...`. The rest is as of Client."""

    def __init__(self, engine: Source) -> None:
        super().__init__(Models(engine, {}, False))
        self._models.model_of(None)

    @property
    def engine(self) -> Engine:
        return self._models.engine_of(None)

    @property
    def model(self) -> Model:
        return self._models.model_of(None)


_UNUSED = ("admin_api_key", "webhook_secret", "_strict_response_validation", "_enforce_credentials")
_REFUSED = (
    "base_url", "default_headers", "default_query", "http_client", "websocket_base_url", "data_residency", "provider",
    "workload_identity",
)  # fmt: skip


def _refuse(given: Mapping[str, Any]) -> None:
    """What only clients of a server can honour."""
    for name, value in given.items():
        if name in _UNUSED:
            continue
        if name not in _REFUSED:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
        if value is not None and value is not NOT_GIVEN:
            raise refused(f"{name} is not supported: the model runs in this process, and nothing is sent; give model=PATH")


class OpenAI(_Sync):
    """A client in the place of the service's: `from qinfer.openai import OpenAI` instead of `from openai import OpenAI`.

    A request's `model` is a path, or an id of the Hugging Face hub, or a name in `models`; other names stand for the model
    that QINFER_MODEL in the environment is the path of. With `model` here, all names stand for that one. api_key,
    organization, project and max_retries are taken and not used; base_url and what else only a server can honour is
    UnsupportedError. timeout: seconds for a request; None: no bound."""

    def __init__(
        self,
        *,
        api_key: Any = None,
        organization: str | None = None,
        project: str | None = None,
        timeout: Any = NOT_GIVEN,
        max_retries: int = 2,
        model: Source | None = None,
        models: Mapping[str, Source] | None = None,
        **others: Any,
    ) -> None:
        _refuse(others)
        self.api_key, self.organization, self.project, self.max_retries = api_key, organization, project, max_retries
        super().__init__(Models(model, models or {}, True), None if timeout is NOT_GIVEN else seconds(timeout))


class AsyncOpenAI(_Async):
    """The same for asyncio, in the place of the service's AsyncOpenAI."""

    def __init__(
        self,
        *,
        api_key: Any = None,
        organization: str | None = None,
        project: str | None = None,
        timeout: Any = NOT_GIVEN,
        max_retries: int = 2,
        model: Source | None = None,
        models: Mapping[str, Source] | None = None,
        **others: Any,
    ) -> None:
        _refuse(others)
        self.api_key, self.organization, self.project, self.max_retries = api_key, organization, project, max_retries
        super().__init__(Models(model, models or {}, True), None if timeout is NOT_GIVEN else seconds(timeout))
