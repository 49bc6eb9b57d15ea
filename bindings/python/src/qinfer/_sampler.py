"""Options of a sampler, as the library has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import _abi
from ._library import checked, fields_of, sized, utf8


def sampler_of(options: Mapping[str, Any]) -> tuple[Any, str | Sequence[str] | None]:
    """SamplerOptions as a qinfer_sampler_options, and the texts of dry_breakers, if they are given."""
    sampler, breakers = sized(_abi.qinfer_sampler_options), None
    for name, value in options.items():
        if name == "dry_breakers":
            breakers = value
        elif name not in fields_of(sampler):
            raise TypeError(f"set_sampler() got an unexpected keyword argument {name!r}")
        elif name == "steps":
            sampler.steps = _steps(value)
        else:
            setattr(sampler, name, checked(fields_of(sampler)[name], value, name))
    return sampler, breakers


def _steps(letters: str) -> bytes:
    """As qinfer_sampler_options has them; which letters there are, the library checks."""
    if not isinstance(letters, str):
        raise TypeError(f"steps is {letters!r:.80}, a str is expected")
    if len(utf8(letters)) > 19 or "\0" in letters:
        raise ValueError(f"steps is {letters!r:.80}, at most 19 letters are expected")
    return utf8(letters)
