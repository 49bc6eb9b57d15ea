"""How many replicas there should be."""

from __future__ import annotations

from typing import Any

_FULL = 0.8  # of a cache's blocks, used by requests


def by_requests_and_cache(context: Any) -> tuple[float, dict[str, Any]]:
    """A policy of Ray Serve's autoscaling: as many replicas as the requests need, those that wait too, or as the keys and
    values of those that run fill to four fifths, whichever is more. Bounds and delays are the configuration's."""
    by_requests = context.total_num_requests / context.config.get_target_ongoing_requests()
    used = (context.aggregated_metrics or {}).get("cache_used", {})
    return max(by_requests, sum(used.values()) / _FULL), {}
