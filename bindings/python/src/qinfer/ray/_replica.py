"""A replica: a model in a process of its own that answers requests of OpenAI's interface as the front sends them. One that
is to end hands what it computes over to others: see _moving.py."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve

from .. import _abi
from .._engine import AsyncEngine, Inbox, Reservation
from .._errors import QinferError
from .._model import Model
from .._runtime import Runtime
from ..openai._draw import Answer, HasLeft, Request
from .._cache import KvCache
from .._vectors import pooling_of
from ._blocks import Resident, names_of, packed
from ._moving import Answering, Ask, Parked, reserved, resume
from ._refusals import lost, refusal_of, refusal_of_begin
from ._route import Route, watch

_FOLLOWED_S = 60.0  # in which what was handed over must be asked for
_HAND_OVER_S = 120.0

_log = logging.getLogger("ray.serve")


@dataclass(frozen=True)
class By:
    """Before all else: who answers."""

    replica: str


@dataclass(frozen=True)
class Moved:
    """The rest of the answer is there."""

    replica: str
    ticket: int


class Replica:
    """What Ray makes as many of as are needed. Calls of its methods come from the front, and from replicas that end."""

    def __init__(
        self,
        model: str,
        *,
        runtime: dict[str, Any],
        context: int,
        cache_bytes: int,
        max_running: int,
        max_waiting: int,
    ) -> None:
        self._model = Model(model, Runtime(**runtime), max_context=context)
        cache = KvCache(self._model, budget_bytes=cache_bytes, prefix=True)
        self._engine = AsyncEngine(cache, max_running=max_running, max_waiting=max_waiting)
        self._resident = Resident(cache)
        self._reported: tuple[Any, str] = None, ""
        self._block_tokens = int(cache.stats["block_tokens"])
        self._answering: set[Answering] = set()
        self._adopted: dict[int, Answering] = {}
        self._adopting, self._embedding = asyncio.Lock(), asyncio.Lock()
        self._ends = False
        self._peers: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watcher = self._note_running
        self._own = serve.get_replica_context().replica_tag

    # ---- What the front asks for
    async def answer(self, route: Route, ask: Ask) -> AsyncGenerator[Any, None]:
        """By, and pieces of the answer's text in the order in which they come; the last one may be a Refusal, or say where
        the rest is. Leaving it cancels the request."""
        self._meet_peers()
        yield By(self._own)
        answering = None
        try:
            if ask.kind == _abi.QINFER_OPENAI_EMBEDDINGS:
                yield await self._embeddings(ask)
                return
            answering = await asyncio.to_thread(Answering, self._engine, ask, Inbox())
            await self._submit(answering)
        except QinferError as failure:
            yield refusal_of_begin(failure)
            return
        except BaseException:  # the client has left meanwhile
            if answering is not None:
                answering.jobs.cancel()
            raise
        async with contextlib.aclosing(self._pieces(answering)) as pieces:
            async for piece in pieces:
                yield piece

    async def follow(self, route: Route, ticket: int) -> AsyncGenerator[Any, None]:
        """The rest of an answer that was handed over to this replica."""
        yield By(self._own)
        answering = self._adopted.pop(ticket, None) if route.replica == self._own else None
        if answering is None:
            yield lost("The replica that the request was handed over to has ended, or does not know it any more")
            return
        async with contextlib.aclosing(self._pieces(answering)) as pieces:
            async for piece in pieces:
                yield piece

    # ---- What replicas ask for, and whoever has a handle
    async def adopt(self, route: Route, parked: Parked) -> Moved:
        """Goes on with the request, whose text is kept until somebody follows it."""
        answering = await self._resume(parked)
        ticket = secrets.randbits(64)  # which no other replica has given, and no client guesses
        self._adopted[ticket] = answering
        asyncio.get_running_loop().call_later(_FOLLOWED_S, self._forget, ticket)
        return Moved(self._own, ticket)

    async def stats(self, route: Route) -> dict[str, Any]:
        """Of its scheduler and its cache, and its name."""
        return {"replica": self._own, **self._engine.cache.stats, **self._engine.stats}

    # ---- What Ray Serve asks for
    def record_routing_stats(self) -> dict[str, Any]:
        stats = self._engine.stats
        state = stats["steps"], len(self._answering)
        if state != self._reported[0]:
            self._reported = state, packed(self._resident.names())
        return {"requests": stats["waiting"] + stats["running"], "names": self._reported[1]}

    def record_autoscaling_stats(self) -> dict[str, float]:
        cache = self._engine.cache.stats
        return {"cache_used": cache["blocks_used"] / max(1, cache["blocks_total"])}

    # ---- Answers
    async def _submit(self, answering: Answering) -> None:
        for index in range(answering.request.info.n_prompts):
            self._resident.note(answering.request.tokens(index))
        await asyncio.to_thread(answering.jobs.submit)

    async def _pieces(self, answering: Answering) -> AsyncGenerator[Any, None]:
        while True:
            self._answering.add(answering)
            try:
                if self._ends:
                    self._leave(answering)
                async for texts in answering.inbox.batches():
                    yield "".join(texts)
                return
            except HasLeft:
                pass
            except QinferError as failure:
                yield refusal_of(failure)
                return
            finally:
                self._answering.discard(answering)
                answering.jobs.cancel()
            parked = await asyncio.to_thread(answering.parked)
            try:
                yield await self._hand_over(parked)
                return
            except Exception:  # noqa: BLE001 - whatever it is, the answer can still be computed here
                _log.exception("A request was not handed over, and goes on here")
                answering = await self._resume(parked)
                answering.may_move = False

    async def _resume(self, parked: Parked) -> Answering:
        async with self._adopting:  # so that no two of them hold blocks that the other one waits for
            return await resume(self._engine, parked)

    def _forget(self, ticket: int) -> None:
        answering = self._adopted.pop(ticket, None)
        if answering is not None:
            answering.jobs.cancel()

    async def _embeddings(self, ask: Ask) -> str:
        """In the cache that requests have, once there is room, and those of one request at a time."""
        request = await asyncio.to_thread(ask.read, self._model)
        async with self._embedding:
            reservation = await reserved(self._engine, request.info.longest_prompt, embeddings=True)
            return await asyncio.to_thread(self._embed, ask, request, reservation)

    def _embed(self, ask: Ask, request: Request, reservation: Reservation) -> str:
        try:
            answer = Answer(request, ask.name, ask.model, ask.created)
            for prompt in range(request.info.n_prompts):
                answer.embed(prompt, reservation.session, pooling_of("default"))
            return answer.read()
        finally:
            reservation.close()

    # ---- The end
    def _meet_peers(self) -> None:
        """With the first request: a handle tells when this replica is not sent requests any more, which is how one that is
        to end learns of it."""
        if self._peers is not None:
            return
        self._loop = asyncio.get_running_loop()
        context = serve.get_replica_context()
        watch(self._watcher)
        self._peers = serve.get_deployment_handle(context.deployment, context.app_name)
        self._peers.stats.remote(Route())  # a handle learns of replicas when it is first used

    def _note_running(self, replicas: set[str]) -> None:
        """[any thread] Where there are no others nothing can be handed over, and what is drawn here is drawn to its end."""
        if replicas and self._own not in replicas and self._loop is not None:
            self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        self._ends = True
        for answering in list(self._answering):
            self._leave(answering)

    def _leave(self, answering: Answering) -> None:
        if answering.may_move:
            answering.jobs.leave()

    async def _hand_over(self, parked: Parked) -> Moved:
        names = names_of(parked.choices[0].tokens, self._block_tokens)
        call = self._peers.adopt.remote(Route(tuple(names)), ray.put(parked))
        moved: Moved = await asyncio.wait_for(call, _HAND_OVER_S)
        return moved
