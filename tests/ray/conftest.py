"""A cluster of Ray on this machine for the tests of qinfer.ray: two nodes of one CPU each, which talk over loopback.

./dev ray runs them. QINFER_LIBRARY and PYTHONPATH are in the environment, from which the nodes' processes have them."""

import itertools
import os
import pathlib
import signal
import socket

# Before ray is imported: it reads them then.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_raylet_start_wait_time_s", "45")  # of a node on a machine that has other work

import pytest
import ray
from ray.cluster_utils import Cluster

import qinfer

ROOT = pathlib.Path(__file__).resolve().parents[2]
_STORE_BYTES = 100 << 20  # of objects, of each node
_NODE_BYTES = 2 << 30  # which actors may ask for


_HOSTS = (f"127.0.0.{number}" for number in itertools.count(2))  # Ray takes 127.0.0.1 for another name of the machine
_TRIES = 4


def free_ports(host, n):
    sockets = [socket.create_server((host, 0)) for _ in range(n)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def add_node(cluster, **how):
    """A node of one CPU, with an address of its own. Its agents get ports: one less for the node to wait for."""
    host = next(_HOSTS)
    names = "metrics_agent_port", "dashboard_agent_listen_port", "metrics_export_port", "runtime_env_agent_port"
    options = {"num_cpus": 1, "memory": _NODE_BYTES, "object_store_memory": _STORE_BYTES, "include_dashboard": False}
    options |= dict(zip(names, free_ports(host, len(names)), strict=True))
    return cluster.add_node(node_ip_address=host, **{**options, **how})


def started():
    """A cluster. Ray ends a node whose agents have not begun within 15 seconds, as on a machine that has other work."""
    for left in reversed(range(_TRIES)):
        made = Cluster()
        try:
            for _ in range(2):
                add_node(made)
            made.wait_for_nodes()
            return made
        except Exception:  # noqa: BLE001 - Ray raises no other one
            made.shutdown()
            end_children()  # of the node that has not begun, which Ray leaves
            if left == 0:
                raise


def end_children():
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.kill(int(entry.name), signal.SIGKILL)
        except (OSError, IndexError):
            pass  # it has ended


@pytest.fixture(scope="session")
def cluster():
    """Two nodes, to which this process is connected."""
    made = started()
    head = made.address.rpartition(":")[0]
    ray.init(address=made.address, _node_ip_address=head, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def stories():
    """The path of a small model that goes on with stories."""
    return str(ROOT / "examples" / "models" / "tiny-stories")


@pytest.fixture(scope="session")
def chat():
    """The path of a small model that converses."""
    return str(ROOT / "examples" / "models" / "tiny-chat")


@pytest.fixture(scope="session")
def model(stories):
    return qinfer.Model(stories, qinfer.Runtime(threads=1))


@pytest.fixture(scope="session")
def chat_model(chat):
    return qinfer.Model(chat, qinfer.Runtime(threads=1))
