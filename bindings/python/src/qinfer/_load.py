"""Options of what reads a model's files: loading, plans, packing, exports."""

from __future__ import annotations

import ctypes
import errno
import os
import re
from collections.abc import Callable
from typing import Any, TypedDict

from . import _abi
from ._cancel import Cancel
from ._errors import NotFoundError
from ._files import HostFiles, Opener
from ._library import Callbacks, Held, address_of, call_apart, checked_names, encoded, expect, sized

Path = str | os.PathLike[str]
_PATTERNS = ["*.json", "*.safetensors", "*.jinja", "*.model"]  # what a checkpoint consists of
_FLAGS = {
    "weights": -_abi.QINFER_LOAD_NO_WEIGHTS,
    "mmap": -_abi.QINFER_LOAD_NO_MMAP,
    "lock": _abi.QINFER_LOAD_LOCK,
    "verify": _abi.QINFER_LOAD_VERIFY,
    "embed_rows": _abi.QINFER_LOAD_EMBED_ROWS,
    "budget_private": _abi.QINFER_LOAD_BUDGET_PRIVATE,
    "pack": _abi.QINFER_LOAD_PACK,
}  # by what they are called here; of the negative ones the absence sets the flag


class LoadOptions(TypedDict, total=False):
    """How a model is loaded.

    weights False: metadata and tokenizer alone. mmap False: weights are read into memory. lock: they stay resident.
    verify: values and checksums are looked at. pack: weights are copied into the layout that is multiplied fastest.
    embed_rows: tied embeddings are kept as rows, too. weight_format: "f32", "f16" or "bf16", as kernel_sets() says.
    max_batch_tokens: evaluated in one pass. memory_budget: bytes for the model, its caches and sessions, without the
    mapped weights where budget_private is set. max_context: tokens that sessions will have at most, which matters to
    models with longrope. layers: a stage, such as range(0, 14). packed_path: a file that pack() made of this model.
    progress: called with (done_bytes, total_bytes). files: where the paths are, instead of the operating system's files;
    weights are read into memory then."""

    weights: bool
    mmap: bool
    lock: bool
    verify: bool
    pack: bool
    embed_rows: bool
    budget_private: bool
    weight_format: str | None
    max_batch_tokens: int
    memory_budget: int
    max_context: int
    layers: range | None
    packed_path: Path | None
    progress: Callable[[int, int], object] | None
    cancel: Cancel | None
    files: Opener | None


def find(path: Path) -> Path:
    """The path, or the snapshot of a model that is named by its id of the Hugging Face hub, or its file that
    "org/name:*Q4_K_M.gguf" asks for."""
    if not isinstance(path, (str, os.PathLike)) or os.path.exists(path):
        return path
    named = re.fullmatch(r"([\w.-]+/[\w.-]+)(?::(\S+))?", str(path))
    if named is None:
        return path
    try:
        import huggingface_hub  # noqa: F401 - whether it is there
    except ImportError:
        raise _not_there(path, "to fetch it from the hub: pip install huggingface_hub") from None
    try:
        return _fetched(named[1], named[2])
    except NotFoundError:
        raise
    except Exception as failure:
        raise _not_there(path, f"and the hub does not give it: {failure}") from failure


def _fetched(repository: str, pattern: str | None) -> str:
    from huggingface_hub import snapshot_download

    folder = str(snapshot_download(repository, allow_patterns=[pattern] if pattern else _PATTERNS))
    if pattern is None:
        return folder
    import pathlib

    found = sorted(str(file) for file in pathlib.Path(folder).glob(pattern) if file.is_file())
    parts = [file for file in found if re.search(r"-of-\d+\.gguf$", file)]
    if not found or len(found) > 1 and len(parts) != len(found):
        names = ", ".join(os.path.relpath(file, folder) for file in found) or "none"
        raise _not_there(f"{repository}:{pattern}", f"files of it: {names}; one is expected, or the parts of one")
    return found[0]


def _not_there(path: Path, why: str) -> NotFoundError:
    message = f"{path} is no file or directory; {why}"
    return NotFoundError("QINFER_E_NOT_FOUND", _abi.QINFER_E_NOT_FOUND, message, errno.ENOENT)


def _stage_of(layers: range) -> tuple[int, int]:
    expect(range, layers)
    if layers.step != 1 or len(layers) == 0:
        raise ValueError(f"layers is {layers}, expected a range of layers one after another, such as range(0, 14)")
    return layers.start, len(layers)


class Loading:
    """Load options as the library takes them, for one call. `name` is of the function that got them."""

    def __init__(self, name: str, given: LoadOptions) -> None:
        checked_names(name, given, LoadOptions)
        self.native = options = sized(
            _abi.qinfer_load_options,
            max_batch_tokens=given.get("max_batch_tokens", 0),
            memory_budget_bytes=given.get("memory_budget", 0),
            max_context=given.get("max_context", 0),
        )
        for key, flag in _FLAGS.items():
            wanted = bool(given.get(key, flag < 0))
            options.flags |= abs(flag) if wanted == (flag > 0) else 0
        layers = given.get("layers")
        if layers is not None:
            options.first_layer, options.n_layers = _stage_of(layers)
        options.weight_format = encoded(given.get("weight_format"))
        options.packed_path = encoded(given.get("packed_path"))
        self._cancel, self._files, self._progress = given.get("cancel"), given.get("files"), given.get("progress")

    def find(self, path: Path) -> bytes | None:
        return encoded(find(path) if self._files is None else path)

    def call(self, function: Any, *arguments: Any) -> None:
        """Calls a function that gets these options, while signals are heard and callbacks may raise."""
        ending = Cancel.of_call(self._cancel)
        self.native.cancel = address_of(Cancel, ending)
        callbacks = Callbacks(ending) if self._files is None else HostFiles(self._files)
        if isinstance(callbacks, HostFiles):
            self.native.files = ctypes.pointer(callbacks.native)
        progress = self._progress
        if progress is not None:
            report = progress

            def advance(done: int, total: int, _: Any) -> int:
                report(done, total)
                return 0

            guard = callbacks.guarded(_abi.qinfer_progress_fn, advance)
            self.native.progress = guard
        with Held(ending):
            if self._files is None and progress is None:
                call_apart(ending, function, *arguments)
            else:
                callbacks.call(function, *arguments)
