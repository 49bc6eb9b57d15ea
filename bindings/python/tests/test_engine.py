"""Engines: requests of tasks and threads, drawn together, give what each gives alone."""

import asyncio
import threading

import pytest

import qinfer

PROMPTS = ["Once upon a time", "Lily saw a dog. Lily saw a dog. Lily", "The sun", "Tom and Sue went to the park"]


def alone(model, prompt, max_tokens, **sampler):
    with qinfer.Session(model, max_tokens=200) as session:
        session.append(model.tokenize(prompt))
        session.set_sampler(**sampler)
        return session.generate(max_tokens).text


@pytest.fixture
def engine(model):
    with qinfer.AsyncEngine(qinfer.KvCache(model, budget_blocks=60), max_running=8) as made:
        yield made


def test_tasks_get_what_each_gets_alone(model, engine):
    samplers = [{}, {"temperature": 0.8, "seed": 5}, {"temperature": 1.1, "top_k": 20, "seed": 6}]
    wanted = [(prompt, sampler) for prompt in PROMPTS for sampler in samplers]

    async def streamed(prompt, sampler):
        return "".join([piece.text async for piece in engine.stream(prompt, 30, **sampler)])

    async def run():
        texts = await asyncio.gather(*[streamed(*one) for one in wanted])
        whole = await asyncio.gather(*[engine.generate(prompt, 30, **sampler) for prompt, sampler in wanted])
        return texts, whole

    texts, whole = asyncio.run(run())
    expected = [alone(model, prompt, 30, **sampler) for prompt, sampler in wanted]
    assert texts == expected
    assert [one.text for one in whole] == expected
    assert {one.finish for one in whole} <= {"length", "end"}
    assert engine.stats["ended"] == 2 * len(wanted)
    assert 1000 < engine.stats["memory_bytes"] < 1_000_000


def test_pieces_say_what_a_token_is(engine):
    async def run():
        return [piece async for piece in engine.stream("Once upon a time", 5, logprobs=True, key=3, priority=1)]

    pieces = asyncio.run(run())
    assert [piece.finish for piece in pieces[:5]] == [None] * 5
    assert pieces[-1].finish == "length"
    assert all(piece.logprob < 0 for piece in pieces[:5])


def test_requests_end_by_leaving_by_time_and_by_close(model, engine):
    async def run():
        stream = engine.stream("Once upon a time", 150)
        async for _ in stream:
            break
        await stream.aclose()
        with pytest.raises(qinfer.CancelledError, match="deadline"):
            await engine.generate("Once upon a time", 150, timeout=0)
        task = asyncio.create_task(engine.generate("Once upon a time", 150, temperature=1.0))
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(qinfer.InvalidArgumentError):
            await engine.generate("Once", 5, temperature=-1)
        with pytest.raises(qinfer.KvFullError):
            await engine.generate("Once", 500) if model.info["context_tokens"] > 2000 else await full()
        assert (await engine.generate("Once upon a time", 5)).new_tokens == 5

    async def full():
        with qinfer.AsyncEngine(qinfer.KvCache(model, budget_blocks=2)) as small:
            await small.generate("Once upon a time", 100)

    asyncio.run(run())
    for _ in range(100):
        if engine.stats["running"] == 0 and engine.cache.stats["blocks_used"] == 0:
            break
        threading.Event().wait(0.02)
    assert engine.cache.stats["blocks_used"] == 0

    async def closed():
        async for _ in engine.stream("Once upon a time", 150, temperature=1.0):
            await asyncio.to_thread(engine.close)

    with pytest.raises(qinfer.StateError, match="closed"):
        asyncio.run(closed())
    with pytest.raises(qinfer.StateError, match="closed"):
        engine.submit(qinfer._engine.Job(None, None, None, None))


def test_a_thread_that_rests_ends_no_request_that_comes_then(engine, monkeypatch):
    rests = qinfer.Engine._rests

    def rests_slowly(self):
        resting = rests(self)
        if resting:
            threading.Event().wait(0.01)  # while the next request comes, and another thread begins
        return resting

    monkeypatch.setattr(qinfer.Engine, "_rests", rests_slowly)
    monkeypatch.setattr(qinfer._engine, "_WAIT_NS", 1)

    async def run():
        for _ in range(20):
            assert (await engine.generate("Once upon a time", 100)).new_tokens == 100

    asyncio.run(run())


def test_closing_at_any_moment_leaves_nobody_waiting(model):
    async def one(engine):
        try:
            await engine.generate("Once upon a time", 20)
        except qinfer.StateError:
            return False
        return True

    async def run():
        for i in range(30):
            engine = qinfer.AsyncEngine(qinfer.KvCache(model, budget_blocks=60))
            tasks = [asyncio.create_task(one(engine)) for _ in range(4)]
            await asyncio.sleep(0.0003 * i)
            await asyncio.to_thread(engine.close)
            await asyncio.wait_for(asyncio.gather(*tasks), 20)

    asyncio.run(run())


def test_a_program_that_closes_nothing_ends(model):
    async def run():
        return (await qinfer.AsyncEngine(model).generate("Once", 3)).new_tokens

    assert asyncio.run(run()) == 3
    for _ in range(100):
        if not [thread for thread in threading.enumerate() if "_run" in thread.name]:
            break
        threading.Event().wait(0.02)
    assert not [thread for thread in threading.enumerate() if "_run" in thread.name]


def chats(n):
    return [[{"role": "user", "content": f"What is {i} + 3?"}] for i in range(n)]


def test_requests_are_parked_where_blocks_run_out(model, tmp_path):
    cache = qinfer.KvCache(model, budget_blocks=9)
    expected = alone(model, "Once upon a time", 150, temperature=0.8, seed=3)

    async def run(engine):
        one = dict(temperature=0.8, seed=3)
        return await asyncio.gather(*[engine.generate("Once upon a time", 150, **one) for _ in range(4)])

    with qinfer.AsyncEngine(cache, park=tmp_path) as engine:
        assert [one.text for one in asyncio.run(run(engine))] == [expected] * 4
        assert engine.stats["times_parked"] > 0
        assert engine.stats["parked_bytes"] == 0
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(qinfer.NotFoundError):
        qinfer.Engine(cache, park=tmp_path / "none")


def test_clients_of_an_engine_answer_as_those_of_a_model(chat_model):
    plain = qinfer.Client(chat_model)
    engine = qinfer.AsyncEngine(qinfer.KvCache(chat_model, budget_blocks=200))
    together, tasks = qinfer.Client(engine), qinfer.AsyncClient(engine)
    options = {"max_completion_tokens": 12, "seed": 3, "n": 2, "temperature": 0.8, "logprobs": True}

    def of(client, messages):
        return client.chat.completions.create(messages=messages, **options).choices

    expected = [of(plain, messages) for messages in chats(6)]
    got = [None] * 6

    def ask(i):
        got[i] = of(together, chats(6)[i])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == expected

    async def run():
        whole = await asyncio.gather(*[tasks.chat.completions.create(messages=one, **options) for one in chats(6)])
        stream = await tasks.chat.completions.create(
            messages=chats(1)[0], max_completion_tokens=12, temperature=0, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        text = await tasks.completions.create(prompt=["Once", "The"], max_tokens=5, echo=True, logprobs=2, temperature=0)
        return [one.choices for one in whole], chunks, text.choices

    whole, chunks, text = asyncio.run(run())
    assert whole == expected
    alone = plain.chat.completions.create(messages=chats(1)[0], max_completion_tokens=12, temperature=0)
    said = "".join(chunk.choices[0].delta.get("content") or "" for chunk in chunks if chunk.choices)
    assert said == (alone.choices[0].message.content or "")
    assert chunks[-1].usage == alone.usage
    assert text == plain.completions.create(prompt=["Once", "The"], max_tokens=5, echo=True, logprobs=2, temperature=0).choices
    for chunk in together.chat.completions.create(messages=chats(1)[0], max_completion_tokens=40, stream=True):
        assert chunk.object == "chat.completion.chunk"
        break
    with pytest.raises(qinfer.QinferError, match="functions"):
        together.chat.completions.create(messages=chats(1)[0], functions=[{"name": "f"}])
    engine.close()
    with qinfer.Engine(qinfer.KvCache(chat_model, budget_blocks=200), max_running=1, max_waiting=1) as small:
        with pytest.raises(qinfer.NoMemoryError, match="max_waiting"):
            qinfer.Client(small).chat.completions.create(messages=chats(1)[0], n=9, max_completion_tokens=50)
        assert small.stats["waiting"] + small.stats["running"] <= 2
