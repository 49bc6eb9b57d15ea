"""The service's answers, under the names that its package has for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, Literal, TypeVar

from ._object import Object

T = TypeVar("T")
FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]


class PromptTokensDetails(Object):
    cached_tokens: int | None
    audio_tokens: int | None


class CompletionTokensDetails(Object):
    reasoning_tokens: int | None
    accepted_prediction_tokens: int | None
    rejected_prediction_tokens: int | None
    audio_tokens: int | None


class CompletionUsage(Object):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None
    completion_tokens_details: CompletionTokensDetails | None


class TopLogprob(Object):
    token: str
    logprob: float
    bytes: list[int] | None


class ChatCompletionTokenLogprob(Object):
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(Object):
    content: list[ChatCompletionTokenLogprob] | None
    refusal: list[ChatCompletionTokenLogprob] | None


class Function(Object):
    """arguments: JSON as text. parsed_arguments: of parse(), with a tool that pydantic_function_tool() made."""

    name: str
    arguments: str
    parsed_arguments: Any


class ChatCompletionMessageToolCall(Object):
    id: str
    type: Literal["function"]
    function: Function


class ChatCompletionMessage(Object):
    """reasoning_content: what the model thought before, where its template marks that."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    tool_calls: list[ChatCompletionMessageToolCall] | None
    function_call: None
    audio: None
    annotations: list[Object] | None
    reasoning_content: str | None


class Choice(Object):
    index: int
    finish_reason: FinishReason
    message: ChatCompletionMessage
    logprobs: ChoiceLogprobs | None


class ChatCompletion(Object):
    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: CompletionUsage | None
    service_tier: str | None
    system_fingerprint: str | None


class ParsedChatCompletionMessage(ChatCompletionMessage, Generic[T]):
    """parsed: the content as an object of the class that was asked for."""

    parsed: T | None


class ParsedChoice(Choice, Generic[T]):
    message: ParsedChatCompletionMessage[T]


class ParsedChatCompletion(ChatCompletion, Generic[T]):
    choices: list[ParsedChoice[T]]  # type: ignore[assignment]


class ChoiceDeltaToolCallFunction(Object):
    name: str | None
    arguments: str | None


class ChoiceDeltaToolCall(Object):
    index: int
    id: str | None
    type: Literal["function"] | None
    function: ChoiceDeltaToolCallFunction | None


class ChoiceDelta(Object):
    role: Literal["assistant"] | None
    content: str | None
    refusal: str | None
    tool_calls: list[ChoiceDeltaToolCall] | None
    function_call: None
    reasoning_content: str | None


class ChunkChoice(Object):
    index: int
    delta: ChoiceDelta
    finish_reason: FinishReason | None
    logprobs: ChoiceLogprobs | None


class ChatCompletionChunk(Object):
    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: CompletionUsage | None
    service_tier: str | None
    system_fingerprint: str | None


class Logprobs(Object):
    tokens: list[str] | None
    token_logprobs: list[float | None] | None
    top_logprobs: list[Object | None] | None
    text_offset: list[int] | None


class CompletionChoice(Object):
    index: int
    text: str
    finish_reason: Literal["stop", "length", "content_filter"]
    logprobs: Logprobs | None


class Completion(Object):
    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None
    system_fingerprint: str | None


class Embedding(Object):
    index: int
    object: Literal["embedding"]
    embedding: list[float]


class EmbeddingUsage(Object):
    prompt_tokens: int
    total_tokens: int


class CreateEmbeddingResponse(Object):
    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: EmbeddingUsage


class Model(Object):
    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelPage(Object):
    """All models: there are no other pages."""

    object: Literal["list"]
    data: list[Model]

    def __iter__(self) -> Iterator[Model]:  # type: ignore[override]
        return iter(self.data)

    def has_next_page(self) -> bool:
        return False
