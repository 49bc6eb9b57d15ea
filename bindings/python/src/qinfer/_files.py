"""Files of the caller: models and snapshots that come from an archive, an encrypted store or memory instead of paths."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

from . import _abi
from ._errors import QinferError
from ._library import Callbacks, call, checked, fields_of, sized


class File(Protocol):
    """An open file. read_at() gives all n bytes, which are there; write_at(), sync() and truncate() are asked for only of
    files that were opened to be written."""

    def size(self) -> int: ...
    def read_at(self, offset: int, n: int) -> bytes: ...
    def write_at(self, offset: int, data: bytes) -> None: ...
    def sync(self) -> None: ...
    def truncate(self, n: int) -> None: ...
    def close(self) -> None: ...


Opener = Callable[[str, bool], File]
"""open(name, writing): the file of that name. FileNotFoundError says that there is none; one to be written is made. Of a
model first the path itself is asked for and, if there is none, "PATH/config.json" and so on."""


class HostFiles(Callbacks):
    """An Opener as the library takes it, for one call. OSError of the opener or a file is IoError, which names the file;
    the OSError is its cause. Other exceptions come out of call() as they are."""

    def __init__(self, opener: Opener) -> None:
        super().__init__()
        self._opener = opener
        self._files: list[tuple[File, bool]] = []  # with whether it is written
        self._os_error: OSError | None = None
        kinds = fields_of(_abi.qinfer_files)
        self.native = sized(_abi.qinfer_files)
        self.native.open = self.guarded(kinds["open"], self._open, _abi.QINFER_E_IO)
        for name in ("size", "read_at", "write_at", "sync", "truncate"):
            setattr(self.native, name, self.guarded(kinds[name], getattr(self, "_" + name), _abi.QINFER_E_IO))
        self.native.close = self.guarded(kinds["close"], self._close, _abi.QINFER_E_IO, always=True)

    def call(self, function: Any, *arguments: Any) -> None:
        try:
            with self._interruptible():
                call(function, *arguments)
        except QinferError as failure:
            if self.raised is None:
                raise failure from self._os_error
        self._raise()

    def _file(self, handle: int | None) -> File:
        return self._files[(handle or 1) - 1][0]

    def _attempt(self, work: Callable[[], object]) -> int:
        try:
            work()
        except OSError as failure:
            self._os_error = failure
            return _abi.QINFER_E_IO
        return 0

    def _open(self, name: int, mode: int, out: Any, _: Any) -> int:
        path = ctypes.string_at(name).decode("utf-8", "surrogateescape")

        writing = bool(mode & _abi.QINFER_FILE_WRITE)
        try:
            self._files.append((self._opener(path, writing), writing))
        except FileNotFoundError:
            return _abi.QINFER_E_NOT_FOUND
        except OSError as failure:
            self._os_error = failure
            return _abi.QINFER_E_IO
        out[0] = len(self._files)
        return 0

    def _size(self, handle: int, out: Any, _: Any) -> int:
        def work() -> None:
            out[0] = checked(ctypes.c_uint64, self._file(handle).size())

        return self._attempt(work)

    def _read_at(self, handle: int, offset: int, data: int, n: int, _: Any) -> int:
        def work() -> None:
            found = self._file(handle).read_at(offset, n)
            if len(found) != n:
                raise OSError(f"read_at({offset}, {n}) gave {len(found)} bytes")
            ctypes.memmove(data, found, n)

        return self._attempt(work)

    def _write_at(self, handle: int, offset: int, data: int, n: int, _: Any) -> int:
        return self._attempt(lambda: self._file(handle).write_at(offset, ctypes.string_at(data, n)))

    def _sync(self, handle: int, _: Any) -> int:
        return self._attempt(self._file(handle).sync)

    def _truncate(self, handle: int, n: int, _: Any) -> int:
        return self._attempt(lambda: self._file(handle).truncate(n))

    def _close(self, handle: int, _: Any) -> int:
        before = self._os_error
        status = self._attempt(self._file(handle).close)
        if before is not None or not self._files[handle - 1][1]:
            self._os_error = before  # the file was closed because of that, or lost nothing
        return status
