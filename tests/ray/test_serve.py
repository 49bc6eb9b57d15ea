"""Serving with Ray Serve: two replicas of one model, as OpenAI's own client sees them."""

import collections
import concurrent.futures
import json
import os
import signal
import statistics
import threading
import time
import types

import httpx
import openai
import pytest
import yaml
from conftest import free_ports
from ray import serve
from ray.serve.config import AutoscalingPolicy
from ray.serve.schema import ServeDeploySchema
from serve_support import END, AsAFileSays, cores_taken, replica_pids, wait_until, write_slow_model

import qinfer
import qinfer.ray
from qinfer.ray._blocks import length_of, names_of, packed
from qinfer.ray._route import Contents, Route
from qinfer.ray._scaling import by_requests_and_cache

LONG = {"max_completion_tokens": 600, "logit_bias": {END: -100}, "temperature": 1.0}


@pytest.fixture(scope="module")
def url(cluster):
    (port,) = free_ports("127.0.0.1", 1)
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    yield f"http://127.0.0.1:{port}"
    serve.shutdown()


def deployed(url, name, application):
    """A client of it, which is started unless it is there with two replicas; other applications end."""
    running = serve.status().applications
    for other in running:
        if other != name:
            serve.delete(other)
    if name not in running or running[name].deployments["Replica"].replica_states != {"RUNNING": 2}:
        serve.run(application, name=name)
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)


@pytest.fixture
def client(url, chat):
    return deployed(url, "tiny", qinfer.ray.app(chat, replicas=2, name="tiny"))


@pytest.fixture(scope="module")
def slow_path(tmp_path_factory, chat):
    folder = tmp_path_factory.mktemp("slow")
    write_slow_model(folder, chat)
    return str(folder)


@pytest.fixture(scope="module")
def one_process(slow_path):
    with qinfer.Engine(qinfer.Model(slow_path, qinfer.Runtime(threads=1)), budget_bytes=256 << 20) as engine:
        yield engine


@pytest.fixture
def slow(url, slow_path):
    return deployed(url, "slow", qinfer.ray.app(slow_path, replicas=2, name="slow"))


def told(text):
    return [{"role": "user", "content": text}]


def beginning(family):
    """Some 100 tokens that no other family begins with."""
    return f"Story number {family} of {family * 7 + 3} stories. " + f"It has {family} rivers and {family + 2} bridges. " * 6


class Stream(threading.Thread):
    """Reads a streamed answer on a thread of its own."""

    def __init__(self, client, text, **fields):
        super().__init__()
        self.text, self.fields = text, fields
        self._ask = lambda: client.chat.completions.with_raw_response.create(
            model="m", messages=told(text), stream=True, **fields
        )
        self.texts, self.n_chunks, self.error, self.replica = collections.defaultdict(str), 0, None, None
        self.start()

    def run(self):
        try:
            raw = self._ask()
            self.replica = raw.headers["x-replica"]
            for chunk in raw.parse():
                self.n_chunks += 1
                for choice in chunk.choices:
                    self.texts[choice.index] += choice.delta.content or ""
        except Exception as failure:  # noqa: BLE001 - the test looks at it
            self.error = failure


def expected(source, text, **fields):
    answer = qinfer.Client(source).chat.completions.create(messages=told(text), **fields)
    return {choice.index: choice.message.content for choice in answer.choices}


def check_texts(engine, streams):
    """They are those of one process."""
    with concurrent.futures.ThreadPoolExecutor(len(streams)) as pool:
        wanted = [pool.submit(expected, engine, stream.text, **stream.fields) for stream in streams]
    for stream, texts in zip(streams, wanted, strict=True):
        assert stream.error is None
        assert dict(stream.texts) == texts.result()


def stats_of(app):
    handle = serve.get_deployment_handle("Replica", app)
    return lambda replica: handle.stats.remote(Route(replica=replica)).result(timeout_s=30)


# ---- Routes
def test_the_official_client(client, chat_model):
    fields = {"max_completion_tokens": 24, "seed": 5, "temperature": 0.8, "n": 2}
    answer = client.chat.completions.create(model="tiny", messages=told("Where is Tokyo?"), **fields)
    assert {c.index: c.message.content for c in answer.choices} == expected(chat_model, "Where is Tokyo?", **fields)
    assert answer.model == "tiny" and answer.id.startswith("chatcmpl-")
    stream = Stream(client, "Where is Tokyo?", **fields)
    stream.join()
    assert stream.error is None and dict(stream.texts) == expected(chat_model, "Where is Tokyo?", **fields)
    text = client.completions.create(model="tiny", prompt="Once upon", max_tokens=9, logprobs=2, seed=1)
    local = qinfer.Client(chat_model).completions.create(prompt="Once upon", max_tokens=9, logprobs=2, seed=1)
    assert text.choices[0].text == local.choices[0].text
    assert text.choices[0].logprobs.token_logprobs == pytest.approx(local.choices[0].logprobs.token_logprobs, abs=0)
    vectors = client.embeddings.create(model="tiny", input=["a", "b c"], encoding_format="float")
    local = qinfer.Client(chat_model).embeddings.create(input=["a", "b c"])
    assert [item.embedding for item in vectors.data] == [item.embedding for item in local.data]
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "qinfer"


def test_what_is_refused_is_so_in_openais_form(client, url):
    ask = client.chat.completions.create
    with pytest.raises(openai.BadRequestError, match="messages"):
        ask(model="tiny", messages="x")
    with pytest.raises(openai.BadRequestError) as failure:
        ask(model="tiny", messages=told("x"), max_completion_tokens=10_000)
    assert failure.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError) as failure:
        client.models.retrieve("other")
    assert failure.value.code == "model_not_found"
    assert httpx.get(f"{url}/v1/chat/completions").status_code == 405
    assert httpx.get(f"{url}/v1/nothing").json()["error"]["type"] == "invalid_request_error"
    assert httpx.get(f"{url}/health").status_code == 200


def test_a_schema_is_kept(client):
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer = client.chat.completions.create(model="tiny", messages=told("A number"), response_format=form)
    assert json.loads(answer.choices[0].message.content) in ({"n": 1}, {"n": 2})


def test_the_file_for_kuberay(root):
    service = yaml.safe_load((root / "examples" / "ray" / "rayservice.yaml").read_text())
    (application,) = ServeDeploySchema(**yaml.safe_load(service["spec"]["serveConfigV2"])).applications
    module, name = application.import_path.split(":")
    assert f"{name} = qinfer.ray.app(" in (root / "examples" / "ray" / f"{module}.py").read_text()


# ---- Where requests go
def test_names_of_beginnings():
    tokens = list(range(1000))
    names = names_of(tokens, 32)
    assert [length_of(n) for n in range(1, len(names) + 1)] == [1, 2, 3, 4, 6, 8, 12, 16, 24]
    assert names_of(tokens[:100], 32) == names[:3] and names_of(tokens[:31], 32) == []
    changed = names_of([0, *tokens[:20], 7, *tokens[22:]], 32)
    assert not set(changed) & set(names)


def test_what_a_replica_has():
    tokens = list(range(1000))
    names, others = tuple(names_of(tokens, 32)), tuple(names_of(tokens[1:], 32))
    contents = Contents()
    assert contents.blocks_of(names, now=0) == 0
    contents.report(packed(names[:4]))
    assert contents.blocks_of(names, now=0) == 4 and contents.blocks_of(others, now=0) == 0
    contents.send(others[:2], now=0)
    assert contents.blocks_of(others, now=1) == 2
    assert contents.blocks_of(others, now=11) == 0  # the replica has not reported it
    contents.report("")
    assert contents.blocks_of(names, now=0) == 0  # it was evicted


def test_as_many_replicas_as_requests_and_caches_need():
    config = types.SimpleNamespace(get_target_ongoing_requests=lambda: 8)

    def wanted(requests, *used):
        metrics = {"cache_used": dict(enumerate(used))} if used else None
        return by_requests_and_cache(
            types.SimpleNamespace(total_num_requests=requests, config=config, aggregated_metrics=metrics)
        )[0]

    assert wanted(0) == 0 and wanted(20) == 2.5 and wanted(20, 0.1, 0.1) == 2.5
    assert wanted(2, 1.0, 1.0) == pytest.approx(2.5)


def test_each_family_of_beginnings_stays_with_its_replica(client):
    def ask(family, n):
        raw = client.chat.completions.with_raw_response.create(
            model="tiny", messages=told(f"{beginning(family)} Question {n}?"), max_completion_tokens=4
        )
        return family, raw.headers["x-replica"], raw.parse().usage.prompt_tokens_details.cached_tokens

    def share_of(answers):
        counts = collections.defaultdict(collections.Counter)
        for family, replica, _ in answers:
            counts[family][replica] += 1
        kept = sum(counter.most_common(1)[0][1] for counter in counts.values())
        return kept / len(answers), {family: counter.most_common(1)[0][0] for family, counter in counts.items()}

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        turns = [(family, n) for n in range(10) for family in range(6)]
        first = list(pool.map(lambda turn: ask(*turn), turns))
        share, homes = share_of(first)
        print(f"\nfamilies: {share:.0%} of {len(first)} requests stayed, {collections.Counter(homes.values())}")
        assert share >= 0.9
        assert len(set(homes.values())) == 2
        cached = [n for _, _, n in first[6:]]
        assert sum(n > 0 for n in cached) >= 0.9 * len(cached)
        time.sleep(12)  # what the front has sent counts no more: it has what replicas report alone
        again = list(pool.map(lambda turn: ask(*turn), [(family, 100 + family) for family in range(6)]))
        assert sum(homes[family] == replica for family, replica, _ in again) >= 6 * 0.9


def test_a_replica_that_is_far_busier_gets_no_more(slow):
    text = beginning(1)
    streams = [Stream(slow, f"{text} {n}", **{**LONG, "max_completion_tokens": 200}) for n in range(12)]
    wait_until(lambda: all(stream.replica for stream in streams), 60, "streams")
    counts = collections.Counter(stream.replica for stream in streams)
    assert len(counts) == 2 and max(counts.values()) <= 8 + 2, counts
    stats = stats_of("slow")
    assert sum(stats(replica)["running"] for replica in counts) > 0
    for stream in streams:
        stream.join()
        assert stream.error is None


def test_a_client_that_leaves_ends_its_request(slow):
    raw = slow.chat.completions.with_raw_response.create(model="m", messages=told("x"), stream=True, **LONG, n=8)
    replica, stats = raw.headers["x-replica"], stats_of("slow")
    chunks = iter(raw.parse())
    next(chunks)
    assert stats(replica)["running"] + stats(replica)["waiting"] > 0
    raw.http_response.close()
    wait_until(lambda: stats(replica)["running"] + stats(replica)["waiting"] == 0, 20, "the end of the request")


# ---- Replicas that end
def begun_on_both(client, **fields):
    """Streams that are under way, on two replicas."""
    streams = []
    for family in range(6):
        streams.append(Stream(client, beginning(family), seed=family, **fields))
        wait_until(lambda: streams[-1].replica or streams[-1].error, 60, "a stream")
        if len({stream.replica for stream in streams}) == 2:
            break
    wait_until(lambda: all(stream.n_chunks > 10 or stream.error for stream in streams), 60, "chunks")
    return streams


def test_a_replica_that_is_drained_hands_its_streams_over(url, slow_path, one_process, tmp_path):
    wanted = tmp_path / "replicas"
    wanted.write_text("2")
    policy = AutoscalingPolicy(policy_function=AsAFileSays, policy_kwargs={"path": str(wanted)})
    scaling = {"policy": policy, "initial_replicas": 2, "upscale_delay_s": 0, "downscale_delay_s": 0}
    client = deployed(url, "fewer", qinfer.ray.app(slow_path, replicas=(1, 2), name="slow", scaling=scaling))
    streams = begun_on_both(client, **LONG)
    streams += [Stream(client, beginning(family), seed=family, n=2, **LONG) for family in (0, 1)]
    wait_until(lambda: all(stream.n_chunks > 10 or stream.error for stream in streams), 60, "chunks")
    assert len(replica_pids("fewer")) == 2 and all(stream.is_alive() for stream in streams)
    wanted.write_text("1")
    wait_until(lambda: len(replica_pids("fewer")) == 1, 60, "the end of a replica")
    alive = sum(stream.is_alive() for stream in streams)
    for stream in streams:
        stream.join()
    print(f"\ndrained: the replica had ended while {alive} of {len(streams)} streams went on")
    assert alive == len(streams)
    check_texts(one_process, streams)


def test_a_replica_that_is_killed(slow, one_process):
    streams = begun_on_both(slow, **LONG)
    pids = replica_pids("slow")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        whole = [
            pool.submit(slow.chat.completions.create, model="m", messages=told(beginning(n)), seed=n, **LONG)
            for n in range(len(streams))
        ]
        time.sleep(1)
        os.kill(pids[0], signal.SIGKILL)
        concurrent.futures.wait(whole)
    for stream in streams:
        stream.join()
    failed = [family for family, stream in enumerate(streams) if stream.error is not None]
    assert len({streams[family].replica for family in failed}) == 1
    for family in failed:
        assert isinstance(streams[family].error, openai.APIError) and streams[family].error.code == "replica_lost"
    check_texts(one_process, [stream for stream in streams if stream.error is None])
    lost = [answer.exception() for answer in whole if answer.exception() is not None]
    assert len(lost) == len(failed)
    for failure in lost:
        assert isinstance(failure, openai.InternalServerError)
        assert failure.status_code == 503 and failure.code == "replica_lost"
    wait_until(lambda: len(set(replica_pids("slow")) - {pids[0]}) == 2, 60, "another replica")
    known = {stream.replica for stream in streams}
    wait_until(lambda: _served_by(slow, time.monotonic()) not in known, 60, "requests to the new one")


def _served_by(client, n):
    raw = client.chat.completions.with_raw_response.create(
        model="m", messages=told(f"{n} days"), max_completion_tokens=2
    )
    return raw.headers["x-replica"]


# ---- Idle
def nothing():
    """An application of as many processes; Ray takes classes of functions along, instead of importing them."""

    class Nothing:
        def __init__(self, *_):
            pass

        async def __call__(self, _):
            return ""

    inner = serve.deployment(Nothing, name="Replica", num_replicas=2).options(ray_actor_options={"num_cpus": 1})
    outer = serve.deployment(Nothing, name="Front", num_replicas=1).options(ray_actor_options={"num_cpus": 0})
    return outer.bind(inner.bind())


def test_an_idle_application_costs_next_to_nothing(url, chat):
    """With and without it: next to an application that does nothing, of as many processes, in turns. The same work takes a
    virtual machine up to a third more from one quarter of a minute to the next, and all processes alike. So what
    applications and their controller take is told by what the others take meanwhile (proxies, raylets, agents), which
    replicas have nothing to do with as long as nobody asks."""
    found = []
    for _ in range(3):
        deployed(url, "nothing", nothing())
        time.sleep(5)
        without, others = cores_taken(15)
        client = deployed(url, "tiny", qinfer.ray.app(chat, replicas=2, name="tiny"))
        for n in range(4):
            client.chat.completions.create(model="tiny", messages=told(f"{beginning(n)}"), max_completion_tokens=4)
        time.sleep(5)
        with_it, others_then = cores_taken(15)
        found.append((with_it / others_then - without / others) * (others + others_then) / 2)
        print(
            f"\nidle: {without:.2%} of a core without and {with_it:.2%} with it, others {others:.2%} and "
            f"{others_then:.2%}: {found[-1]:+.2%}"
        )
    assert statistics.median(found) < 0.02
