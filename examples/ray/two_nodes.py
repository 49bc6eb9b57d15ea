"""A cluster of Ray on this machine, for trying what runs on several: two nodes of one CPU each."""

import contextlib
import itertools

import ray
from ray.cluster_utils import Cluster

_HOSTS = (f"127.0.0.{number}" for number in itertools.count(2))  # Ray takes 127.0.0.1 for another name of the machine


@contextlib.contextmanager
def two_nodes():
    """This process is connected to it meanwhile."""
    cluster = Cluster()
    for _ in range(2):
        room = {"memory": 2 << 30, "object_store_memory": 100 << 20}
        cluster.add_node(num_cpus=1, node_ip_address=next(_HOSTS), include_dashboard=False, **room)
    cluster.wait_for_nodes()
    ray.init(address=cluster.address, _node_ip_address=cluster.address.rpartition(":")[0], log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
