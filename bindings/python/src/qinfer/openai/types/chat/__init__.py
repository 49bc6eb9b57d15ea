"""Types of chats, where the service's package has them. Those of messages and tools are dicts of any kind."""

from typing import Any

from ..._answers import (
    ChatCompletion,
    ChatCompletionChunk,
    ChatCompletionMessage,
    ChatCompletionMessageToolCall,
    ChatCompletionTokenLogprob,
    ParsedChatCompletion,
    ParsedChatCompletionMessage,
    ParsedChoice,
)

ChatCompletionMessageParam = dict[str, Any]
ChatCompletionSystemMessageParam = dict[str, Any]
ChatCompletionUserMessageParam = dict[str, Any]
ChatCompletionAssistantMessageParam = dict[str, Any]
ChatCompletionToolMessageParam = dict[str, Any]
ChatCompletionToolParam = dict[str, Any]
ChatCompletionFunctionToolParam = dict[str, Any]

__all__ = [
    "ChatCompletion",
    "ChatCompletionAssistantMessageParam",
    "ChatCompletionChunk",
    "ChatCompletionFunctionToolParam",
    "ChatCompletionMessage",
    "ChatCompletionMessageParam",
    "ChatCompletionMessageToolCall",
    "ChatCompletionSystemMessageParam",
    "ChatCompletionTokenLogprob",
    "ChatCompletionToolMessageParam",
    "ChatCompletionToolParam",
    "ChatCompletionUserMessageParam",
    "ParsedChatCompletion",
    "ParsedChatCompletionMessage",
    "ParsedChoice",
]
