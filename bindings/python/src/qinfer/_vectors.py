"""Options of embeddings and scores as the library takes them."""

from __future__ import annotations

from typing import Any

from . import _abi
from ._library import encoded, one_of, sized

_POOLINGS = {"default": 0, "last": _abi.QINFER_POOL_LAST, "mean": _abi.QINFER_POOL_MEAN, "first": _abi.QINFER_POOL_FIRST}


def pooling_of(word: str) -> int:
    return one_of("pooling", _POOLINGS, word)


def embedding_options(pooling: str, dims: int, scaled: bool) -> Any:
    options = sized(_abi.qinfer_embedding_options, pooling=pooling_of(pooling), dims=dims)
    options.flags = 0 if scaled else _abi.QINFER_EMBEDDING_UNSCALED
    return options


def score_options(
    *,
    template: str | None = None,
    template_text: str | None = None,
    instruction: str | None = None,
    yes: str | None = None,
    no: str | None = None,
    truncate: bool = False,
    raw: bool = False,
    max_tokens: int = 0,
) -> Any:
    options = sized(_abi.qinfer_score_options, max_tokens=max_tokens)
    options.flags = (_abi.QINFER_SCORE_TRUNCATE if truncate else 0) | (_abi.QINFER_SCORE_RAW if raw else 0)
    options.template_name, options.template_text = encoded(template), encoded(template_text)
    options.instruction, options.yes, options.no = encoded(instruction), encoded(yes), encoded(no)
    return options
