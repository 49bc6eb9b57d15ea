"""Options that several functions take by name, so that type checkers and completion know them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from ._cancel import Cancel
    from ._grammar import Grammar

KvType = Literal["default", "f32", "f16", "bf16"]
Pooling = Literal["default", "last", "mean", "first"]


class SamplerOptions(TypedDict, total=False):
    """How tokens are drawn: the members of qinfer_sampler_options, where steps are letters as qinfer.h has them, and
    dry_breakers, which Session.set_dry_breakers() is called with. None of them: greedy."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_tokens: int
    seed: int
    typical_p: float
    top_n_sigma: float
    dynatemp_range: float
    dynatemp_exponent: float
    xtc_probability: float
    xtc_threshold: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_tokens: int
    dry_breakers: str | Sequence[str]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    steps: str


class ManyOptions(SamplerOptions, total=False):
    """What all requests of a generate() or Chat.batch() have in common, besides how tokens are drawn. grammar: what is drawn
    fulfils it. max_draft: tokens guessed ahead, which changes none. seeds: one for each request, instead of `seed`.
    progress: called with (done, total) whenever one has ended."""

    stop: Sequence[str]
    grammar: Grammar | None
    max_draft: int
    seeds: Sequence[int] | None
    progress: Callable[[int, int], object] | None
    cancel: Cancel | None


class TurnOptions(TypedDict, total=False):
    """What Chat.send() and Chat.stream() take besides the message."""

    max_tokens: int
    grammar: Grammar | None
    cancel: Cancel | None
    max_reasoning_tokens: int
    reasoning: bool


class ScoreOptions(TypedDict, total=False):
    """How a query and a document become tokens and a score; see Session.set_pair()."""

    template: str | None
    template_text: str | None
    instruction: str | None
    yes: str | None
    no: str | None
    truncate: bool
    raw: bool
    max_tokens: int


class ChatVariables(TypedDict, total=False):
    """Options of ChatPrompt. A template's own variables, such as enable_thinking, go there as well; those have no types."""

    tools: Sequence[Mapping[str, Any]] | None
    generation_prompt: bool
    plain_content: bool
    template: str | None
    template_name: str | None
    now: str | None
    cancel: Cancel | None
