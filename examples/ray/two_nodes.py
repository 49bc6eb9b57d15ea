"""A cluster of Ray on this machine, for trying what runs on several: two nodes of one CPU each."""

import contextlib
import itertools
import os
import pathlib
import signal

import ray
from ray.cluster_utils import Cluster

_HOSTS = (f"127.0.0.{number}" for number in itertools.count(2))  # Ray takes 127.0.0.1 for another name of the machine
_TRIES = 4


def _started():
    """A cluster. Ray ends a node whose agents have not begun within 15 seconds, as on a machine that has other work."""
    for left in reversed(range(_TRIES)):
        cluster = Cluster()
        before = _children()
        try:
            for _ in range(2):
                room = {"memory": 2 << 30, "object_store_memory": 100 << 20}
                cluster.add_node(num_cpus=1, node_ip_address=next(_HOSTS), include_dashboard=False, **room)
            cluster.wait_for_nodes()
            return cluster
        except Exception:  # noqa: BLE001 - Ray raises no other one
            cluster.shutdown()
            for process in _children() - before:  # of the node that has not begun, which Ray leaves
                with contextlib.suppress(OSError):  # it has ended
                    os.kill(process, signal.SIGKILL)
            if left == 0:
                raise


def _children():
    """Processes that this one has started."""
    found = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError):  # it has ended
            if int((entry / "stat").read_text().rpartition(")")[2].split()[1]) == os.getpid():
                found.add(int(entry.name))
    return found


@contextlib.contextmanager
def two_nodes():
    """This process is connected to it meanwhile."""
    cluster = _started()
    ray.init(address=cluster.address, _node_ip_address=cluster.address.rpartition(":")[0], log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()
