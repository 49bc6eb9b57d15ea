"""The shared libraries, their functions, and how failures become exceptions."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import _abi
from ._errors import ERRORS, QinferError

_FOLDER = Path(__file__).parent
_ROOM = 4096


def _load(name: str, soname: str, variable: str) -> ctypes.CDLL:
    """The library beside this file, else one that the environment names, else the system's."""
    named = os.environ.get(variable)
    beside = _FOLDER / soname
    library = ctypes.CDLL(named if named else str(beside) if beside.exists() else soname)
    for function, (result, arguments) in _abi.FUNCTIONS.items():
        if function.startswith("qinfer_grammar_") == (name == "qinfer_grammar"):
            found = getattr(library, function)
            found.restype, found.argtypes = result, arguments
    return library


lib = _load("qinfer", "libqinfer.so.0.1", "QINFER_LIBRARY")
_grammar_lock = threading.Lock()
_grammar_lib: ctypes.CDLL | None = None


def grammar_lib() -> ctypes.CDLL:
    """libqinfer_grammar, loaded when it is first needed: it may not be there."""
    global _grammar_lib
    with _grammar_lock:
        if _grammar_lib is None:
            _grammar_lib = _load("qinfer_grammar", "libqinfer_grammar.so.0.2", "QINFER_GRAMMAR_LIBRARY")
        return _grammar_lib


class _Failure(threading.local):
    """Room for the message of a failed call, one for each thread."""

    def __init__(self) -> None:
        self.text = ctypes.create_string_buffer(_ROOM)
        self.full = _abi.qinfer_full_error(struct_size=ctypes.sizeof(_abi.qinfer_full_error))
        self.full.text = ctypes.addressof(self.text)
        self.full.capacity = _ROOM
        self.argument = lib.qinfer_full_error_arg(ctypes.byref(self.full))


_failure = _Failure()


def error_of(status: int, message: str, detail: int) -> QinferError:
    name = lib.qinfer_status_name(status).decode()
    return ERRORS.get(status, QinferError)(name, status, message, detail)


def call(function: Any, *arguments: Any) -> None:
    """Calls a function that ends with an error argument. Failures are raised."""
    failure = _failure
    status = function(*arguments, failure.argument)
    if status != 0:
        raise error_of(status, failure.text.value.decode("utf-8", "replace"), failure.full.error.detail)


def sized(struct: Any, **members: Any) -> Any:
    """A struct whose first member is its size."""
    return struct(struct_size=ctypes.sizeof(struct), **members)


def fields_of(struct: Any) -> dict[str, Any]:
    """The members of a struct with their types."""
    return dict(struct._fields_)


def encoded(text: str | os.PathLike[str] | None) -> bytes | None:
    return None if text is None else os.fspath(text).encode("utf-8", "surrogateescape")


def text_at(address: int | None, size: int) -> str:
    """UTF-8 at an address, which may hold NUL."""
    return ctypes.string_at(address, size).decode("utf-8", "replace") if address and size else ""


def read_text(function: Any, *arguments: Any, room: int = 1024) -> str:
    """What a function writes to (text, capacity, out_n)."""
    n = ctypes.c_size_t()
    while True:
        buffer = ctypes.create_string_buffer(room)
        try:
            call(function, *arguments, buffer, room, ctypes.byref(n))
            return buffer.raw[: n.value].decode("utf-8", "replace")
        except ERRORS[_abi.QINFER_E_BUFFER_TOO_SMALL]:
            room = max(n.value + 1, 2 * room)


def read_tokens(function: Any, *arguments: Any, room: int = 256) -> list[int]:
    n = ctypes.c_size_t()
    while True:
        buffer = (ctypes.c_int32 * room)()
        try:
            call(function, *arguments, buffer, room, ctypes.byref(n))
            return buffer[: n.value]
        except ERRORS[_abi.QINFER_E_BUFFER_TOO_SMALL]:
            room = max(n.value, 2 * room)


class Callbacks:
    """Keeps what callbacks raise until the call that made them is over."""

    def __init__(self) -> None:
        self.raised: BaseException | None = None

    def guarded(self, kind: Any, function: Callable[..., Any], failed: Any = 1) -> Any:
        """A C callback that calls `function`. What it raises ends the call: `failed` is returned."""

        def guard(*arguments: Any) -> Any:
            if self.raised is not None:
                return failed
            try:
                return function(*arguments)
            except BaseException as raised:  # noqa: BLE001 - no exception may pass through C
                self.raised = raised
                return failed

        return kind(guard)

    def call(self, function: Any, *arguments: Any) -> None:
        """As call(); what a callback raised comes first."""
        try:
            call(function, *arguments)
        except QinferError:
            if self.raised is None:
                raise
        if self.raised is not None:
            raised, self.raised = self.raised, None
            raise raised


class Handle:
    """An object of the library. It is freed by close(), at the end of a with statement, or when nothing refers to it; what
    was made from it keeps what it needs."""

    _free: str = ""
    _handle: int | None = None

    @property
    def native(self) -> int:
        """The handle of the C ABI. ValueError after close()."""
        if self._handle is None:
            raise ValueError(f"this {type(self).__name__} is closed")
        return self._handle

    def _create(self, call_create: Callable[[Any], None]) -> None:
        out = ctypes.c_void_p()
        call_create(ctypes.byref(out))
        self._handle = out.value

    def _library(self) -> ctypes.CDLL:
        return lib

    def close(self) -> None:
        handle, self._handle = self._handle, None
        if handle is not None:
            getattr(self._library(), self._free)(handle)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if self._handle is not None:
            self.close()
