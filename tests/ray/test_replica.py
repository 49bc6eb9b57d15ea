"""Replicas, fronts and the router of qinfer.ray.app, each alone and without a cluster: what happens where others are lost or
have no room."""

import asyncio
import json
import time
import types

import pytest
from ray import serve
from ray.serve._private.request_router.common import PendingRequest
from serve_support import END
from starlette.requests import Request

import qinfer
import qinfer.ray
from qinfer import _abi
from qinfer._engine import Inbox, Reservation
from qinfer.ray import _front, _replica, _resume, _router
from qinfer.ray._inference import Inference
from qinfer.ray._moving import Answering, Ask
from qinfer.ray._refusals import Refusal
from qinfer.ray._route import Route


def ask_of(kind, **fields):
    return Ask(kind, json.dumps({"model": "m", **fields}).encode(), 7, "2026-11-22", "name", "m", 17)


def chat_ask(n_tokens):
    messages = [{"role": "user", "content": "Tell me of the sea."}]
    fields = {"messages": messages, "max_completion_tokens": n_tokens, "logit_bias": {END: -100}, "stream": True}
    return ask_of(_abi.QINFER_OPENAI_CHAT, **fields)


@pytest.fixture
def replica(chat, monkeypatch):
    """One that finds no others."""
    context = types.SimpleNamespace(replica_tag="own", deployment="Replica", app_name="app")
    peers = types.SimpleNamespace(stats=types.SimpleNamespace(remote=lambda _: None))
    monkeypatch.setattr(serve, "get_replica_context", lambda: context)
    monkeypatch.setattr(serve, "get_deployment_handle", lambda *_: peers)
    made = _replica.Replica(
        chat, runtime={"threads": 1}, context=0, cache_bytes=16 << 20, max_running=16, max_waiting=16
    )
    yield made
    made._engine.close()


async def pieces_of(stream):
    return [piece async for piece in stream if not isinstance(piece, _replica.By)]


def test_an_answer_is_given_to_none_but_who_it_is_for(replica):
    """Another replica has given the ticket that this one is asked for."""

    async def followed():
        answering = Answering(replica._engine, chat_ask(5), Inbox())
        answering.jobs.submit()
        replica._adopted[1] = answering
        (refused,) = await pieces_of(replica.follow(Route(replica="other"), 1))
        return refused, "".join(await pieces_of(replica.follow(Route(replica="own"), 1)))

    refused, text = asyncio.run(followed())
    assert isinstance(refused, Refusal) and json.loads(refused.json)["error"]["code"] == "replica_lost"
    assert text.endswith("data: [DONE]\n\n")


def test_tickets_are_not_alike(replica, monkeypatch):
    async def adopted():
        async def resume(_):
            return Answering(replica._engine, chat_ask(5), Inbox())

        monkeypatch.setattr(replica, "_resume", resume)
        return [(await replica.adopt(Route(), None)).ticket for _ in range(3)]

    assert min(asyncio.run(adopted())) > 1 << 32  # all but once in a billion


def test_what_nobody_takes_is_drawn_where_it_is(replica, monkeypatch):
    calls = []

    async def fails(parked):
        calls.append(parked.given)
        raise RuntimeError("there is no other replica")

    async def drawn():
        whole = "".join(await pieces_of(replica.answer(Route(), chat_ask(300))))
        monkeypatch.setattr(replica, "_hand_over", fails)
        texts = []
        async for piece in replica.answer(Route(), chat_ask(300)):
            if isinstance(piece, str):
                texts.append(piece)
                replica._end()
        return whole, "".join(texts)

    whole, text = asyncio.run(drawn())
    assert text == whole
    assert len(calls) == 1 and 0 < calls[0] < len(whole)


def test_embeddings_wait_for_room_in_the_cache(replica, chat_model):
    async def embedded():
        stats = replica._engine.cache.stats
        loop, ready = asyncio.get_running_loop(), asyncio.Event()
        n_tokens = stats["blocks_total"] * stats["block_tokens"]
        most = chat_model.info["context_tokens"]
        sizes = [most] * (n_tokens // most) + [n_tokens % most] * (n_tokens % most > 0)
        held = [
            Reservation(replica._engine.cache, size, lambda _: loop.call_soon_threadsafe(ready.set)) for size in sizes
        ]
        for reservation in held:
            ready.clear()
            replica._engine.reserve(reservation)
            await ready.wait()
        ask = ask_of(_abi.QINFER_OPENAI_EMBEDDINGS, input=["a b c " * 200, "b c"])
        task = asyncio.create_task(pieces_of(replica.answer(Route(), ask)))
        waited, _ = await asyncio.wait([task], timeout=1)
        for reservation in held:
            reservation.close()
        return waited, await task

    waited, (text,) = asyncio.run(embedded())
    assert not waited
    local = qinfer.Client(chat_model).embeddings.create(input=["a b c " * 200, "b c"])
    assert [item["embedding"] for item in json.loads(text)["data"]] == [item.embedding for item in local.data]
    assert replica._engine.cache.stats["blocks_used"] == 0


def test_a_request_waits_for_the_replica_that_it_is_for(monkeypatch):
    def replica_of(name):
        return types.SimpleNamespace(replica_id=types.SimpleNamespace(unique_id=name))

    async def chosen(route, *names):
        metadata = types.SimpleNamespace(internal_request_id="1")
        pending = PendingRequest(args=[route], kwargs={}, metadata=metadata, created_at=begun)
        groups = await router.choose_replicas([replica_of(name) for name in names], pending)
        assert pending.routing_context.should_backoff
        return [replica.replica_id.unique_id for group in groups for replica in group]

    begun, router = time.time(), _router.LongestBeginning.__new__(_router.LongestBeginning)
    router.initialize_state()
    assert asyncio.run(chosen(Route(replica="b"), "a", "b", "c")) == ["b"]
    assert asyncio.run(chosen(Route(replica="b"), "a", "c")) == []
    begun -= _router._MEANT_S + 1  # it does not come: another one says that it is not the one
    assert asyncio.run(chosen(Route(replica="b"), "a", "c")) == ["a", "c"]


def test_bodies_are_bounded_without_a_length(monkeypatch):
    monkeypatch.setattr(_front, "_MOST_BYTES", 1000)
    n_taken = 0

    async def receive():
        nonlocal n_taken
        n_taken += 1
        return {"type": "http.request", "body": b"x" * 300, "more_body": n_taken < 100}

    front = _front.Front.__new__(_front.Front)
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "headers": [], "query_string": b""}
    response = asyncio.run(front(Request(scope, receive)))
    assert response.status_code == 413 and n_taken == 4


@pytest.mark.parametrize("prefix", ["", "/stories"])
def test_routes_of_an_application_that_is_not_the_only_one(prefix):
    """Ray Serve tells where it is by root_path, and gives the whole path."""
    front = _front.Front.__new__(_front.Front)
    front._name, front._context, front._started = "tiny", 64, 0

    def status(path):
        scope = {"type": "http", "method": "GET", "path": path, "root_path": prefix, "headers": [], "query_string": b""}
        return asyncio.run(front(Request(scope, None))).status_code

    found = [status(f"{prefix}{path}") for path in ("/v1/models", "/v1/models/tiny", "/models", "/health", "/v1/others")]
    assert found == [200, 200, 200, 200, 404]


def test_a_prompt_that_fills_the_context(stories):
    """It is an error of its row, whether max_tokens says how many are to follow or not."""
    import pyarrow

    rows = pyarrow.table({"prompt": ["The cat", "cat " * 80]})
    for max_tokens in (0, 4):
        inference = Inference(stories, max_tokens=max_tokens, context=32, sessions=2, threads=1, errors="keep")
        errors = asyncio.run(inference(rows)).column("error").to_pylist()
        assert errors[0] is None and "leaves none of the context of 32" in errors[1]


def test_a_file_that_cannot_be_read_is_not_torn(tmp_path, monkeypatch):
    (tmp_path / "1.jsonl").write_text('{"id": 1}\n')

    def fails(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(_resume, "_ids_of", fails)
    with pytest.raises(OSError, match="Input/output"):
        qinfer.ray.done_ids(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["1.jsonl"]
