"""Where a request goes: to the replica whose cache has the longest beginning of its prompt, unless that one is far busier
than another.

Replicas report the names of what is in their caches (_blocks.py) and how busy they are, every few seconds. What has
been sent to one since then counts as being there, so that requests which begin alike and come together stay together."""

from __future__ import annotations

import collections
import math
import time
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from ._route import Contents, Route, tell_watchers

_MEANT_S = 5.0  # how long a request waits for the replica that it is for
_CHOSEN_S = 5.0  # how long a request that was meant for a replica counts as being there before it is


class LongestBeginning(RequestRouter):  # type: ignore[misc]  # whose types are not looked at
    """far_busier: by how many requests the replica that has the longest beginning may have more than the one that has
    fewest."""

    def initialize_state(self, far_busier: int = 8) -> None:
        self._far_busier = far_busier
        self._contents: dict[str, Contents] = {}
        self._under_way: dict[str, tuple[str, float]] = {}  # the replica of a request, and until when that is so

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        super().update_replicas(replicas)
        running = {replica.replica_id.unique_id for replica in replicas}
        for gone in [key for key in self._contents if key not in running]:
            del self._contents[gone]
        tell_watchers(running)

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """The best one first; the others take the request where that one takes none."""
        route = _route_of(pending_request)
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True  # before it is asked again
        if route.replica:
            meant = [replica for replica in candidate_replicas if replica.replica_id.unique_id == route.replica]
            if meant:
                return [meant]
            waits = pending_request is not None and time.time() < pending_request.created_at + _MEANT_S
            return [] if waits else [[replica] for replica in candidate_replicas]  # any says that it is another one
        now = time.monotonic()
        self._under_way = {key: value for key, value in self._under_way.items() if value[1] > now}
        ours = collections.Counter(where for where, _ in self._under_way.values())
        loads = {
            replica.replica_id: max(self._load_of(replica), ours[replica.replica_id.unique_id])
            for replica in candidate_replicas
        }
        known = {replica.replica_id: self._known_of(replica) for replica in candidate_replicas}
        least = min(loads.values(), default=0)

        def rank(replica: RunningReplica) -> tuple[Any, ...]:
            load, contents = loads[replica.replica_id], known[replica.replica_id]
            far_busier = load - least > self._far_busier
            return far_busier, -contents.blocks_of(route.names, now), load, contents.size()

        ranked = sorted(candidate_replicas, key=rank)
        if pending_request is not None and ranked:
            self._note(pending_request, ranked[0].replica_id, now + _CHOSEN_S)
        return [[replica] for replica in ranked]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        contents = self._contents.setdefault(replica_id.unique_id, Contents())
        contents.send(_route_of(pending_request).names, time.monotonic())
        self._note(pending_request, replica_id, math.inf)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self._under_way.pop(internal_request_id, None)

    def _note(self, request: PendingRequest, replica_id: ReplicaID, until: float) -> None:
        self._under_way[request.metadata.internal_request_id] = replica_id.unique_id, until

    def _load_of(self, replica: RunningReplica) -> int:
        """Requests of all fronts, as its last answers have told, or else its last report."""
        told = self.replica_queue_len_cache.get(replica.replica_id)
        return int(replica.routing_stats.get("requests", 0) if told is None else told)

    def _known_of(self, replica: RunningReplica) -> Contents:
        contents = self._contents.setdefault(replica.replica_id.unique_id, Contents())
        contents.report(replica.routing_stats.get("names", ""))
        return contents


def _route_of(request: PendingRequest | None) -> Route:
    first = request.args[0] if request is not None and request.args else None
    return first if isinstance(first, Route) else Route()
