"""An exception for each status of the library."""

from __future__ import annotations

from typing import Any

from . import _abi


class QinferError(Exception):
    """A call that failed. `status` is the QINFER_E_* constant, `name` its name, `detail` what it says in qinfer.h."""

    def __init__(self, name: str, status: int, message: str, detail: int) -> None:
        super().__init__(f"{name}: {message}")
        self.name, self.status, self.message, self.detail = name, status, message, detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.status, self.message, self.detail)


class InternalError(QinferError):
    """A bug in qinfer: the objects involved can only be closed."""


class InvalidArgumentError(QinferError, ValueError):
    """An argument that cannot be; detail: the index of the element at fault, where it is one of a list."""


class StateError(QinferError):
    """The right call at the wrong time."""


class UnsupportedError(QinferError):
    """An architecture, format, CPU or option that this library does not know."""


class NoMemoryError(QinferError, MemoryError):
    """The system's memory or a budget is exhausted; detail: bytes needed, where known."""


class IoError(QinferError):
    """The operating system failed; detail: errno."""


class NotFoundError(QinferError):
    """A file, token or template that is not there."""


class FormatError(QinferError, ValueError):
    """Damaged or malformed input; detail: the byte offset, or -1."""


class BufferTooSmallError(QinferError):
    """Room that does not suffice; detail: elements needed."""


class KvFullError(QinferError):
    """The KV cache has no blocks left; detail: the index of the first session without room."""


class ContextFullError(QinferError):
    """The session holds max_tokens tokens."""


class CancelledError(QinferError):
    """Cancelled by a Cancel or a callback."""


class NumericError(QinferError, ArithmeticError):
    """Logits that are not finite, or none left to draw from."""


ERRORS: dict[int, type[QinferError]] = {
    _abi.QINFER_E_INTERNAL: InternalError,
    _abi.QINFER_E_INVALID_ARGUMENT: InvalidArgumentError,
    _abi.QINFER_E_STATE: StateError,
    _abi.QINFER_E_UNSUPPORTED: UnsupportedError,
    _abi.QINFER_E_NO_MEMORY: NoMemoryError,
    _abi.QINFER_E_IO: IoError,
    _abi.QINFER_E_NOT_FOUND: NotFoundError,
    _abi.QINFER_E_FORMAT: FormatError,
    _abi.QINFER_E_BUFFER_TOO_SMALL: BufferTooSmallError,
    _abi.QINFER_E_KV_FULL: KvFullError,
    _abi.QINFER_E_CONTEXT_FULL: ContextFullError,
    _abi.QINFER_E_CANCELLED: CancelledError,
    _abi.QINFER_E_NUMERIC: NumericError,
}
