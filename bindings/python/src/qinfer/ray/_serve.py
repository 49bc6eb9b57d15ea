"""An application of Ray Serve that answers OpenAI's interface with replicas of one model."""

from __future__ import annotations

import os
import re
from typing import Any

from ray import serve
from ray.serve.config import AutoscalingConfig, AutoscalingPolicy, RequestRouterConfig

from .._plan import plan
from ._front import Front
from ._replica import Replica

_REPORTS_S = 3.0  # a call of each replica, which is most of what an idle application takes
_WHOLE_CONTEXTS = 4  # of the model, that a cache holds where nothing else is said


def app(
    model: str | os.PathLike[str],
    *,
    replicas: int | tuple[int, int] = 1,
    threads: int = 1,
    runtime: dict[str, Any] | None = None,
    name: str | None = None,
    context: int = 0,
    cache_bytes: int = 0,
    max_running: int = 16,
    max_waiting: int = 256,
    far_busier: int = 8,
    fronts: int = 1,
    end_s: float = 60,
    scaling: dict[str, Any] | None = None,
) -> Any:
    """For serve.run(): /v1/chat/completions, /v1/completions, /v1/embeddings and /v1/models.

    model: a path that is there on each node. replicas: how many, or the fewest and the most, between which their requests
    and caches decide; `scaling` has more of ray.serve.config.AutoscalingConfig. Each one asks Ray for `threads` CPUs and
    for the memory that the model, a cache of cache_bytes (0 = four contexts) and its tables take. runtime: more of
    qinfer.Runtime's options. context: tokens of a
    prompt and what follows it, at most (0 = the model's). max_running, max_waiting: requests of a replica. far_busier: by
    how many more requests a replica may have than another and still get what begins like one of its own. fronts:
    processes that read requests and pass on answers. end_s: how long a replica that is to end may take to hand over what
    it computes, or where there is no other one to draw it to its end."""
    path = os.fspath(model)
    given = name or re.sub(r"\.gguf$", "", os.path.basename(os.path.normpath(path)))
    planned = plan(path, context=context)
    cache = cache_bytes or _WHOLE_CONTEXTS * int(planned["kv_per_session"])
    counts: dict[str, Any] = {"num_replicas": replicas}
    if not isinstance(replicas, int):
        counts = {"autoscaling_config": _scaling(*replicas, max_running, scaling or {})}
    router = RequestRouterConfig(
        request_router_class=f"{__package__}._router.LongestBeginning",
        request_router_kwargs={"far_busier": far_busier},
        request_routing_stats_period_s=_REPORTS_S,
    )
    deployed = serve.deployment(Replica, name="Replica", request_router_config=router).options(
        ray_actor_options={"num_cpus": threads, "memory": int(planned["total"]) + cache},
        max_ongoing_requests=2 * (max_running + max_waiting),  # what is handed over comes on top
        graceful_shutdown_timeout_s=end_s,
        graceful_shutdown_wait_loop_s=0.5,
        **counts,
    )
    bound = deployed.bind(
        path,
        runtime={"threads": threads, **(runtime or {})},
        context=context,
        cache_bytes=cache,
        max_running=max_running,
        max_waiting=max_waiting,
    )
    front = serve.deployment(Front, name="Front", num_replicas=fronts, ray_actor_options={"num_cpus": 0}).options(
        max_ongoing_requests=100_000, graceful_shutdown_timeout_s=end_s
    )
    return front.bind(bound, path, name=given, context=context)


def _scaling(fewest: int, most: int, max_running: int, more: dict[str, Any]) -> AutoscalingConfig:
    policy = AutoscalingPolicy(policy_function=f"{__package__}._scaling:by_requests_and_cache")
    wanted = {"target_ongoing_requests": max(1, max_running // 2), "policy": policy, **more}
    return AutoscalingConfig(min_replicas=fewest, max_replicas=most, **wanted)
