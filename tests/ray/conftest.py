"""A cluster of Ray on this machine for the tests of qinfer.ray: two nodes of one CPU each, which talk over loopback.

./dev ray runs them. QINFER_LIBRARY and PYTHONPATH are in the environment, from which the nodes' processes have them."""

import os
import pathlib

# Before ray is imported: it reads them then.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

import pytest
import ray
from ray.cluster_utils import Cluster

import qinfer

ROOT = pathlib.Path(__file__).resolve().parents[2]
_STORE_BYTES = 100 << 20  # of objects, of each node
_NODE_BYTES = 2 << 30  # which actors may ask for


def add_node(cluster, **how):
    """A node of one CPU."""
    options = {"num_cpus": 1, "memory": _NODE_BYTES, "object_store_memory": _STORE_BYTES, **how}
    return cluster.add_node(node_ip_address="127.0.0.1", include_dashboard=False, **options)


@pytest.fixture(scope="session")
def cluster():
    """Two nodes, to which this process is connected."""
    made = Cluster()
    for _ in range(2):
        add_node(made)
    made.wait_for_nodes()
    ray.init(address=made.address, log_to_driver=False, configure_logging=False)
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
