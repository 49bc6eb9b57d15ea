"""The fields of requests, with the types that checkers and completion show."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar

from .. import _abi
from .._errors import UnsupportedError
from .._options import Pooling

Messages = Iterable[Mapping[str, Any]]
ModelName = str | os.PathLike[str]
E = TypeVar("E")


class NotGiven:
    """A field that is as if it were not there."""

    def __bool__(self) -> Literal[False]:
        return False

    def __repr__(self) -> str:
        return "NOT_GIVEN"


NOT_GIVEN: Any = NotGiven()
omit: Any = NOT_GIVEN


class CallFields(TypedDict, total=False):
    """What every request takes. timeout: seconds, after which it is APITimeoutError. extra_body: further fields; of a chat
    also template, template_name, now and plain_content (as in ChatPrompt), and variables of the model's template."""

    user: str | None
    extra_body: Mapping[str, Any] | None
    extra_headers: Mapping[str, str] | None
    extra_query: Mapping[str, object] | None
    timeout: float | None


class DrawFields(CallFields, total=False):
    """How tokens are drawn. What is not the service's (top_k, min_p, repetition_penalty, and from typical_p on) goes into
    extra_body there, and may here."""

    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    repetition_penalty: float | None
    frequency_penalty: float | None
    presence_penalty: float | None
    logit_bias: Mapping[str, int] | None
    seed: int | None
    n: int | None
    stop: str | Sequence[str] | None
    max_tokens: int | None
    stream_options: Mapping[str, Any] | None
    typical_p: float | None
    top_n_sigma: float | None
    dynatemp_range: float | None
    dynatemp_exponent: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_sequence_breakers: Sequence[str] | None
    mirostat: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    samplers: Sequence[str] | str | None


class ParseFields(DrawFields, total=False):
    """A chat's fields, but those that functions have parameters for. max_reasoning_tokens bounds the reasoning; reasoning
    False: none is looked for; chat_template_kwargs: variables of the model's template."""

    logprobs: bool | None
    top_logprobs: int | None
    max_completion_tokens: int | None
    tools: Iterable[Mapping[str, Any]] | None
    tool_choice: str | Mapping[str, Any] | None
    parallel_tool_calls: bool | None
    reasoning_effort: str | None
    max_reasoning_tokens: int | None
    reasoning: bool | None
    chat_template_kwargs: Mapping[str, Any] | None
    safety_identifier: str | None
    metadata: Mapping[str, str] | None
    store: bool | None
    modalities: Sequence[str] | None
    service_tier: str | None
    verbosity: str | None
    prediction: Mapping[str, Any] | None
    prompt_cache_key: str | None
    prompt_cache_options: Mapping[str, Any] | None
    prompt_cache_retention: str | None


class ChatFields(ParseFields, total=False):
    response_format: Mapping[str, Any] | None


class CompletionFields(DrawFields, total=False):
    logprobs: int | None
    best_of: int | None
    echo: bool | None
    suffix: str | None


class EmbeddingFields(CallFields, total=False):
    """pooling: as in Session.embedding()."""

    dimensions: int | None
    encoding_format: Literal["float", "base64"] | None
    pooling: Pooling


_PROMPT_OPTIONS = ("template", "template_name", "now", "plain_content")
_MORE_FIELDS = (
    "top_k", "min_p", "repetition_penalty", "chat_template_kwargs", "max_reasoning_tokens", "reasoning", "typical_p",
    "top_n_sigma", "dynatemp_range", "dynatemp_exponent", "xtc_probability", "xtc_threshold", "dry_multiplier",
    "dry_base", "dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers", "mirostat", "mirostat_tau",
    "mirostat_eta", "samplers"
)  # fmt: skip


class Fields:
    """The fields of one request: `body` for the library, `prompt` for ChatPrompt, `timeout` and the name of the model."""

    def __init__(self, given: Mapping[str, Any], timeout: float | None) -> None:
        body = {name: value for name, value in given.items() if not isinstance(value, NotGiven)}
        for name in ("extra_headers", "extra_query"):
            if body.pop(name, None):
                raise refused(f'request: "{name}" is not supported: nothing is sent')
        own = body.pop("timeout", None)
        self.timeout = seconds(own) if own is not None else timeout
        self.model = body.get("model")
        if isinstance(self.model, os.PathLike):
            body["model"] = os.fspath(self.model)
        extra = dict(body.pop("extra_body", None) or {})
        self.prompt = {name: extra.pop(name) for name in _PROMPT_OPTIONS if name in extra}
        body |= {name: extra.pop(name) for name in _MORE_FIELDS if name in extra}
        if "messages" not in body:
            body |= extra
        elif extra:
            body["chat_template_kwargs"] = {**extra, **(body.get("chat_template_kwargs") or {})}
        for name in ("messages", "tools"):
            if body.get(name) is not None and not isinstance(body[name], (str, Mapping)):
                body[name] = list(body[name])
        self.body = body


def seconds(timeout: Any) -> float | None:
    """Of a number, or of an httpx.Timeout the time for reading."""
    value = getattr(timeout, "read", timeout)
    if value is not None and not isinstance(value, (int, float)):
        raise TypeError(f"timeout is {timeout!r:.80}, expected seconds")
    return value


def refused(message: str) -> UnsupportedError:
    return UnsupportedError("QINFER_E_UNSUPPORTED", _abi.QINFER_E_UNSUPPORTED, message, 0)
