"""A model cut into stages, each an actor of Ray: Ray places and restarts them, and tells where they listen. Tokens and
hidden states go over connections of qinfer.stages, and never through Ray."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .. import stages
from .._model import Model
from .._plan import plan
from .._runtime import Runtime
from .._cache import KvCache
from ..stages import BrokenConnectionError, StageServer

_PROCESS_BYTES = 200 << 20  # of a stage's process without its layers
_KEY_BYTES = 32


class _Stage:
    """An actor: a stage in a process of its own. Ray makes it anew where it was lost, at another address."""

    def __init__(self, path: str, layers: range, key: bytes, threads: int, cpu_target: str | None, cache_bytes: int,
                 snapshots: str) -> None:  # fmt: skip
        model = Model(path, Runtime(threads=threads, cpu_target=cpu_target), layers=layers)
        self._folder = Path(snapshots) / f"{layers.start}-{layers.stop}"
        host = ray.util.get_node_ip_address()
        self._server = StageServer(KvCache(model, budget_bytes=cache_bytes), key, host=host, snapshots=self._folder)
        threading.Thread(target=self._server.serve, daemon=True).start()

    def where(self) -> dict[str, Any]:
        return {"address": self._server.address, "pid": os.getpid(), "node": ray.get_runtime_context().get_node_id()}

    def end(self) -> None:
        """Nothing is left of it but its process."""
        self._server.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):  # of other stages, or it is not this one's alone
            self._folder.parent.rmdir()


@dataclass(frozen=True)
class Stages:
    """The stages of a model that are placed in a cluster, and what it takes to talk to them. Ray's tasks and actors may be
    given it: it holds the key, as Ray's object store does."""

    path: str
    actors: list[Any]
    key: bytes = field(repr=False)

    def addresses(self) -> list[tuple[str, int]]:
        """Where they listen now."""
        return [one["address"] for one in self.where()]

    def where(self, seconds: float = 5) -> list[dict[str, Any]]:
        """The address, process and node of each. BrokenConnectionError where one does not say so in this time, as it is being
        restarted."""
        try:
            return list(ray.get([actor.where.remote() for actor in self.actors], timeout=seconds))
        except (ray.exceptions.RayActorError, ray.exceptions.GetTimeoutError) as failed:
            raise BrokenConnectionError(f"a stage is not there: {failed}") from failed

    def stop(self) -> None:
        """Ends the stages, with what they have saved."""
        ray.wait([actor.end.remote() for actor in self.actors], num_returns=len(self.actors), timeout=5)
        for actor in self.actors:
            ray.kill(actor)


def place(
    path: str,
    cut: int | Sequence[range] | None = None,
    *,
    sessions: int = 4,
    context: int = 0,
    threads: int = 0,
    cpus: float | None = None,
    cpu_target: str | None = None,
    snapshots: str | None = None,
    wait: float = 600,
) -> Stages:
    """Starts the stages of the model at `path`, which every node and this process have, and waits until they have loaded
    their layers, `wait` seconds at most.

    cut: None: one stage on each node, of as many layers as its memory's share; a number: so many, which read the same bytes
    for a token; or the layers of each. Ray spreads those over its nodes. sessions, context: for whose keys and values each
    stage has memory (0 = the model's context). threads: of each stage, 0 = the CPUs of the smallest node; cpus: of Ray,
    which each asks for (its threads). cpu_target: a kernel set, where the nodes' CPUs differ. snapshots: a directory of the
    nodes, in which stages save sessions for pipelines that ask. A stage that is lost is started again as often as it takes,
    on another node where its own is lost."""
    path, nodes = os.path.abspath(path), _nodes()
    threads = threads or min(int(node["Resources"]["CPU"]) for node in nodes)
    ranges, homes = _cut(path, cut, nodes, sessions, context)
    key, folder = secrets.token_bytes(_KEY_BYTES), snapshots or f"{tempfile.gettempdir()}/qinfer-stages-{secrets.token_hex(8)}"
    actors = []
    for layers, home in zip(ranges, homes, strict=True):
        planned = plan(path, sessions=sessions, context=context, threads=threads, layers=layers)
        taken = planned["total"] + sessions * planned["per_session"]
        options = {
            "num_cpus": float(threads) if cpus is None else cpus,
            "memory": taken + _PROCESS_BYTES,
            "max_restarts": -1,
            "max_task_retries": -1,  # where() waits for a restart
            "scheduling_strategy": NodeAffinitySchedulingStrategy(home, soft=True) if home else "SPREAD",
        }
        cache_bytes = max(1, planned["kv_per_session"] * sessions)
        arguments = path, layers, key, threads, cpu_target, cache_bytes, folder
        actors.append(ray.remote(_Stage).options(**options).remote(*arguments))
    placed = Stages(path, actors, key)
    try:
        placed.where(wait)
    except BaseException:
        placed.stop()
        raise
    return placed


def _nodes() -> list[dict[str, Any]]:
    """Those that have CPUs, those with the most memory first."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not nodes:
        raise ValueError("no node of the cluster has a CPU")
    return sorted(nodes, key=_memory_of, reverse=True)


def _memory_of(node: dict[str, Any]) -> float:
    return float(node["Resources"].get("memory", 0))


def _cut(
    path: str, cut: int | Sequence[range] | None, nodes: list[dict[str, Any]], sessions: int, context: int
) -> tuple[list[range], list[str | None]]:
    """The layers of each stage, and the node that it is for, where that matters."""
    if cut is not None:
        ranges = stages.split(path, cut, sessions=sessions, context=context) if isinstance(cut, int) else list(cut)
        return ranges, [None] * len(ranges)
    with Model(path, weights=False) as model:
        nodes = nodes[: int(model.info["n_model_layers"])]
    room = [max(1, int(_memory_of(node)) - _PROCESS_BYTES) for node in nodes]
    return stages.split(path, room, sessions=sessions, context=context), [node["NodeID"] for node in nodes]


class Pipeline(stages.Pipeline):
    """A model whose layers are on several nodes of a Ray cluster, and which goes on with the same tokens where a stage is
    lost. The rest is as in qinfer.stages.Pipeline.

    source: stages that are placed, by this process or another one, or the path of a model, whose stages are placed as place()
    does it with `how`, and stopped by close(). patience: seconds for which a lost stage is waited for.

    with qinfer.ray.Pipeline("path", cut=2, context=2048) as pipeline:
        print(pipeline.session().generate("Once upon a time", max_tokens=50))
    """

    def __init__(
        self,
        source: str | Stages,
        *,
        chunk: int = 128,
        seconds: float = 5,
        patience: float = 120,
        save_every: int = 256,
        **how: Any,
    ) -> None:
        self._owns = not isinstance(source, Stages)
        self.placed = source if isinstance(source, Stages) else place(source, **how)
        try:
            model = Model(self.placed.path, weights=False)
            stages_of = self.placed.addresses, self.placed.key
            super().__init__(
                model, *stages_of, chunk=chunk, seconds=seconds, patience=patience, save_every=save_every
            )
        except BaseException:
            self._stop()
            raise

    def _stop(self) -> None:
        if self._owns:
            self.placed.stop()

    def close(self) -> None:
        """The stages free all sessions of this pipeline, and end where it has placed them."""
        super().close()
        self._stop()
