"""Two nodes of a Ray cluster on this machine, for the examples next to it. On a real one, `ray.init()` is enough."""

import contextlib
import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import ray
from ray.cluster_utils import Cluster


@contextlib.contextmanager
def on_this_machine():
    cluster = Cluster()
    for at in range(2):
        cluster.add_node(
            node_ip_address=f"127.0.0.{2 + at}",
            num_cpus=1,
            memory=2 << 30,
            object_store_memory=100 << 20,
            include_dashboard=False,
        )
    ray.init(address=cluster.address, _node_ip_address="127.0.0.2", log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
