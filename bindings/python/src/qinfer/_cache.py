"""Keys and values of sessions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any

from . import _abi
from ._infos import CacheStats
from ._library import Handle, call, lib, one_of, read_struct, sized, tokens_of
from ._load import Path
from ._model import Model, model_of
from ._options import KvType

_KV_TYPES = {"default": 0, "f32": _abi.QINFER_KV_F32, "f16": _abi.QINFER_KV_F16, "bf16": _abi.QINFER_KV_BF16}


def cache_options(kv_type: str, block_tokens: int = 0, budget_bytes: int = 0, budget_blocks: int = 0) -> Any:
    """As the library takes them."""
    return sized(
        _abi.qinfer_kv_cache_options,
        block_tokens=block_tokens,
        budget_bytes=budget_bytes,
        budget_blocks=budget_blocks,
        kv_type=one_of("kv_type", _KV_TYPES, kv_type),
    )


class KvCache(Handle):
    """Keys and values of sessions, in blocks of a fixed budget. One cache serves any number of sessions and threads.

    kv_type: "f32", "f16", "bf16" or "default". budget_bytes, budget_blocks: the smaller wins; both 0 = one session of the
    model's context. prefix: freed blocks serve sessions that begin alike."""

    _free = "qinfer_kv_cache_free"

    def __init__(
        self,
        model: Model | Path,
        *,
        kv_type: KvType = "default",
        block_tokens: int = 0,
        budget_bytes: int = 0,
        budget_blocks: int = 0,
        prefix: bool = False,
        commit: bool = False,
        contiguous: bool = False,
    ) -> None:
        self.model = model = model_of(model)
        options = cache_options(kv_type, block_tokens, budget_bytes, budget_blocks)
        options.flags = _abi.QINFER_CACHE_PREFIX if prefix else 0
        options.flags |= _abi.QINFER_CACHE_COMMIT if commit else 0
        options.flags |= _abi.QINFER_CACHE_CONTIGUOUS if contiguous else 0
        self._create(lambda out: call(lib.qinfer_kv_cache_create, model, ctypes.byref(options), out))

    @property
    def stats(self) -> CacheStats:
        return read_struct(CacheStats, _abi.qinfer_kv_cache_stats, lib.qinfer_kv_cache_get_stats, self)

    def find(self, tokens: Iterable[int]) -> int:
        """How many of these tokens, from the first on, a session would find in the cache now if more tokens followed
        them: whole blocks."""
        listed = tokens if isinstance(tokens, ctypes.Array) else tokens_of(tokens)  # an array of C as it is
        n = ctypes.c_size_t()
        call(lib.qinfer_kv_cache_find, self, listed, len(listed), 0, ctypes.byref(n))
        return n.value
