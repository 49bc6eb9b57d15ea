"""The exceptions of the service's package. What a client raises is one of them, and also the QinferError that it was."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .. import _abi
from .._errors import QinferError


class OpenAIError(Exception):
    """All that follow."""


class APIError(OpenAIError):
    """A request that failed; code, param and type are as in the service's answers, and body is that answer."""

    def __init__(self, message: str, request: Any = None, *, body: Any = None) -> None:
        Exception.__init__(self, message)
        self.message, self.request, self.body = message, request, body
        members = body if isinstance(body, dict) else {}
        self.code: str | None = members.get("code")
        self.param: str | None = members.get("param")
        self.type: str | None = members.get("type")


class APIStatusError(APIError):
    """One that the service has a status of HTTP for. There is no response."""

    status_code = 500
    response: Any = None
    request_id: str | None = None


class BadRequestError(APIStatusError):
    status_code = 400


class AuthenticationError(APIStatusError):
    """Never raised: there are no keys."""

    status_code = 401


class PermissionDeniedError(APIStatusError):
    """Never raised."""

    status_code = 403


class NotFoundError(APIStatusError):
    """What is raised is a qinfer.NotFoundError, too."""

    status_code = 404


class ConflictError(APIStatusError):
    """Never raised."""

    status_code = 409


class UnprocessableEntityError(APIStatusError):
    """Never raised."""

    status_code = 422


class RateLimitError(APIStatusError):
    """Too many requests wait, or the cache has no room for one."""

    status_code = 429


class InternalServerError(APIStatusError):
    status_code = 500


class APIConnectionError(APIError):
    """The engine was closed, or the request was cancelled."""


class APITimeoutError(APIConnectionError):
    """A request that took longer than its timeout."""


class APIResponseValidationError(APIError):
    """Never raised."""


class LengthFinishReasonError(OpenAIError):
    """parse() got an answer that max_tokens has cut off."""

    def __init__(self, *, completion: Any) -> None:
        super().__init__(f"Could not parse response content as the length limit was reached - {completion.usage}")
        self.completion = completion


class ContentFilterFinishReasonError(OpenAIError):
    """Never raised."""


_KINDS: dict[int, tuple[type[APIError], str, str | None]] = {
    _abi.QINFER_E_INVALID_ARGUMENT: (BadRequestError, "invalid_request_error", "invalid_value"),
    _abi.QINFER_E_FORMAT: (BadRequestError, "invalid_request_error", "invalid_value"),
    _abi.QINFER_E_UNSUPPORTED: (BadRequestError, "invalid_request_error", "unsupported_parameter"),
    _abi.QINFER_E_CONTEXT_FULL: (BadRequestError, "invalid_request_error", "context_length_exceeded"),
    _abi.QINFER_E_NOT_FOUND: (NotFoundError, "invalid_request_error", "model_not_found"),
    _abi.QINFER_E_NO_MEMORY: (RateLimitError, "requests", "rate_limit_exceeded"),
    _abi.QINFER_E_KV_FULL: (RateLimitError, "requests", "rate_limit_exceeded"),
    _abi.QINFER_E_STATE: (APIConnectionError, "server_error", None),
    _abi.QINFER_E_CANCELLED: (APIConnectionError, "server_error", None),
}


_made: dict[tuple[Any, Any], Any] = {}


def _both(kind: type[APIError], own: type[QinferError]) -> Any:
    if (kind, own) in _made:
        return _made[kind, own]

    def reduce(self: Any) -> tuple[Any, ...]:
        return service_error, (own(self.name, self.status, self.message, self.detail), kind is APITimeoutError)

    members = {"__module__": kind.__module__, "__doc__": kind.__doc__, "__reduce__": reduce}
    return _made.setdefault((kind, own), type(kind.__name__, (kind, own), members))


def service_error(failure: QinferError, timed_out: bool = False) -> Exception:
    """The same failure as a program for the service expects it."""
    kind, what, code = _KINDS.get(failure.status, (InternalServerError, "server_error", None))
    if failure.status == _abi.QINFER_E_NO_MEMORY and "max_waiting" not in failure.message:
        kind, what, code = InternalServerError, "server_error", None  # of the system, or of a budget
    if timed_out and failure.status == _abi.QINFER_E_CANCELLED:
        kind = APITimeoutError
    named = re.match(r'request: "([^"]+)"', failure.message)
    body = {"message": failure.message, "type": what, "param": named[1] if named else None, "code": code}
    error = _both(kind, type(failure))(failure.message, body=body)
    QinferError.__init__(error, failure.name, failure.status, failure.message, failure.detail)
    return error  # type: ignore[no-any-return]


@contextmanager
def answered(timeout: float | None = None) -> Iterator[None]:
    """What fails inside is raised as an error of the service. What was one already stays."""
    try:
        yield
    except QinferError as failure:
        if isinstance(failure, APIError):
            raise
        raise service_error(failure, timeout is not None) from failure.__cause__
