"""What the library says of itself and of the CPU, and runtimes."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import _abi, _exit
from ._infos import CpuInfo, Metrics, RuntimeInfo
from ._library import Handle, ask, call, checked, encoded, expect, lib, read_struct, read_text, sized, text_at

_KERNEL_FLAGS = (
    _abi.QINFER_KERNELS_USABLE,
    _abi.QINFER_KERNELS_DEFAULT,
    _abi.QINFER_KERNELS_EXACT,
    _abi.QINFER_KERNELS_INVARIANT,
    _abi.QINFER_KERNELS_HELD_EXACTLY,
    _abi.QINFER_KERNELS_HELD_PLAIN,
    _abi.QINFER_KERNELS_QUANTISED,
)


def version() -> str:
    """The version of the library that is loaded."""
    return str(lib.qinfer_version_string().decode())


def build_info() -> str:
    """Commit, compiler, flags and kernel sets of the library."""
    return str(lib.qinfer_build_info().decode())

def cpu_info() -> CpuInfo:
    """Cores, caches, and the kernel set ("target") that is chosen by default."""
    info = read_struct(CpuInfo, _abi.qinfer_cpu_info, lib.qinfer_get_cpu_info)
    info["model_name"] = read_text(lib.qinfer_cpu_name)
    info["features"] = read_text(lib.qinfer_cpu_features)
    return info

@dataclass(frozen=True)
class KernelSet:
    """A kernel set: `name` for cpu_target, and what it needs and takes.

    usable: this CPU and system have what it needs. default: it runs models of any kind where no cpu_target is given. exact:
    it can be used with Runtime(exact=True). invariant: the logits of a token do not depend on how many are
    evaluated with it, as in all sets. held_exactly, held_plain, quantised: see qinfer.h."""

    name: str
    cpu_features: list[str]
    weight_formats: list[str]
    kv_types: list[str]
    usable: bool
    default: bool
    exact: bool
    invariant: bool
    held_exactly: bool
    held_plain: bool
    quantised: bool


def kernel_sets() -> list[KernelSet]:
    """Those of this library, the preferred ones first."""
    found = []
    for index in range(ask(lib.qinfer_kernel_set_count)):
        info = sized(_abi.qinfer_kernel_set_info)
        call(lib.qinfer_kernel_set_get_info, index, ctypes.byref(info))
        texts = info.cpu_features, info.weight_formats, info.kv_types
        features, weights, kv_types = [(text or b"").decode().split() for text in texts]
        flags = [bool(info.flags & flag) for flag in _KERNEL_FLAGS]
        found.append(KernelSet(info.name.decode(), features, weights, kv_types, *flags))
    return found


def runtime_options(threads: int, cpu_target: str | None, exact: bool, normal_pages: bool, tiles: bool) -> Any:
    """As the library takes them."""
    options = sized(_abi.qinfer_runtime_options, n_threads=threads)
    options.flags = _abi.QINFER_RUNTIME_EXACT if exact else 0
    options.flags |= _abi.QINFER_RUNTIME_NORMAL_PAGES if normal_pages else 0
    options.flags |= 0 if tiles else _abi.QINFER_RUNTIME_NO_TILES
    options.cpu_target = encoded(cpu_target)
    return options


class Runtime(Handle):
    """Threads and kernel sets. Evaluations on one runtime run one after another, each on all of its threads.

    threads: 0 = physical cores. cpu_target: a kernel set by name. exact: f32 activations and sums. log: called with
    (level, line); it may be called on any thread. tiles: whether the system may be asked for those of AMX. cpu_ids: thread
    i is pinned to cpu_ids[i]. normal_pages: no huge pages are asked for."""

    _free = "qinfer_runtime_free"

    def __init__(
        self,
        threads: int = 0,
        cpu_target: str | None = None,
        exact: bool = False,
        spin_us: int = 0,
        log: Callable[[int, str], object] | None = None,
        log_level: int = _abi.QINFER_LOG_WARN,
        tiles: bool = True,
        *,
        cpu_ids: Sequence[int] | None = None,
        normal_pages: bool = False,
    ) -> None:
        options = runtime_options(threads, cpu_target, exact, normal_pages, tiles)
        options.spin_us, options.log_level = checked(ctypes.c_uint32, spin_us), checked(ctypes.c_int32, log_level)
        if cpu_ids is not None:
            ids = (ctypes.c_uint32 * len(cpu_ids))(*[checked(ctypes.c_uint32, one) for one in cpu_ids])
            options.cpu_ids, options.n_cpu_ids = ids, len(ids)
        if log is not None:
            expect(Callable, log)
            sink = log

            def deliver(level: int, line: int, size: int, _: Any) -> None:
                try:
                    sink(level, text_at(line, size))
                except Exception:  # noqa: BLE001 - nothing waits for it
                    pass

            _exit.callbacks.add(deliver.__code__)
            self._log = _abi.qinfer_log_fn(deliver)
            options.log = self._log
        self._create(lambda out: call(lib.qinfer_runtime_create, ctypes.byref(options), out))

    @property
    def info(self) -> RuntimeInfo:
        return read_struct(RuntimeInfo, _abi.qinfer_runtime_info, lib.qinfer_runtime_get_info, self)

    @property
    def metrics(self) -> Metrics:
        """Tokens, evaluations and their time of all sessions since it was made."""
        return read_struct(Metrics, _abi.qinfer_metrics, lib.qinfer_runtime_get_metrics, self)
