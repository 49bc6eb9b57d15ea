"""Answers that go on in another engine, as replicas of qinfer.ray hand them over; and what of a prompt a cache has."""

import asyncio
import json
import queue
import threading

import pytest

import qinfer
from qinfer import _abi
from qinfer._engine import Inbox
from qinfer.openai._draw import HasLeft

numpy = pytest.importorskip("numpy")
from qinfer.ray import _moving  # noqa: E402
from qinfer.ray._moving import Answering, Ask, resume  # noqa: E402

END = {"1273": -100}  # tiny-chat's end token is never drawn
CASES = {
    "one": {"stream": True, "temperature": 1.2},
    "several": {"stream": True, "temperature": 1.0, "n": 3},
    "whole": {"temperature": 1.0, "n": 2},
    "greedy": {"stream": True, "stop": ["zzz"]},
}


def ask_of(fields):
    body = {"model": "m", "messages": [{"role": "user", "content": "Tell me of the sea."}], "logit_bias": END, **fields}
    data = json.dumps({"max_completion_tokens": 200, **body}).encode()
    return Ask(_abi.QINFER_OPENAI_CHAT, data, 7, "2026-11-22", "name", "m", 17)


def engine_of(model):
    return qinfer.AsyncEngine(qinfer.KvCache(model, budget_bytes=64 << 20, prefix=True))


async def read(answering, texts, enough=None):
    async for batch in answering.inbox.batches():
        texts += batch
        if enough is not None and sum(map(len, texts)) > enough:
            answering.jobs.leave()


async def until(condition):
    for _ in range(30_000):
        if condition():
            return
        await asyncio.sleep(0.001)
    raise AssertionError("not within 30 s")


def parts(text, streams):
    """What each choice says, and all other members that matter."""
    if not streams:
        whole = json.loads(text)
        whole["usage"].pop("prompt_tokens_details")  # where its prompt was found
        return whole
    events = text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    said = {}
    for event in events[:-2]:
        (choice,) = json.loads(event.removeprefix("data: "))["choices"]
        said.setdefault(choice["index"], []).append((choice["delta"], choice["finish_reason"]))
    return said


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("snapshots", [True, False])
def test_an_answer_goes_on_in_another_engine(chat_model, case, snapshots):
    fields = CASES[case]
    streams = fields.get("stream", False)

    async def moved():
        with engine_of(chat_model) as first, engine_of(chat_model) as second:
            whole, texts = Answering(first, ask_of(fields), Inbox()), []
            whole.jobs.submit()
            await read(whole, texts)
            going, halves = Answering(first, ask_of(fields), Inbox()), []
            begun = first.stats["decode_rows"]
            going.jobs.submit()
            if not streams:  # nothing comes before it has ended
                await until(lambda: first.stats["decode_rows"] > begun + 40)
                going.jobs.leave()
            with pytest.raises(HasLeft):
                await read(going, halves, 3000)
            parked = going.parked()
            assert all(not choice.ended for choice in parked.choices)
            assert all(len(choice.snapshot) > 1000 for choice in parked.choices)
            if not snapshots:
                choices = [type(choice)(choice.tokens, False, None) for choice in parked.choices]
                parked = type(parked)(parked.ask, parked.given, choices)
            rows = second.stats["prompt_rows"]
            await read(await resume(second, parked), halves)
            if snapshots:  # the last token of each, whose logits no snapshot has
                assert second.stats["prompt_rows"] - rows <= len(parked.choices)
            await until(lambda: second.cache.stats["blocks_used"] == 0 and second.stats["running"] == 0)
            return "".join(texts), "".join(halves)

    alone, moved_text = asyncio.run(moved())
    assert len(alone) == len(moved_text) or not streams
    assert parts(alone, streams) == parts(moved_text, streams)


@pytest.mark.parametrize("streams", [True, False])
def test_a_choice_at_its_limit_stays_so_when_another_goes_on(chat_model, streams):
    """The first choice is drawn once the second one has ended, which it did in a step without a token."""
    fields = {"stream": streams, "n": 2, "max_completion_tokens": 400}

    async def moved():
        with engine_of(chat_model) as first, engine_of(chat_model) as second:
            whole, texts = Answering(first, ask_of(fields), Inbox()), []
            whole.jobs.submit()
            await read(whole, texts)
            going, halves = Answering(first, ask_of(fields), Inbox()), []
            submit, jobs = first.submit, []
            first.submit = lambda job, **how: jobs.append(job) or (len(jobs) == 2 and submit(job, **how))
            going.jobs.submit()
            await until(lambda: 1 in going.jobs.left)
            begun = first.stats["decode_rows"]
            submit(jobs[0])
            await until(lambda: first.stats["decode_rows"] > begun + 5)
            going.jobs.leave()
            with pytest.raises(HasLeft):
                await read(going, halves)
            parked = going.parked()
            assert [choice.ended for choice in parked.choices] == [False, True]
            await read(await resume(second, parked), halves)
            return "".join(texts), "".join(halves)

    alone, moved_text = asyncio.run(moved())
    assert parts(alone, streams) == parts(moved_text, streams)
    if streams:
        assert [said[-1][1] for said in parts(moved_text, streams).values()] == ["length"] * 2


async def left_by(engine, fields, n_tokens=20):
    """A request that has left its engine, and its answer as it would have been there."""
    whole, texts = Answering(engine, ask_of(fields), Inbox()), []
    whole.jobs.submit()
    await read(whole, texts)
    going, halves = Answering(engine, ask_of(fields), Inbox()), []
    begun = engine.stats["decode_rows"]
    going.jobs.submit()
    await until(lambda: engine.stats["decode_rows"] > begun + n_tokens)
    going.jobs.leave()
    with pytest.raises(HasLeft):
        await read(going, halves)
    return going.parked(), "".join(texts), halves


def test_snapshots_that_find_no_room_are_evaluated_again(chat_model, monkeypatch):
    """There is room for one whole context: for each choice in turn, and not for the snapshots of all."""
    monkeypatch.setattr(_moving, "_ROOM_S", 0.5)
    blocks = -(-chat_model.info["context_tokens"] // 32)

    async def moved():
        small = qinfer.KvCache(chat_model, budget_blocks=blocks, block_tokens=32, prefix=True)
        with engine_of(chat_model) as first, qinfer.AsyncEngine(small) as second:
            parked, alone, halves = await left_by(first, {"n": 3}, 60)
            assert all(choice.snapshot is not None for choice in parked.choices)
            async with asyncio.timeout(60):
                await read(await resume(second, parked), halves)
            await until(lambda: second.cache.stats["blocks_used"] == 0 and second.stats["running"] == 0)
            assert not second._reservations
            return alone, "".join(halves)

    alone, moved_text = asyncio.run(moved())
    assert parts(alone, False) == parts(moved_text, False)


def test_a_request_that_cannot_go_on_leaves_others_alone(chat_model):
    """One runs and one may wait, so that the second choice is refused when the first one is submitted."""

    async def moved():
        cache = qinfer.KvCache(chat_model, budget_bytes=64 << 20, prefix=True)
        with engine_of(chat_model) as first, qinfer.AsyncEngine(cache, max_running=1, max_waiting=1) as second:
            parked, _, _ = await left_by(first, {"n": 2})
            long = {"max_completion_tokens": 900}
            whole, texts = Answering(first, ask_of(long), Inbox()), []
            whole.jobs.submit()
            await read(whole, texts)
            other, others = Answering(second, ask_of(long), Inbox()), []
            other.jobs.submit()
            await until(lambda: second.stats["running"] == 1)
            choices = [type(choice)(choice.tokens, False, None) for choice in parked.choices]  # no snapshot waits for room
            with pytest.raises(qinfer.NoMemoryError):
                await resume(second, type(parked)(parked.ask, parked.given, choices))
            assert second.stats["running"] == 1
            await read(other, others)
            return "".join(texts), "".join(others)

    alone, other = asyncio.run(moved())
    assert parts(alone, False) == parts(other, False)


def test_which_requests_may_move(chat_model):
    def may_move(kind, **fields):
        data = json.dumps({"model": "m", **fields}).encode()
        return Answering(engine, Ask(kind, data, 7, "2026-11-22", "name", "m", 17), Inbox()).may_move

    async def all_of_them():
        chat = {"messages": [{"role": "user", "content": "x"}]}
        asked = ({"logprobs": None}, True), ({"logprobs": False}, True), ({"logprobs": True}, False)
        for fields, expected in ({}, True), ({"mirostat": 2}, False), *asked:
            assert may_move(_abi.QINFER_OPENAI_CHAT, **chat, **fields) is expected
        for fields, expected in ({}, True), ({"logprobs": None}, True), ({"logprobs": 0}, False), ({"logprobs": 2}, False):
            assert may_move(_abi.QINFER_OPENAI_COMPLETION, prompt="x", **fields) is expected

    with qinfer.Engine(chat_model) as engine:
        asyncio.run(all_of_them())


def test_an_answer_keeps_its_schema_when_it_goes_on(chat_model):
    schema = {"type": "object", "properties": {"a": {"type": "string", "maxLength": 60}}, "required": ["a"]}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    fields = {"stream": True, "response_format": form, "temperature": 1.0, "logit_bias": {}}

    async def moved():
        with engine_of(chat_model) as first, engine_of(chat_model) as second:
            whole, texts = Answering(first, ask_of(fields), Inbox()), []
            whole.jobs.submit()
            await read(whole, texts)
            going, halves = Answering(first, ask_of(fields), Inbox()), []
            going.jobs.submit()
            with pytest.raises(HasLeft):
                await read(going, halves, 600)
            await read(await resume(second, going.parked()), halves)
            return "".join(texts), "".join(halves)

    alone, moved_text = asyncio.run(moved())
    assert alone == moved_text


def test_an_answer_that_has_ended_does_not_leave(chat_model):
    async def ended():
        with engine_of(chat_model) as engine:
            answering, texts = Answering(engine, ask_of({"stream": True, "max_completion_tokens": 3}), Inbox()), []
            answering.jobs.submit()
            await read(answering, texts)
            answering.jobs.leave()
            return texts

    assert asyncio.run(ended())


def test_what_a_cache_has_of_a_prompt(chat_model):
    cache = qinfer.KvCache(chat_model, prefix=True)
    tokens = [5 + at % 40 for at in range(100)]
    assert cache.find(tokens) == 0
    with qinfer.Session(cache) as session:
        session.append(tokens)
        session.evaluate()
        assert cache.find(tokens) == 96 and cache.find(tokens[:40]) == 32 and cache.find([6, *tokens]) == 0
    assert cache.find(tokens) == 96  # without a session, too
    assert qinfer.KvCache(chat_model).find(tokens) == 0


def test_blocks_are_reserved_before_a_session_is_loaded(chat_model):
    from qinfer._engine import Reservation

    with qinfer.Engine(qinfer.KvCache(chat_model, budget_blocks=8, prefix=True)) as engine:
        ready, errors = threading.Event(), []
        first = Reservation(engine.cache, 200, lambda error: (errors.append(error), ready.set()))
        engine.reserve(first)
        assert ready.wait(30) and errors == [None]
        waits = threading.Event()
        second = Reservation(engine.cache, 100, lambda error: waits.set())
        engine.reserve(second)
        assert not waits.wait(0.2)  # there are 8 blocks
        first.close()
        assert waits.wait(30)
        second.close()
        with pytest.raises(qinfer.KvFullError):
            engine.reserve(Reservation(engine.cache, 300, lambda error: None))


def test_reservations_that_are_given_up_or_whose_step_fails(chat_model, monkeypatch):
    from qinfer import _engine

    with qinfer.Engine(qinfer.KvCache(chat_model, budget_blocks=8, prefix=True)) as engine:
        errors = queue.SimpleQueue()
        first, second, third = (_engine.Reservation(engine.cache, 200, errors.put) for _ in range(3))
        engine.reserve(first)
        assert errors.get(timeout=30) is None
        engine.reserve(second)  # waits
        second.close()
        assert not engine._reservations and errors.empty()
        engine.reserve(third)  # waits
        call, failure = _engine.call, qinfer.NoMemoryError("QINFER_E_NO_MEMORY", _abi.QINFER_E_NO_MEMORY, "none", 0)

        def fails(function, *arguments):
            if function is _engine.lib.qinfer_scheduler_step:
                raise failure
            return call(function, *arguments)

        monkeypatch.setattr(_engine, "call", fails)
        assert errors.get(timeout=30) is failure
        monkeypatch.undo()
        assert not engine._reservations
        for reservation in (first, third):
            reservation.close()
