"""What tests of pipelines share: stages in this process, and what a whole model draws."""

import contextlib
import threading

import qinfer
from qinfer.stages import Pipeline, StageServer

KEY = b"sixteen bytes or more"
SAMPLER = {"temperature": 0.9, "seed": 4, "repeat_penalty": 1.2}


def serve(path, layers, snapshots=None, blocks=64):
    """A server of a range of layers, in this process."""
    model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=layers)
    server = StageServer(qinfer.KvCache(model, budget_blocks=blocks), KEY, snapshots=snapshots)
    threading.Thread(target=server.serve, daemon=True).start()
    return server


@contextlib.contextmanager
def piped(path, *cut, folders=None, blocks=64, **how):
    """A pipeline of so many layers in each stage, in this process."""
    servers, first = [], 0
    for at, n in enumerate(cut):
        servers.append(serve(path, range(first, first + n), folders[at] if folders else None, blocks))
        first += n
    try:
        with Pipeline(qinfer.Model(path, weights=False), [server.address for server in servers], KEY, **how) as pipeline:
            yield pipeline
    finally:
        for server in servers:
            server.close()


def layers_of(path):
    with qinfer.Model(path, weights=False) as model:
        return model.info["n_model_layers"]


def halves(path):
    n = layers_of(path)
    return n // 2, n - n // 2


def alone(model, seed, n_tokens):
    with qinfer.Session(model) as session:
        session.set_sampler(**{**SAMPLER, "seed": seed})
        session.append("The dog")
        session.generate(n_tokens)
        return session.tokens
