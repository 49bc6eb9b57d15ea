"""What a pipeline of stages shares with a model: sessions, conversations, many prompts; and what happens to it where a stage
is silent, or has no room to save."""

import asyncio
import contextlib
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest

import qinfer
from qinfer.stages import BrokenConnectionError, Pipeline, StageError, StageServer, _frames
from qinfer.stages._chain import Chain
from qinfer.stages._text import Stops

KEY = b"sixteen bytes or more"
SAMPLER = {"temperature": 0.9, "seed": 4, "repeat_penalty": 1.2}


@pytest.fixture(scope="module")
def path(root, cases):
    return root / cases["model"]


@pytest.fixture(scope="module")
def chat_path(root):
    return root / "examples" / "models" / "tiny-chat"


@contextlib.contextmanager
def piped(path, *cut, folders=None, blocks=64, **how):
    """A pipeline of so many layers in each stage, in this process."""
    servers, first = [], 0
    for at, n in enumerate(cut):
        model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(first, first + n))
        cache = qinfer.KvCache(model, budget_blocks=blocks)
        servers.append(StageServer(cache, KEY, snapshots=folders[at] if folders else None))
        threading.Thread(target=servers[-1].serve, daemon=True).start()
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
            with pytest.raises(qinfer.UnsupportedError, match="max_reasoning_tokens"):
                chat.send("Hello", max_reasoning_tokens=5)
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


def alone(model, seed, n_tokens):
    with qinfer.Session(model) as session:
        session.set_sampler(**{**SAMPLER, "seed": seed})
        session.append("The dog")
        session.generate(n_tokens)
        return session.tokens


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


# ---- Losses
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("sampler", [SAMPLER, {"temperature": 0.9, "seed": 4, "mirostat": 2}])
def test_a_session_goes_on_from_what_was_saved(model, path, tmp_path, monkeypatch, lost, sampler):
    """And not from its beginning; where one stage has lost a file, from the one before."""
    whole = qinfer.Session(model)
    whole.set_sampler(**sampler)
    whole.append("The cat")
    whole.generate(60)
    evaluated, stepped = [], Chain._evaluated

    def counted(self, steps):
        evaluated.append(sum(len(frame.tokens) for frame, _ in steps))
        return stepped(self, steps)

    monkeypatch.setattr(Chain, "_evaluated", counted)
    servers = [None, None]

    def start(at):
        part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=(range(3), range(3, 6))[at])
        servers[at] = StageServer(qinfer.KvCache(part, budget_blocks=64), KEY, snapshots=tmp_path)
        threading.Thread(target=servers[at].serve, daemon=True).start()

    start(0), start(1)
    head = qinfer.Model(path, weights=False)
    with Pipeline(head, lambda: [one.address for one in servers], KEY, patience=10, save_every=8) as pipeline:
        session = pipeline.session(**sampler)
        session.append("The cat")
        session.generate(20)
        saved = list(session._saved)
        assert len(saved) == 2
        for n_drawn, kept in ((40, saved[1]), (60, None)):
            if kept is None:  # the newest file of one stage is gone
                saved = list(session._saved)
                newest, kept = max(tmp_path.glob(f"*-{3 * lost}-*.session"), key=lambda p: int(p.stem.rpartition("-")[2])), saved[0]
                newest.unlink()
            servers[lost].close()
            start(lost)
            evaluated.clear()
            before = len(session)
            session.generate(n_drawn - (before - len(head.tokenize("The cat"))))
            assert session.tokens == whole.tokens[: len(session)]
            assert sum(evaluated) <= 2 * (len(session) - kept)
        session.close()
    for server in servers:
        server.close()
    assert session.tokens == whole.tokens


def test_waiting_for_a_lost_stage_can_be_cancelled(path):
    servers = []

    def addresses():
        return [server.address for server in servers]

    part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    servers.append(StageServer(qinfer.KvCache(part, budget_blocks=8), KEY))
    threading.Thread(target=servers[0].serve, daemon=True).start()
    with Pipeline(qinfer.Model(path, weights=False), addresses, KEY, patience=60) as pipeline:
        session = pipeline.session()
        session.append("The cat")
        session.draw()
        servers[0].close()
        cancel = qinfer.Cancel()
        threading.Timer(0.3, cancel.request).start()
        begun = time.monotonic()
        with pytest.raises(qinfer.CancelledError):
            session.generate(cancel=cancel)
        assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    "frames",
    [
        [_frames.Frame(_frames.Kind.TRUNCATE, 1, 2, json={"evaluated": -5})],
        [_frames.Frame(_frames.Kind.OPEN, 2, json={"max_tokens": float("inf")})],
        [_frames.Frame(_frames.Kind.STEP, 1, 1 << 30, _frames.DRAW)],
        [_frames.Frame(_frames.Kind.TRUNCATE, 7, 2), _frames.Frame(_frames.Kind.SAVE, 7, 2)],
    ],
)
def test_whatever_comes_ends_its_session_alone(path, frames):
    """From somebody who has the key."""
    part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    server = StageServer(qinfer.KvCache(part, budget_blocks=8), KEY)
    threading.Thread(target=server.serve, daemon=True).start()
    connection = _frames.Connection.open(server.address, KEY)
    connection.send(_frames.Frame(_frames.Kind.ROUTE, json={"next": []}))
    connection.receive()
    connection.send(_frames.Frame(_frames.Kind.OPEN, 1))
    for frame in frames:
        connection.send(frame)
        answer = connection.receive()
        assert (answer.kind, answer.session) == (_frames.Kind.ERROR, frame.session)
    connection.send(_frames.Frame(_frames.Kind.OPEN, 3))
    connection.send(_frames.Frame(_frames.Kind.STEP, 3, 0, _frames.DRAW, b"\5\0\0\0"))
    assert connection.receive().kind == _frames.Kind.DRAWN
    connection.close()
    server.close()


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

    class Interrupt(Exception):
        pass

    def interrupt(*_):
        raise Interrupt

    expected = alone(model, 4, 200)
    before = signal.signal(signal.SIGALRM, interrupt)
    n_interrupts = 0
    try:
        with piped(path, 3, 3) as pipeline, pipeline.session(**SAMPLER) as session:
            session.append("The dog")
            while len(session) < len(expected):
                signal.setitimer(signal.ITIMER_REAL, 0.001 + 0.0137 * n_interrupts % 0.02)
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


def test_a_stream_has_the_session_until_it_ends(path):
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        session.append("The cat")
        stream = session.stream()
        next(stream)
        with pytest.raises(qinfer.StateError, match="stream"):
            session.draw()
        stream.close()
        assert session.draw() >= 0


# ---- Silence
def test_a_stage_that_is_silent_is_given_up(path, tmp_path, monkeypatch):
    """A process that is stopped closes no connection, as little as a machine without power."""
    (tmp_path / "key").write_bytes(KEY)
    quick = "import runpy, qinfer.stages._frames as f; f.BEAT_S = 0.1; runpy.run_module('qinfer.stages', run_name='__main__')"
    command = [sys.executable, "-c", quick, path, "--layers", "0:6", "--key-file", tmp_path / "key", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        host, port = process.stdout.readline().split()[-1].rsplit(":", 1)
        monkeypatch.setattr(_frames, "SILENCE_S", 1.5)
        with Pipeline(qinfer.Model(path, weights=False), [(host, int(port))], KEY) as pipeline:
            session = pipeline.session()
            session.append("The cat")
            session.draw()
            time.sleep(2.5)  # it says that it is there
            session.draw()
            process.send_signal(signal.SIGSTOP)
            while pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)
            begun = time.monotonic()
            with pytest.raises(BrokenConnectionError, match="silent"):
                session.draw()
            assert 1 < time.monotonic() - begun < 10
    finally:
        process.kill()
        process.wait()


def test_a_head_that_is_silent_is_given_up(path, monkeypatch):
    monkeypatch.setattr(_frames, "SILENCE_S", 0.5)
    model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    server = StageServer(qinfer.KvCache(model, budget_blocks=8), KEY)
    threading.Thread(target=server.serve, daemon=True).start()
    own = socket.create_connection(server.address)
    head = _frames.Connection(own, KEY, is_server=False)
    head._closed.set()  # it says nothing, and waits for longer
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 9, 0))
    with pytest.raises(BrokenConnectionError, match="left"):
        head.receive()
    server.close()


# ---- Networks
@contextlib.contextmanager
def relay(address, change):
    """Where it listens: what comes goes on to the address as change(bytes) has it, a list of pieces."""
    listener, open_ones = socket.create_server(("127.0.0.1", 0)), []

    def passed(source, target, pieces_of):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                for piece in pieces_of(data):
                    target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accepted():
        with contextlib.suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.create_connection(address)
                open_ones.extend((near, far))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((near, far, change), (far, near, lambda data: [data])):
                    threading.Thread(target=passed, args=ends, daemon=True).start()

    threading.Thread(target=accepted, daemon=True).start()
    yield listener.getsockname()
    for one in (listener, *open_ones):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.parametrize("damaged", [None, 3, 4000, 20_000, 50_000])
def test_bytes_that_come_in_pieces_or_damaged(model, path, damaged):
    """In pieces of some bytes, and with one bit of them turned over, which may be the connection's beginning, a header or
    hidden states: the same tokens."""
    expected = qinfer.Session(model)
    expected.set_sampler(**SAMPLER)
    expected.append("The cat")
    expected.generate(120)
    seen, damages = 0, []

    def change(data):
        nonlocal seen
        if damaged is not None and not damages and seen <= damaged < seen + len(data):
            damages.append(damaged)
            data = bytearray(data)
            data[damaged - seen] ^= 16
        seen += len(data)
        return [data[at : at + 191] for at in range(0, len(data), 191)]

    servers = []
    for layers in (range(3), range(3, 6)):
        part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=layers)
        servers.append(StageServer(qinfer.KvCache(part, budget_blocks=64), KEY))
        threading.Thread(target=servers[-1].serve, daemon=True).start()
    with relay(servers[1].address, change) as second:
        head, addresses = qinfer.Model(path, weights=False), [servers[0].address, second]
        if damaged == 3:  # before there is a pipeline
            with pytest.raises(BrokenConnectionError):
                Pipeline(head, addresses, KEY)
        with Pipeline(head, addresses, KEY, patience=10) as pipeline, pipeline.session(**SAMPLER) as session:
            session.append("The cat")
            session.generate(120)
            assert session.tokens == expected.tokens
    assert damages == ([] if damaged is None else [damaged])
    for server in servers:
        server.close()


# ---- No room to save
def test_a_session_goes_on_where_it_cannot_be_saved(model, path, tmp_path, monkeypatch):
    whole = qinfer.Session(model)
    whole.set_sampler(**SAMPLER)
    whole.append("The cat")
    whole.generate(40)
    folders = tmp_path / "0", tmp_path / "1"
    tried = []

    def fails(_, to):
        tried.append(to)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(qinfer.Session, "save", fails)
    with piped(path, 3, 3, folders=folders, patience=10, save_every=8) as pipeline, pipeline.session(**SAMPLER) as session:
        session.append("The cat")
        session.generate(40)
        assert session.tokens == whole.tokens and len(tried) == 5
        assert session._saved == []
