"""What a client is told instead of an answer, in OpenAI's form."""

from __future__ import annotations

import json
from dataclasses import dataclass

from .. import _abi
from .._errors import QinferError
from ..openai._draw import error_json

_STATUSES = {
    _abi.QINFER_E_INVALID_ARGUMENT: 400,
    _abi.QINFER_E_FORMAT: 400,
    _abi.QINFER_E_UNSUPPORTED: 400,
    _abi.QINFER_E_CONTEXT_FULL: 400,
    _abi.QINFER_E_NOT_FOUND: 400,  # a template; to clients 404 says that there is no such model
    _abi.QINFER_E_NO_MEMORY: 503,
    _abi.QINFER_E_KV_FULL: 503,
    _abi.QINFER_E_CANCELLED: 503,
}


@dataclass(frozen=True)
class Refusal:
    """Instead of an answer, or of the rest of one."""

    status: int
    json: str


def refusal(status: int, message: str, kind: str = "invalid_request_error", code: str | None = None) -> Refusal:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Refusal(status, json.dumps({"error": error}))


def lost(message: str) -> Refusal:
    """A replica that is no more; the request can be sent again."""
    return refusal(503, message, "server_error", "replica_lost")


def refusal_of(error: QinferError) -> Refusal:
    return Refusal(_STATUSES.get(error.status, 500), error_json(error))


def refusal_of_begin(error: QinferError) -> Refusal:
    """Of a request that was to be submitted."""
    told = refusal_of(error)
    if error.status == _abi.QINFER_E_NO_MEMORY:
        return Refusal(429, told.json)
    return Refusal(400, told.json) if error.status == _abi.QINFER_E_KV_FULL else told  # it would never fit
