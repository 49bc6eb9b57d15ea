"""The front of an application: HTTP with OpenAI's interface. It reads requests, with the model's tokenizer and without its
weights, refuses what is wrong, has the router choose a replica, and passes on what that one answers."""

from __future__ import annotations

import asyncio
import datetime
import json
import time
import uuid
from collections.abc import AsyncGenerator
from typing import Any

from ray.exceptions import RayActorError, RayError, RayTaskError
from starlette.requests import Request as HttpRequest
from starlette.responses import Response, StreamingResponse

from .. import _abi
from .._errors import QinferError
from .._model import Model
from ..openai._draw import new_seed
from ._blocks import names_of
from ._moving import Ask
from ._refusals import Refusal, lost, refusal, refusal_of
from ._replica import By, Moved
from ._route import Route

_MOST_BYTES = 64 << 20  # of a body, as the library takes it
_BLOCK_TOKENS = 32  # of the replicas' caches
_KINDS = {
    "/chat/completions": (_abi.QINFER_OPENAI_CHAT, "chatcmpl"),
    "/completions": (_abi.QINFER_OPENAI_COMPLETION, "cmpl"),
    "/embeddings": (_abi.QINFER_OPENAI_EMBEDDINGS, "embd"),
}


class Front:
    def __init__(self, replicas: Any, model: str, *, name: str, context: int) -> None:
        self._replicas = replicas.options(stream=True)
        self._model = Model(model, weights=False, max_context=context)
        most = int(self._model.info["context_tokens"])
        self._name, self._context, self._started = name, min(context or most, most), int(time.time())

    async def __call__(self, request: HttpRequest) -> Response:
        under = request.scope.get("root_path", "")  # where Ray Serve has several applications
        path = request.url.path.removeprefix(under).removeprefix("/v1")
        if path in _KINDS:
            if request.method != "POST":
                return _response(refusal(405, "The method is not allowed here"))
            return await self._answer(*_KINDS[path], request)
        if path == "/models":
            return _json({"object": "list", "data": [self._described()]})
        if path == f"/models/{self._name}":
            return _json(self._described())
        if path.startswith("/models/"):
            return _response(refusal(404, f"The model here is {self._name}", code="model_not_found"))
        if path == "/health":
            return Response()
        return _response(refusal(404, f"There is no {request.url.path} here"))

    def _described(self) -> dict[str, Any]:
        about = {"id": self._name, "object": "model", "created": self._started, "owned_by": "qinfer"}
        return {**about, "max_model_len": self._context}

    async def _answer(self, kind: int, prefix: str, request: HttpRequest) -> Response:
        body = await _body_of(request)
        if body is None:
            return _response(refusal(413, f"The body has more than {_MOST_BYTES} bytes"))
        now = datetime.datetime.now().isoformat(timespec="seconds")
        name = f"{prefix}-{uuid.uuid4().hex}"
        ask = Ask(kind, body, new_seed(), now, name, self._name, int(time.time()))
        try:
            route, streams = await asyncio.to_thread(self._read, ask)
        except QinferError as failure:
            return _response(refusal_of(failure))
        if isinstance(route, Refusal):
            return _response(route)
        pieces = self._pieces(route, ask)
        replica, first = "", await anext(pieces, "")
        if isinstance(first, By):
            replica, first = first.replica, await anext(pieces, "")
        headers = {"X-Replica": replica}
        if streams and not isinstance(first, Refusal):
            return StreamingResponse(_events(first, pieces), headers=headers, media_type="text/event-stream")
        texts = []
        while first != "":
            if isinstance(first, Refusal):
                await pieces.aclose()
                return _response(first, headers)
            texts.append(first)
            first = await anext(pieces, "")
        return Response("".join(texts), headers=headers, media_type="application/json")

    def _read(self, ask: Ask) -> tuple[Route | Refusal, bool]:
        """Where it goes, and whether its answer is a stream."""
        with ask.read(self._model) as request:
            info = request.info
            draws = ask.kind != _abi.QINFER_OPENAI_EMBEDDINGS and not info.flags & _abi.QINFER_OPENAI_NO_NEW_TOKENS
            prompt, new = info.longest_prompt, max(info.max_new_tokens, 1) if draws else 0
            if prompt + new > self._context:
                told = (
                    f"This model's maximum context length is {self._context} tokens: {prompt} of the prompt and {new} "
                    "new ones do not fit, and nothing is cut"
                )
                return refusal(400, told, code="context_length_exceeded"), False
            return Route(tuple(names_of(request.tokens(0), _BLOCK_TOKENS))), request.streams

    async def _pieces(self, route: Route, ask: Ask) -> AsyncGenerator[Any, None]:
        """Of the answer, from whichever replicas compute it."""
        stream = self._replicas.answer.remote(route, ask)
        moves = 0
        try:
            while True:
                moved = None
                async for piece in stream:
                    if isinstance(piece, Moved):
                        moved = piece
                    elif moves == 0 or not isinstance(piece, By):
                        yield piece
                if moved is None:
                    return
                moves += 1
                stream = self._replicas.follow.remote(Route(replica=moved.replica), moved.ticket)
        except RayTaskError as failure:
            yield refusal(500, f"The replica failed: {failure.cause}", "server_error")
        except RayActorError:
            yield lost("The replica that computed the answer has died")
        except RayError as failure:
            yield refusal(500, f"Ray failed: {failure}", "server_error")
        finally:
            stream.cancel()


async def _body_of(request: HttpRequest) -> bytes | None:
    """None: it has too many bytes, whatever its head says of that."""
    if int(request.headers.get("content-length", 0)) > _MOST_BYTES:
        return None
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _MOST_BYTES:
            return None
    return bytes(body)


async def _events(first: str, pieces: AsyncGenerator[Any, None]) -> AsyncGenerator[str, None]:
    """A stream whose head is sent ends with an event that says what is wrong."""
    try:
        yield first
        async for piece in pieces:
            yield f"data: {piece.json}\n\ndata: [DONE]\n\n" if isinstance(piece, Refusal) else piece
    finally:
        await pieces.aclose()


def _response(refused: Refusal, headers: dict[str, str] | None = None) -> Response:
    more = {"Retry-After": "1"} if refused.status in (429, 503) else {}
    return Response(refused.json, refused.status, {**(headers or {}), **more}, "application/json")


def _json(value: Any) -> Response:
    return Response(json.dumps(value), media_type="application/json")
