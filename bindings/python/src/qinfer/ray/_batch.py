"""Batch inference by Ray Data: how many actors a cluster has room for, and the dataset that they work on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import ray
from ray.data import ActorPoolStrategy, Dataset

from .._plan import plan
from ._inference import Inference

_PROCESS_BYTES = 300 << 20  # of an actor's process without a model: Python, Ray and Arrow
_MOST_THREADS = 8  # of an actor, unless more are asked for
_BLOCKS = 2  # that an actor computes at once, so that its batch stays full where one of them ends


@dataclass(frozen=True)
class Actors:
    """Room for a model in a cluster."""

    n: int
    threads: int
    cpus: float
    """Of Ray, which each actor asks for: its threads, but none where a node has one CPU: Ray reads and writes with it."""
    memory: int
    """Bytes, which each actor asks for: those of the plan, and of a process."""


def room(path: str, *, threads: int = 0, sessions: int = 16, context: int = 0) -> Actors:
    """As many actors as the memory and the CPUs of the cluster's nodes hold, by what qinfer_model_plan says of the model with
    keys and values of `sessions` sessions of `context` tokens (0 = the model's). threads: of each; 0 = the smallest node's
    CPUs, 8 at most. A node keeps a CPU for Ray's own reading and writing, without which a job would wait for ever."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) >= 1]
    if not nodes:
        raise ValueError("no node of the cluster has a CPU")
    free = [max(1, int(node["CPU"]) - 1) for node in nodes]
    each = threads or min(_MOST_THREADS, *free)
    planned = plan(path, sessions=sessions, context=context, threads=each)
    taken = planned["total"] + sessions * planned["per_session"] + _PROCESS_BYTES
    n = sum(
        min(cpus // each, int(node.get("memory", 0)) // taken) for cpus, node in zip(free, nodes, strict=True)
    )
    if n == 0:
        most = max(int(node.get("memory", 0)) for node in nodes)
        raise ValueError(
            f"no node has room for an actor of {each} threads and {taken} B: the largest has {max(free)} CPUs to give "
            f"and {most} B; ask for fewer sessions, a shorter context or fewer threads, or cut the model into stages"
        )
    return Actors(n, each, float(each) if min(node["CPU"] for node in nodes) >= 2 else 0.0, taken)


def batch(
    ds: Dataset,
    path: str,
    *,
    actors: int | tuple[int, int] | None = None,
    threads: int = 0,
    cpus: float | None = None,
    sessions: int = 16,
    context: int = 0,
    rows_per_block: int = 0,
    keep_order: bool = True,
    ray_options: dict[str, Any] | None = None,
    **inference: Any,
) -> Dataset:
    """The dataset with what the model at `path`, which every node and this process have, makes of its rows: Inference says
    which columns, and what else may be given. It is computed when it is read or written, and Ray shows its progress.

    actors: how many, or the fewest and the most; None: as many as room() says. cpus: of Ray, which each asks for (its
    threads). sessions: rows that an actor computes at once. rows_per_block: of the results that are written at once, and
    that are computed again where an actor is lost (0 = 16 times the sessions). keep_order: of the rows. ray_options: for
    map_batches().

    ds = ray.data.read_json("prompts.jsonl")
    qinfer.ray.batch(ds, "model", max_tokens=100, context=2048).write_json("answers")
    """
    found = room(path, threads=threads, sessions=sessions, context=context)
    pool = found.n if actors is None else actors
    least, most = (pool, pool) if isinstance(pool, int) else pool
    if keep_order:
        ds.context.execution_options.preserve_order = True
    strategy = ActorPoolStrategy(min_size=least, max_size=most, max_concurrent_calls_per_actor=_BLOCKS)
    return ds.repartition(target_num_rows_per_block=rows_per_block or 16 * sessions).map_batches(
        Inference,
        fn_constructor_args=[os.path.abspath(path)],
        fn_constructor_kwargs={"threads": found.threads, "sessions": sessions, "context": context, **inference},
        batch_size=max(1, sessions // 2),
        batch_format="pyarrow",
        compute=strategy,
        num_cpus=found.cpus if cpus is None else cpus,
        memory=found.memory,
        **(ray_options or {}),
    )
