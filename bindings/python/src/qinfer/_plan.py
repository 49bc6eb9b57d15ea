"""What needs no loaded model: memory plans, what headers say, packing and exports."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Unpack, cast

from . import _abi
from ._cache import cache_options
from ._errors import BufferTooSmallError
from ._infos import Memory, ModelDetails
from ._library import encoded, expect, lib, members_of, read_text, sized
from ._load import Loading, LoadOptions, Path
from ._options import KvType
from ._runtime import Runtime, runtime_options


class PlanOptions(LoadOptions, total=False):
    """What is to be loaded and made: the options of Model; those of Runtime: threads, cpu_target, exact, normal_pages,
    tiles; those of KvCache: kv_type, block_tokens, budget_bytes, budget_blocks; and max_logits and max_draft of
    Session."""

    threads: int
    cpu_target: str | None
    exact: bool
    normal_pages: bool
    tiles: bool
    kv_type: KvType
    block_tokens: int
    budget_bytes: int
    budget_blocks: int
    max_logits: int
    max_draft: int


class _Planned:
    """The structs of a plan, and the calls that take them."""

    def __init__(self, name: str, path: Path, context: int, given: PlanOptions) -> None:
        load = cast(LoadOptions, {key: value for key, value in given.items() if key not in _PLAN_ONLY})
        self._loading = Loading(name, load)
        self._path = self._loading.find(path)
        self._runtime = runtime_options(
            given.get("threads", 0),
            given.get("cpu_target"),
            given.get("exact", False),
            given.get("normal_pages", False),
            given.get("tiles", True),
        )
        self.cache = cache_options(
            given.get("kv_type", "default"),
            given.get("block_tokens", 0),
            given.get("budget_bytes", 0),
            given.get("budget_blocks", 0),
        )
        self._session = sized(
            _abi.qinfer_session_options,
            max_tokens=context,
            max_logits=given.get("max_logits", 0),
            max_draft=given.get("max_draft", 0),
        )
        self.with_cache = any(key in given for key in ("budget_bytes", "budget_blocks", "kv_type", "block_tokens"))

    def size_cache(self, sessions: int) -> None:
        """For that many sessions, unless budgets are given."""
        if sessions and not self.cache.budget_bytes and not self.cache.budget_blocks:
            self.cache.budget_bytes = max(1, self.memory(cache=False).kv_per_session * sessions)
        self.with_cache = self.with_cache or sessions > 0

    def memory(self, cache: bool) -> Any:
        memory = sized(_abi.qinfer_memory)
        self._loading.call(lib.qinfer_model_plan, *self._arguments(cache), ctypes.byref(memory))
        return memory

    def map(self) -> str:
        return read_text(self._read_map, room=1 << 16)

    def _read_map(self, text: Any, capacity: int, out_n: Any, _: Any) -> int:
        self._loading.call(lib.qinfer_model_plan_map, *self._arguments(self.with_cache), text, capacity, out_n)
        return 0

    def _arguments(self, cache: bool) -> tuple[Any, ...]:
        pointers = [ctypes.byref(one) for one in (self._runtime, self._loading.native, self.cache, self._session)]
        if not cache and not self.cache.kv_type and not self.cache.block_tokens:
            pointers[2] = cast(Any, None)
        return self._path, *pointers


_PLAN_ONLY = frozenset(PlanOptions.__annotations__) - frozenset(LoadOptions.__annotations__)


def plan(path: Path, *, sessions: int = 0, context: int = 0, **options: Unpack[PlanOptions]) -> Memory:
    """Bytes that loading the model and a cache for `sessions` sessions of `context` tokens will take, from headers only.
    Options: see PlanOptions; a budget of the cache comes before `sessions`. Plans are made for any memory_budget."""
    planned = _Planned("plan", path, context, options)
    planned.size_cache(sessions)
    return cast(Memory, members_of(planned.memory(planned.with_cache)))


def plan_map(path: Path, *, sessions: int = 0, context: int = 0, **options: Unpack[PlanOptions]) -> dict[str, Any]:
    """The same, buffer by buffer: {"model": {...}, "regions": [{"name", "belongs_to", "bytes", "buffers": [...]}]}; see
    qinfer_model_plan_map in qinfer.h."""
    planned = _Planned("plan_map", path, context, options)
    planned.size_cache(sessions)
    out: dict[str, Any] = json.loads(planned.map())
    return out


def inspect(path: Path, **options: Unpack[LoadOptions]) -> ModelDetails:
    """What the headers of a model say. Of the options weights, packed_path, files and cancel matter."""
    loading = Loading("inspect", options)
    details, found, room = sized(_abi.qinfer_model_details), loading.find(path), 1024
    n = ctypes.c_size_t()
    while True:
        texts = ctypes.create_string_buffer(room)  # that the details point to
        arguments = found, ctypes.byref(loading.native), ctypes.byref(details), texts, room, ctypes.byref(n)
        try:
            loading.call(lib.qinfer_model_inspect, *arguments)
            return cast(ModelDetails, members_of(details))
        except BufferTooSmallError:
            if n.value <= room:
                raise
            room = n.value


def pack(path: Path, out_path: Path, runtime: Runtime | None = None, **options: Unpack[LoadOptions]) -> None:
    """Writes the model to one file that holds the weights as the runtime's kernel set wants them. weight_format may also be
    "q8_0", "q4_0" or "q4_k_m", which quantise. A file that is there is replaced only if it is empty or was packed."""
    _write("pack", lib.qinfer_model_pack, path, out_path, runtime, options)


def export_gguf(path: Path, out_path: Path, runtime: Runtime | None = None, **options: Unpack[LoadOptions]) -> None:
    """Writes the model to one GGUF file, which llama.cpp reads, too; weight_format as in pack()."""
    _write("export_gguf", lib.qinfer_model_export_gguf, path, out_path, runtime, options)


def _write(name: str, function: Any, path: Path, out: Path, runtime: Runtime | None, options: LoadOptions) -> None:
    if runtime is not None:
        expect(Runtime, runtime)
    loading = Loading(name, options)
    found, native = loading.find(path), ctypes.byref(loading.native)
    loading.call(function, runtime, found, native, encoded(out))
