"""Stages: sessions of a part of a model's layers."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from . import _abi
from ._cancel import Cancel
from ._hook import floats_of
from ._library import expect, sized
from ._session import Session, evaluate_with


def evaluate_stage(
    sessions: Sequence[Session], hidden: Sequence[Any] | None = None, *, cancel: Cancel | None = None
) -> list[Any]:
    """Evaluates all pending tokens of sessions of a stage (Model(layers=...)). hidden: where it does not begin with the
    first layer, for each session what the stage before has given, a contiguous buffer of 32-bit floats, [tokens][n_embd].
    Returns the same of each session, as numpy arrays where numpy is there, else memoryviews, if there are layers after
    it; otherwise an empty list, and the sessions have logits."""
    for session in sessions:
        expect(Session, session)
    options = sized(_abi.qinfer_eval_options)
    rows = [session.pending for session in sessions]
    given = [_hidden_of(session, n, buffer) for session, n, buffer in zip(sessions, rows, hidden or [], strict=False)]
    if hidden is not None:
        if len(given) != len(hidden) or len(given) != len(sessions):
            raise ValueError(f"{len(hidden)} buffers of hidden states for {len(sessions)} sessions")
        options.hidden_in = _addresses(given)
    made = []
    if sessions and sessions[0].model._gives_hidden:
        made = [(ctypes.c_float * (n * session.model._n_embd))() for session, n in zip(sessions, rows, strict=True)]
        options.hidden_out = _addresses(made)
    evaluate_with(sessions, options, cancel)
    return [_rows(values, session.model._n_embd) for session, values in zip(sessions, made, strict=False)]


def _addresses(arrays: Sequence[Any]) -> Any:
    pointers = [ctypes.cast(values, ctypes.POINTER(ctypes.c_float)) for values in arrays]
    return (ctypes.POINTER(ctypes.c_float) * len(pointers))(*pointers)


def _hidden_of(session: Session, n_tokens: int, buffer: Any) -> Any:
    """A buffer of the caller as floats of C."""
    view = memoryview(buffer)
    n = n_tokens * session.model._n_embd
    if view.format != "f" or not view.c_contiguous or view.nbytes != n * ctypes.sizeof(ctypes.c_float):
        raise ValueError(
            f"hidden states of {n_tokens} tokens are a contiguous buffer of {n_tokens} x {session.model._n_embd} 32-bit "
            f"floats, got {view.nbytes} bytes of format {view.format!r}"
        )
    kind = ctypes.c_float * n
    return kind.from_buffer_copy(view.cast("B")) if view.readonly else kind.from_buffer(view.cast("B"))


def _rows(values: Any, width: int) -> Any:
    floats = floats_of(memoryview(values).cast("B").cast("f"))
    shape = len(values) // width, width
    return floats.cast("B").cast("f", shape) if isinstance(floats, memoryview) else floats.reshape(shape)
