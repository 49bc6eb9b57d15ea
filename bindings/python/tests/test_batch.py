"""Many prompts and conversations at once: what each gets is what it gets alone."""

import asyncio
import signal
import threading

import pytest

import qinfer

PROMPTS = ["Once upon a time", "Lily saw a dog. Lily saw a dog. Lily", "The sun", "Tom and Sue went to the park"]
QUESTION = "What is the capital of France?"


def alone(model, prompt, max_tokens, **sampler):
    with qinfer.Session(model, max_tokens=400) as session:
        session.append(prompt)
        session.set_sampler(**sampler)
        return session.generate(max_tokens)


def test_each_prompt_gets_what_it_gets_alone(model):
    prompts = [*PROMPTS * 5, model.tokenize("One sunny day")]
    expected = [alone(model, prompt, 20, temperature=0.9, seed=7) for prompt in prompts]
    seen = []

    def progress(done, total):
        assert threading.current_thread() is threading.main_thread()
        seen.append((done, total))

    got = model.generate(prompts, 20, temperature=0.9, seed=7, progress=progress)
    assert [one.text for one in got] == [one.text for one in expected]
    assert [one.finish for one in got] == [one.finish for one in expected]
    assert [one.new_tokens for one in got] == [one.new_tokens for one in expected]
    assert seen == [(i + 1, len(prompts)) for i in range(len(prompts))]
    assert qinfer.generate(model, [], 5) == []


def test_more_prompts_than_an_engine_lets_wait(model):
    with qinfer.Engine(qinfer.KvCache(model, budget_blocks=60), max_running=2, max_waiting=2) as engine:
        got = qinfer.generate(engine, PROMPTS * 5, 8)
        assert [one.text for one in got] == [alone(model, prompt, 8).text for prompt in PROMPTS] * 5
        assert engine.stats["ended"] == 20
    cache = qinfer.KvCache(model, budget_blocks=60, prefix=True)
    assert qinfer.generate(cache, PROMPTS[:1], 8, stop=[" little"])[0].finish == "stop"


def test_the_order_is_that_of_the_prompts_and_not_of_the_ends(model):
    prompts = ["Once upon a time there was a girl named Lily. She", *PROMPTS, "The end"] * 2
    expected = []
    for prompt in prompts:
        with qinfer.Session(model) as session:
            session.append(prompt)
            expected.append(session.generate(60, stop=["."]))
    assert len({one.new_tokens for one in expected}) > 3  # so that they end in another order
    got = model.generate(prompts, 60, stop=["."])
    assert [(one.text, one.finish) for one in got] == [(one.text, one.finish) for one in expected]


def test_what_is_left_does_not_run_on(model):
    def fail(done, total):
        raise ZeroDivisionError

    with qinfer.Engine(qinfer.KvCache(model, budget_blocks=100)) as engine:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                qinfer.generate(engine, [*PROMPTS, "x"] * 4, 150, stop=["."], progress=fail)
            assert engine.stats["running"] == engine.stats["waiting"] == 0


def test_without_a_bound_and_with_seeds(model):
    expected = [alone(model, PROMPTS[0], 0, temperature=1.0, seed=seed).text for seed in (1, 2)]
    got = model.generate([PROMPTS[0]] * 2, temperature=1.0, seeds=[1, 2])
    assert [one.text for one in got] == expected and expected[0] != expected[1]
    with pytest.raises(ValueError, match="1 seeds for 2"):
        model.generate(PROMPTS[:2], 5, seeds=[1])


def test_what_cannot_be_ends_all_of_them(model):
    too_long = [5] * (model.info["context_tokens"] + 1)
    with pytest.raises(qinfer.QinferError) as failed:
        model.generate([PROMPTS[0], too_long, PROMPTS[1]], 30)
    assert failed.value.status in (-10, -11)
    with pytest.raises(TypeError, match="unexpected keyword argument 'temprature'"):
        model.generate(PROMPTS, 5, temprature=1)
    with pytest.raises(qinfer.StateError, match="empty") as failed:
        model.generate([PROMPTS[0], []], 5)
    assert failed.value.__notes__ == ["request 1 of 2"]
    with pytest.raises(TypeError, match="a list of prompts"):
        model.generate("Once", 5)
    cancel = qinfer.Cancel()

    def stop(done, total):
        cancel.request()

    with pytest.raises(qinfer.CancelledError) as failed:
        model.generate([*PROMPTS[:1], *PROMPTS * 8], 100, progress=stop, cancel=cancel)
    assert "of 33" in failed.value.__notes__[0]

    class Stop(Exception):
        pass

    def fail(done, total):
        raise Stop

    with pytest.raises(Stop):
        model.generate(PROMPTS * 4, 50, progress=fail)
    assert model.generate(PROMPTS[:1], 5)[0].new_tokens == 5


def test_signals_end_a_batch(model):
    class Stop(Exception):
        pass

    def handler(*_):
        raise Stop

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.1, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGUSR1))
    timer.start()
    try:
        with pytest.raises(Stop):
            for _ in range(100):
                model.generate(PROMPTS * 16, 150, temperature=1.0)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert model.generate(PROMPTS[:1], 5)[0].new_tokens == 5


def test_conversations_get_what_each_gets_alone(chat_model):
    firsts = [QUESTION, "Hello!", "What is 4 + 3?", "What is the capital of Italy?"]
    expected = []
    for first in firsts:
        with qinfer.Chat(chat_model, max_tokens=30) as chat:
            expected.append([chat.send(first), chat.send(QUESTION)])
        assert chat.session is None and len(chat.messages) == 4
    with qinfer.Engine(qinfer.KvCache(chat_model, budget_blocks=300, prefix=True)) as engine:
        chats = qinfer.Chat.batch(engine, firsts, max_tokens=30)
        assert [chat.text for chat in chats] == [one[0] for one in expected]
        assert all(chat.result.finish == "end" for chat in chats)
        for chat in chats:
            chat.messages.append({"role": "user", "content": QUESTION})
            assert chat.text == ""
        again = qinfer.Chat.batch(engine, chats, max_tokens=30)
        assert all(one is other for one, other in zip(again, chats))
    assert [chat.text for chat in chats] == [one[1] for one in expected]
    assert [len(chat.messages) for chat in chats] == [4] * 4
    with pytest.raises(TypeError, match="a list of conversations"):
        qinfer.Chat.batch(chat_model, "Hello!")


def test_conversations_as_messages_with_tools(chat_model):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Get the weather in a city", "parameters": parameters}
    tools = [{"type": "function", "function": function}]
    asked = [[{"role": "user", "content": f"What is the weather in {city}?"}] for city in ("Paris", "Oslo")]
    chats = qinfer.Chat.batch(chat_model, asked, tools=tools, max_tokens=60)
    calls = [chat.messages[-1]["tool_calls"][0]["function"]["arguments"] for chat in chats]
    assert calls == [{"city": "Paris"}, {"city": "Oslo"}]
    assert [len(messages) for messages in asked] == [1, 1]


def test_a_chat_has_a_system_message_and_a_loop(chat_model):
    chat = qinfer.Chat(chat_model, system="Be brief.")
    assert chat.messages == [{"role": "system", "content": "Be brief."}] and chat.text == ""

    async def run():
        parts = "".join([part.text async for part in chat.astream(QUESTION)])
        assert parts == chat.text and len(chat.messages) == 3
        said = await chat.asend(QUESTION)
        assert said == chat.text and len(chat.messages) == 5
        async for _ in chat.astream(QUESTION):
            break  # the reply so far stays
        await chat.asend(QUESTION)
        return [message["role"] for message in chat.messages]

    assert asyncio.run(run()) == ["system", *["user", "assistant"] * 4]

    async def fails():
        with pytest.raises(qinfer.ContextFullError, match="the conversation has .* and a context of 1024 has no room"):
            await chat.asend("very " * 5000)
        assert len(chat.messages) == 9

    asyncio.run(fails())
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_token'"):
        chat.send(QUESTION, max_token=5)


def test_a_turn_of_a_loop_that_is_cancelled(chat_model):
    session = qinfer.Session(chat_model)
    session.set_bias({token: float("-inf") for token in chat_model.end_tokens})
    chat = qinfer.Chat(chat_model, session=session)

    async def read(begun):
        async for _ in chat.astream("Tell me a long story."):
            begun.set()

    async def run():
        begun = asyncio.Event()
        task = asyncio.create_task(read(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [message["role"] for message in chat.messages] == ["user", "assistant"]
        return await chat.asend(QUESTION, max_tokens=5)

    asyncio.run(run())
    assert [message["role"] for message in chat.messages] == ["user", "assistant"] * 2
