"""Stages that Ray places and restarts: the tokens of one process, after a stage's process was killed, too."""

import glob
import os
import signal
import tempfile
import time

import pytest
import ray
from conftest import add_node

import qinfer
import qinfer.ray
from qinfer.stages import BrokenConnectionError, split
from qinfer.stages._frames import Connection

PROMPT = "Once upon a time there was a little girl. " * 5
SAMPLER = {"temperature": 0.9, "seed": 4, "repeat_penalty": 1.2}
# One of each kind: all layers alike, mixtures of experts, layers with sliding windows of 16 tokens.
KINDS = {
    "dense": "examples/models/tiny-stories",
    "mixture": "examples/models/tiny-stories-moe",
    "windows": "tests/fixtures/models/gemma3-f32",
}
CUTS = {2: {6: (2, 6), 4: (1, 4)}, 3: {6: (1, 3, 6), 4: (1, 3, 4)}}


def placed(path, cut, **how):
    options = {"threads": 1, "cpus": 0.25, "context": 128, "chunk": 16, "patience": 90, **how}
    return qinfer.ray.Pipeline(str(path), cut=cut, **options)


def drawn(session, n):
    for _ in range(n):
        session.draw()
    return session.tokens


def told(session, prompt, n):
    """What follows the prompt."""
    session.append(prompt)
    return session.generate(n).text


def alone(path, prompt, n, **sampler):
    """The tokens of one process."""
    model = qinfer.Model(path, qinfer.Runtime(threads=1))
    with qinfer.Session(qinfer.KvCache(model)) as session:
        session.set_sampler(**sampler)
        session.append(prompt)
        for _ in range(n):
            session.evaluate()
            session.sample()
        return session.tokens


def pids(pipeline):
    """Of the stages' processes."""
    return [one["pid"] for one in pipeline.placed.where()]


@pytest.mark.parametrize("n_stages", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_stages_are_one_process_bit_for_bit(cluster, root, kind, n_stages):
    path = root / KINDS[kind]
    with qinfer.Model(path, weights=False) as model:
        n_layers, n_vocab = model.info["n_model_layers"], model.info["n_vocab"]
    ends = CUTS[n_stages][n_layers]
    ranges = [range(first, end) for first, end in zip((0, *ends), ends, strict=False)]
    prompt = [7 * at % (n_vocab - 1) + 1 for at in range(50)]
    with placed(path, ranges) as pipeline:
        assert [stage["n_layers"] for stage in pipeline.stages] == list(map(len, ranges))
        for sampler in ({}, SAMPLER):
            with pipeline.session(**sampler) as session:
                session.append(prompt)
                assert drawn(session, 40) == alone(path, prompt, 40, **sampler)


def test_both_nodes_have_stages(cluster, stories):
    with placed(stories, None) as pipeline:
        assert {one["node"] for one in pipeline.placed.where()} == {node["NodeID"] for node in ray.nodes()}
        assert [stage["n_layers"] for stage in pipeline.stages] == [len(one) for one in split(stories, 2)]
        assert told(pipeline.session(**SAMPLER), PROMPT, 20)


@pytest.mark.parametrize("at", [0, 1])
@pytest.mark.parametrize("save_every", [0, 8])
def test_the_same_tokens_follow_where_a_stage_was_killed(cluster, stories, at, save_every):
    kept = glob.glob(f"{tempfile.gettempdir()}/qinfer-stages-*")
    with placed(stories, [range(2), range(2, 6)], save_every=save_every) as pipeline:
        session = pipeline.session(**SAMPLER)
        session.append(PROMPT)
        drawn(session, 21)
        before = pids(pipeline)
        os.kill(before[at], signal.SIGKILL)
        begun = time.monotonic()
        drawn(session, 1)
        print(f"stage {at} was killed, saved every {save_every}: the next token after {time.monotonic() - begun:.1f} s")
        assert drawn(session, 20) == alone(stories, PROMPT, 42, **SAMPLER)
        after = pids(pipeline)
        assert after[at] != before[at] and after[1 - at] == before[1 - at]
    assert glob.glob(f"{tempfile.gettempdir()}/qinfer-stages-*") == kept  # what they had saved is gone


def test_the_same_tokens_follow_where_a_node_was_lost(cluster, stories):
    """With all that it had saved. Ray starts its stage again on a node that is left."""
    third = add_node(cluster)
    cluster.wait_for_nodes()
    try:
        with placed(stories, None, save_every=8) as pipeline:
            pids = {one["node"]: one["pid"] for one in pipeline.placed.where()}
            assert len(pids) == 3
            session = pipeline.session(**SAMPLER)
            session.append(PROMPT)
            drawn(session, 21)
            cluster.remove_node(third, allow_graceful=False)
            os.kill(pids[third.node_id], signal.SIGKILL)  # which would notice that a little later
            begun, third = time.monotonic(), None
            drawn(session, 1)
            print(f"a node was lost: the next token after {time.monotonic() - begun:.1f} s")
            assert drawn(session, 20) == alone(stories, PROMPT, 42, **SAMPLER)
            assert len({one["node"] for one in pipeline.placed.where()}) == 2
    finally:
        if third is not None:
            cluster.remove_node(third)


def test_it_behaves_like_a_model(cluster, chat, chat_model):
    questions = "What is the capital of France?", "And of Italy?"
    with placed(chat, 2, context=512) as pipeline:
        found = pipeline.generate(["Hello", "Good day"], 12, temperature=0.9, seeds=[1, 2])
        expected = chat_model.generate(["Hello", "Good day"], 12, temperature=0.9, seeds=[1, 2])
        assert [one.text for one in found] == [one.text for one in expected]
        local, there = qinfer.Chat(chat_model), qinfer.Chat(pipeline)
        for question in questions:
            assert there.send(question, max_tokens=30) == local.send(question, max_tokens=30)


def test_others_are_given_the_stages(cluster, stories):
    with placed(stories, 2) as pipeline:

        @ray.remote(num_cpus=0)
        def draw(stages, seed):
            with qinfer.ray.Pipeline(stages) as own:
                session = own.session(temperature=0.9, seed=seed)  # other processes do not have told()
                session.append(PROMPT)
                return session.generate(20).text

        texts = ray.get([draw.remote(pipeline.placed, seed) for seed in range(3)])
        assert texts == [told(pipeline.session(temperature=0.9, seed=seed), PROMPT, 20) for seed in range(3)]
        assert len(set(texts)) == 3


def test_a_stranger_has_another_key(cluster, stories):
    with placed(stories, 2) as pipeline:
        for address in pipeline.placed.addresses():
            begun = time.monotonic()
            with pytest.raises(BrokenConnectionError, match="another key"):
                Connection.open(address, bytes(32))
            assert time.monotonic() - begun < 6
        assert pipeline.placed.key.hex() not in repr(pipeline.placed)


def test_what_has_no_room_is_refused(cluster, stories):
    with pytest.raises(ValueError, match="no cut fits"):
        placed(stories, None, sessions=100_000, context=512)
    with pytest.raises(ValueError, match="7 stages"):
        placed(stories, 7)
    with pytest.raises(BrokenConnectionError, match="not there"):
        placed(stories, 2, cpus=2, wait=3)  # which no node has
