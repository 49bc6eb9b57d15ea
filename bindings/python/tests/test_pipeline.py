"""What a pipeline of stages shares with a model: sessions, conversations, many prompts."""

import asyncio
import contextlib
import signal
import threading

import pytest
from piping import SAMPLER, alone, halves, layers_of, piped

import qinfer
from qinfer.stages import StageError
from qinfer.stages._chain import Chain
from qinfer.stages._text import Stops


# ---- Like a model
def test_it_has_what_a_model_has_of_text(chat_path):
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    messages = [{"role": "user", "content": "Hello"}]
    with piped(chat_path, *halves(chat_path)) as pipeline:
        assert pipeline.tokenize("Hello") == model.tokenize("Hello")
        assert pipeline.detokenize(model.tokenize("Hello")) == model.detokenize(model.tokenize("Hello"))
        assert pipeline.tokenize_chat(messages) == model.tokenize_chat(messages)
        assert pipeline.end_tokens == model.end_tokens
        assert pipeline.info["n_layers"] == model.info["n_layers"]
        with pytest.raises(AttributeError, match="no expert_counts"):
            pipeline.expert_counts(0)


def test_conversations(chat_path):
    """Turns, of which the second one's prompt may begin otherwise than what was drawn."""
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    questions = "What is the capital of France?", "And of Italy?", "Thank you."

    async def asked(chat):
        return [await chat.asend(question, max_tokens=30) for question in questions]

    with piped(chat_path, *halves(chat_path)) as pipeline:
        for sampler in ({}, SAMPLER):
            for system in (None, "Be brief."):
                with qinfer.Chat(model, system=system, sampler=sampler) as chat:
                    expected = [chat.send(question, max_tokens=30) for question in questions]
                with qinfer.Chat(pipeline, system=system, sampler=sampler) as chat:
                    assert [chat.send(question, max_tokens=30) for question in questions] == expected
                    assert chat.result.new_tokens > 0 and chat.result.finish in ("end", "length")
                with qinfer.Chat(pipeline, system=system, sampler=sampler) as chat:
                    assert asyncio.run(asked(chat)) == expected
        with qinfer.Chat(pipeline) as chat:
            with pytest.raises(qinfer.ContextFullError, match="shorten"):
                chat.send("Hello " * 2000)
            assert chat.messages == []
            assert chat.send("Hello", max_tokens=5)


def test_a_turn_that_is_left_keeps_what_there_is(chat_path):
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    with piped(chat_path, *halves(chat_path)) as pipeline, qinfer.Chat(pipeline) as chat, qinfer.Chat(model) as whole:
        for one in (chat, whole):
            for _ in one.stream("What is the capital of France?"):
                break
            assert [message["role"] for message in one.messages] == ["user", "assistant"]
        chat.messages = [dict(message) for message in whole.messages]
        assert chat.send("And of Italy?", max_tokens=30) == whole.send("And of Italy?", max_tokens=30)


@pytest.mark.parametrize("max_tokens", [0, 12])
def test_many_prompts(model, path, max_tokens):
    prompts = ["The cat", "Once upon a time", model.tokenize("A little girl"), "The dog", "Tom"]
    seen = []
    how = {"temperature": 0.9, "seeds": range(5), "stop": ["."]}
    with piped(path, 2, 2, 2) as pipeline:
        found = pipeline.generate(prompts, max_tokens, progress=lambda *at: seen.append(at), **how)
        expected = model.generate(prompts, max_tokens, **how)
        assert [(one.text, one.finish, one.new_tokens) for one in found] == [
            (one.text, one.finish, one.new_tokens) for one in expected
        ]
        assert seen == [(n, 5) for n in range(1, 6)]
        assert pipeline.generate([], 5) == []
        with pytest.raises(qinfer.ContextFullError) as failure:
            pipeline.generate(["The cat", "cat " * 4000, "The dog"], 5)
        assert failure.value.__notes__ == ["request 1 of 3"]
        with pytest.raises(TypeError, match="list"):
            pipeline.generate("The cat")
        with pytest.raises(TypeError, match="warmth"):
            pipeline.generate(["The cat"], warmth=1)
        cancel = qinfer.Cancel()
        cancel.request()
        with pytest.raises(qinfer.CancelledError):
            pipeline.generate(["The cat"] * 9, cancel=cancel)


# ---- Sessions
@pytest.mark.parametrize("name", ["tests/fixtures/models/gemma3-f32", "examples/models/tiny-stories-moe"])
def test_tokens_are_taken_back_as_in_a_session(root, name):
    """With sliding windows of 16 tokens a stage has to begin anew where another one has not."""
    path = root / name
    whole = qinfer.Session(qinfer.Model(path, qinfer.Runtime(threads=1)))
    whole.set_sampler(**SAMPLER)
    n_vocab = whole.model.info["n_vocab"]
    lists = [
        [7 * at % (n_vocab - 1) + 1 for at in range(50)],
        [7 * at % (n_vocab - 1) + 1 for at in range(48)] + [3, 4, 5],
        [7 * at % (n_vocab - 1) + 1 for at in range(5)] + [3],
        [9],
        [7 * at % (n_vocab - 1) + 1 for at in range(50)],
    ]
    n = layers_of(path)
    with piped(path, 1, n - 2, 1, chunk=16) as pipeline, pipeline.session(**SAMPLER) as session:
        for tokens in lists:
            assert session.set_tokens(tokens) == whole.set_tokens(tokens)
            for _ in range(20):
                whole.evaluate()
                assert session.draw() == whole.sample()
            session.truncate(len(session) - 7), whole.truncate(len(whole) - 7)
            for _ in range(3):
                whole.evaluate()
                assert session.draw() == whole.sample()
            assert session.tokens == whole.tokens


def drawn_at_once(pipeline, n, n_tokens):
    """The tokens of n sessions on threads of their own, or what ended them."""
    found = {}

    def draw(seed):
        try:
            with pipeline.session(**{**SAMPLER, "seed": seed}) as session:
                session.append("The dog")
                session.generate(n_tokens)
                found[seed] = session.tokens
        except StageError as failed:
            found[seed] = failed

    threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_stages_evaluate_sessions_together(model, path, monkeypatch):
    """In groups of at most a stage's share of them."""
    sizes, evaluated = [], Chain._evaluated

    def counted(self, steps):
        sizes.append(len(steps))
        return evaluated(self, steps)

    monkeypatch.setattr(Chain, "_evaluated", counted)
    with piped(path, 3, 3) as pipeline:
        found = drawn_at_once(pipeline, 8, 60)
    assert found == {seed: alone(model, seed, 60) for seed in range(8)}
    assert 1 < max(sizes) <= 4, sizes


def test_where_one_of_a_group_has_no_room_the_others_go_on(model, path):
    with piped(path, 3, 3, blocks=9) as pipeline:
        found = drawn_at_once(pipeline, 6, 60)
    failed = [seed for seed, tokens in found.items() if isinstance(tokens, StageError)]
    assert 0 < len(failed) < 6 and all("KV_FULL" in str(found[seed]) for seed in failed)
    for seed in set(found) - set(failed):
        assert found[seed] == alone(model, seed, 60)


def test_a_token_is_drawn_once_more(chat_path):
    """After which nothing is to be evaluated."""
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    texts = []
    for cut in ((layers_of(chat_path),), halves(chat_path)):
        with piped(chat_path, *cut) as pipeline:
            for source in (model, pipeline):
                with qinfer.Chat(source) as chat:
                    chat.send("Hello", max_tokens=1)
                    chat.messages.pop()
                    texts.append("".join(part.text for part in chat.stream(None, max_tokens=8)))
    assert texts[0] and len(set(texts)) == 1


def test_sessions_that_nobody_closed_make_room(path):
    with piped(path, 3, 3, blocks=4) as pipeline:
        for _ in range(20):
            session = pipeline.session()
            session.append("The cat")
            session.draw()
            del session


def test_what_cannot_be(path):
    with piped(path, 3, 3) as pipeline:
        with pytest.raises(ValueError, match="max_tokens is -5"):
            pipeline.session(-5)
        session = pipeline.session(4)
        for call, error, why in (
            (lambda: session.append([1, -1]), qinfer.InvalidArgumentError, "token -1 at index 1"),
            (lambda: session.set_tokens([2**40]), qinfer.InvalidArgumentError, "at index 0"),
            (lambda: session.append([1] * 5), qinfer.ContextFullError, "at most 4"),
            (lambda: session.draw(), qinfer.StateError, "no tokens"),
            (lambda: session.draw(cancel=3), TypeError, "Cancel"),
            (lambda: session.generate(-3), ValueError, "max_tokens is -3"),
        ):
            with pytest.raises(error, match=why):
                call()
        session.append([1, 2, 3])
        assert session.draw() >= 0
        with pytest.raises(qinfer.ContextFullError, match="its limit"):
            session.draw()


def test_stop_texts(model, path):
    with piped(path, 3, 3) as pipeline:
        for stop in (["."], [" little", "."], ["zzz"], "."):
            whole = qinfer.Session(model)
            whole.append("Once upon a time")
            expected = whole.generate(30, stop=stop)
            session = pipeline.session()
            session.append("Once upon a time")
            pieces = []
            found = session.generate(30, stop=stop, on_text=pieces.append)
            assert (found.text, found.finish, found.new_tokens) == (expected.text, expected.finish, expected.new_tokens)
            assert "".join(pieces) == found.text
            assert (found.prompt_tokens, session.tokens) == (expected.prompt_tokens, whole.tokens)
            assert (session.pending, session.info["n_evaluated"]) == (whole.pending, whole.info["n_evaluated"])


def test_text_up_to_a_stop():
    stops = Stops(["END", "E.", "D!"])
    assert stops.push("a E") == ("a ", False)
    assert stops.push("N") == ("", False)
    assert stops.push("D") == ("", True)
    stops = Stops(["END"])
    assert [stops.push(text)[0] for text in ("E", "EN", "x", "EN")] == ["", "E", "ENx", ""]
    assert stops.finish() == "EN"
    with pytest.raises(ValueError, match="empty"):
        Stops(["a", ""])


def test_a_call_that_is_cancelled_loses_nothing(model, path):
    expected = qinfer.Session(model)
    expected.set_sampler(**SAMPLER)
    expected.append("The cat " * 60)
    with piped(path, 3, 3, chunk=8) as pipeline, pipeline.session(**SAMPLER) as session:
        session.append("The cat " * 60)
        for _ in range(12):
            cancel = qinfer.Cancel()
            threading.Timer(0.003, cancel.request).start()
            with contextlib.suppress(qinfer.CancelledError):
                session.generate(cancel=cancel)
        n = len(session) - len(expected)
        expected.generate(n)
        assert session.tokens == expected.tokens
        # What is still to come of the last one is not taken for something else.
        cancel = qinfer.Cancel()
        cancel.request()
        with pytest.raises(qinfer.CancelledError):
            session.draw(cancel=cancel)
        session.append([5, 6])
        expected.append([5, 6])
        expected.generate(9)
        session.generate(9)
        assert session.tokens == expected.tokens


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that came while a handle was freed
def test_interrupts_lose_nothing(model, path, monkeypatch):
    """At any moment of a generation on the main thread."""

    class Interrupt(BaseException):  # as KeyboardInterrupt is one
        pass

    def interrupt(*_):
        raise Interrupt

    expected = alone(model, 4, 200)
    before = signal.signal(signal.SIGALRM, interrupt)
    n_interrupts = n_texts = 0
    try:
        with piped(path, 3, 3) as pipeline:
            while n_interrupts < 6 and n_texts < 50:  # a fast machine is interrupted seldom
                n_texts += 1
                with pipeline.session(**SAMPLER) as session:
                    session.append("The dog")
                    while len(session) < len(expected):
                        signal.setitimer(signal.ITIMER_REAL, 0.002 + 0.0037 * n_interrupts % 0.004)
                        try:
                            session.generate(len(expected) - len(session))
                        except Interrupt:
                            n_interrupts += 1
                        finally:
                            signal.setitimer(signal.ITIMER_REAL, 0)
                    assert session.tokens == expected
    finally:
        signal.signal(signal.SIGALRM, before)
    assert n_interrupts > 5


def test_a_callback_that_ends_it(model, path):
    """As in a session: it is called no more, and what is held back is no text."""
    with piped(path, 3, 3) as pipeline:
        for source in (model, pipeline):
            session, seen = source.session(), []
            session.append("Once upon a time")
            found = session.generate(20, stop=[", there was nobody"], on_token=lambda *at: seen.append(at) or len(seen) < 1)
            assert (found.text, found.finish, seen[0][1], len(seen)) == ("", "callback", "", 1)


def test_streams_for_asyncio(model, path):
    async def read(session):
        session.append("Once upon a time")
        return [piece async for piece in session.astream(12)]

    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        pieces = asyncio.run(read(session))
        assert "".join(pieces) == model.generate(["Once upon a time"], 12)[0].text and len(pieces) > 5


def test_a_stream_has_the_session_until_it_ends(path):
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        session.append("The cat")
        stream = session.stream()
        next(stream)
        with pytest.raises(qinfer.StateError, match="stream"):
            session.draw()
        stream.close()
        assert session.draw() >= 0
