"""What generations give, and the options that all kinds of them have."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._library import members_of, sized, text_at, utf8

FINISHES = {0: "error", 1: "end", 2: "stop", 3: "length", 4: "callback"}


@dataclass(frozen=True)
class Generated:
    """How a generation ended ("end": an end token, "stop": a stop text, "length", "callback") and what it took.
    in_reasoning: it ended inside of the reply's reasoning, so that there is no content."""

    text: str
    finish: str
    prompt_tokens: int
    cached_tokens: int
    new_tokens: int
    prefill_ns: int
    decode_ns: int
    reasoning_tokens: int = 0
    in_reasoning: bool = False

    @classmethod
    def of(cls, text: str, result: Any) -> Generated:
        """Of a qinfer_generate_result."""
        counts = members_of(result)
        in_reasoning = (counts.pop("flags") & _abi.QINFER_RESULT_IN_REASONING) != 0
        return cls(text, FINISHES[counts.pop("finish")], in_reasoning=in_reasoning, **counts)


@dataclass(frozen=True)
class TokenInfo:
    """A token that was drawn: its number (-1: text that was held back came after the last one), the new text, which may be
    empty, its log probability, the most likely tokens with theirs, and with the last one why it was that."""

    token: int
    text: str
    logprob: float
    top: list[tuple[int, float]]
    finish: str | None = None

    @classmethod
    def of(cls, info: Any) -> TokenInfo:
        """Of a qinfer_token_info."""
        text = text_at(ctypes.cast(info.text, ctypes.c_void_p).value, info.text_len)
        top = [(info.top_tokens[i], info.top_logprobs[i]) for i in range(info.n_top)]
        return cls(info.token, text, info.logprob, top, FINISHES[info.finish] if info.finish else None)


def generate_options(max_tokens: int, stop: Sequence[str], *, logprobs: bool = False, top: int = 0) -> Any:
    """As the library takes them, with texts that live as long as they do."""
    options = sized(_abi.qinfer_generate_options, max_tokens=max_tokens, n_top=top)
    texts = [utf8(text) for text in ([stop] if isinstance(stop, str) else stop)]
    options.stop = (ctypes.c_char_p * len(texts))(*texts)
    options.stop_lens = (ctypes.c_size_t * len(texts))(*map(len, texts))
    options.n_stop = len(texts)
    options.flags = _abi.QINFER_GENERATE_LOGPROBS if logprobs or top else 0
    return options
