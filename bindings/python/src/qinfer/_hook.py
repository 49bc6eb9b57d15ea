"""Code between logits and sampler."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import _abi
from ._library import Callbacks, fields_of, sized


def floats_of(values: Any) -> Any:
    """A numpy array over floats in memory, where numpy is there."""
    try:
        import numpy
    except ImportError:
        return values
    return numpy.frombuffer(values, dtype=numpy.float32)


class PythonHook:
    """A logits hook whose functions are Python's."""

    def __init__(
        self,
        apply: Callable[[Any], object],
        accept: Callable[[int], object] | None,
        rewind: Callable[[int], object] | None,
    ) -> None:
        self.callbacks = Callbacks()
        self.native = sized(_abi.qinfer_logits_hook)
        kinds = fields_of(_abi.qinfer_logits_hook)

        def apply_to(_: int, logits: Any, n_vocab: int, __: Any) -> int:
            size, address = ctypes.sizeof(ctypes.c_float) * n_vocab, ctypes.addressof(logits.contents)
            copy = (ctypes.c_float * n_vocab).from_buffer_copy(ctypes.string_at(address, size))
            apply(floats_of(copy))
            ctypes.memmove(logits, copy, size)
            return 0

        def accept_one(token: int, _: Any) -> int:
            return int(accept is not None and accept(token) is False)

        def rewind_some(n: int, _: Any) -> int:
            return int(rewind is not None and rewind(n) is False)

        self.native.apply = self.callbacks.guarded(kinds["apply"], apply_to)
        self.native.accept = self.callbacks.guarded(kinds["accept"], accept_one)
        self.native.rewind = self.callbacks.guarded(kinds["rewind"], rewind_some)
