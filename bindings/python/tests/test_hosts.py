"""What a host may do with threads, closed handles and wrong arguments, and how the interpreter may end."""

import asyncio
import math
import pickle
import signal
import subprocess
import sys
import threading
import time

import pytest

import qinfer
from qinfer import _apart


@pytest.fixture
def prompted(model):
    """Makes sessions that never draw an end token."""

    def make():
        session = qinfer.Session(model, max_tokens=250)
        session.append("Once upon a time")
        session.set_bias({token: -math.inf for token in model.end_tokens})
        return session

    return make


def test_text_held_back_has_no_token(prompted, chat_model):
    session, told = prompted(), []
    made = session.generate(3, stop=[" was zzzz"], on_token=lambda token, text: told.append((token, text)))
    assert [token for token, _ in told] == [*session.tokens[-3:], -1]
    assert "".join(text for _, text in told) == made.text
    chat = qinfer.Chat(chat_model)
    chat.send("Hello!")
    half = next(token for token in range(chat_model.info["n_vocab"]) if chat_model.token(token).bytes == b"\xc3")
    chat.session.set_bias({half: 1e6})
    assert chat.send("Again!", max_tokens=1) == "\ufffd"


def test_a_session_is_for_one_thread(prompted):
    session = prompted()
    stream = session.stream()
    next(stream)
    for use in (session.fork, lambda: session.tokens, lambda: session.logits(), lambda: session.generate(1)):
        with pytest.raises(qinfer.StateError):
            use()
    stream.close()
    assert session.generate(2).new_tokens == 2

    def inside(_):
        with pytest.raises(qinfer.StateError):
            list(session.stream(3))
        return False

    assert session.generate(5, on_text=inside).finish == "callback"


def test_a_model_may_be_closed_while_threads_use_it(root, cases):
    model = qinfer.Model(root / cases["model"])

    def use():
        try:
            for _ in range(50):
                model.tokenize("a b c " * 2000)
        except ValueError:
            pass  # closed

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join()
    with pytest.raises(ValueError, match="closed"):
        model.tokenize("a")


def test_what_a_call_or_an_array_refers_to_is_not_freed(model, prompted):
    session = prompted()
    with qinfer.Cancel() as cancel:
        stream = session.stream(40, cancel=cancel)
        first = next(stream)
    assert (first + "".join(stream)).startswith(", there was a little girl named Lily.")
    logits = session.logits()
    session.close()
    assert len(logits) == model.info["n_vocab"] and all(math.isfinite(value) for value in logits)
    with pytest.raises((TypeError, ValueError)):
        logits[0] = 1.0


def test_saving_keeps_a_session(prompted, tmp_path):
    session = prompted()
    session.generate(200)
    errors = []

    def save():
        for _ in range(20):
            try:
                session.save(tmp_path / "saved")
            except ValueError:
                return  # closed
            except qinfer.StateError as failure:
                errors.append(failure)

    thread = threading.Thread(target=save)
    thread.start()
    session.close()
    thread.join()
    assert not errors


def test_samplers_by_the_names_of_the_header(prompted):
    def draw(**options):
        session = prompted()
        session.set_sampler(**options)
        return session.generate(20).text

    greedy, hot = draw(), {"temperature": 2.0, "seed": 1}
    assert draw(**hot, steps="edtskypmx") == draw(**hot)
    assert draw(**hot, top_k=1, typical_p=1, top_n_sigma=100) == greedy
    assert draw(**hot, top_k=1, steps="t") != greedy
    assert draw(**hot, mirostat=2, mirostat_tau=9, mirostat_eta=0.5) != greedy
    assert draw(dry_multiplier=50, dry_allowed_length=1, dry_base=2) != greedy
    draw(**hot, dynatemp_range=0.5, dynatemp_exponent=2, xtc_probability=0.5, xtc_threshold=0.2, dry_penalty_tokens=20)
    for words, wrong in {
        "steps has the byte 0x7a": {"steps": "tz"},
        "xtc_probability is 2": {"xtc_probability": 2},
        "mirostat is 1": {"mirostat": 1},
        "index 1 has 0 bytes": {"dry_breakers": [":", ""]},
    }.items():
        with pytest.raises(qinfer.QinferError, match=words):
            draw(**wrong)
    session = prompted()
    session.set_dry_breakers([])
    session.set_dry_breakers([":", "a longer one"])
    with pytest.raises(TypeError):
        session.set_sampler(steps=7)


def test_integers_and_texts_are_not_cut(model, prompted):
    session = prompted()
    for wrong in (
        lambda: session.append([2**32 + 5]),
        lambda: session.truncate(2**64),
        lambda: session.generate(2**32 + 3),
        lambda: session.set_sampler(top_k=-1),
        lambda: session.set_sampler(dry_allowed_length=-1),
        lambda: session.set_sampler(steps="t" * 20),
        lambda: session.set_sampler(steps="t\0k"),
        lambda: session.set_bias({2**32 + 7: 0.0}),
        lambda: model.token(2**32 + 5),
        lambda: qinfer.Runtime(threads=2**32 + 1),
        lambda: qinfer.KvCache(model, budget_blocks=-1),
        lambda: qinfer.Model("a\0b"),
    ):
        with pytest.raises(ValueError):
            wrong()
    assert len(session) == 4


def test_what_rewind_raises_is_of_its_call(prompted):
    class Boom(Exception):
        pass

    def boom(_):
        raise Boom

    session = prompted()
    session.set_logits_hook(lambda logits: None, rewind=boom)
    session.generate(3)
    with pytest.raises(Boom):
        session.truncate(4)
    assert session.generate(2).new_tokens == 2


def test_what_a_callback_raises_leaks_no_session(model, prompted, tmp_path):
    class Raising:
        """A file whose close() raises."""

        def __init__(self, path):
            self.file = open(path, "rb")

        def size(self):
            return (tmp_path / "saved").stat().st_size

        def read_at(self, offset, n):
            self.file.seek(offset)
            return self.file.read(n)

        def close(self):
            self.file.close()
            raise KeyError

    session = prompted()
    session.evaluate()
    session.save(tmp_path / "saved")
    cache = qinfer.KvCache(model)
    for _ in range(3):
        with pytest.raises(KeyError):
            qinfer.Session.load(cache, tmp_path / "saved", files=lambda name, writing: Raising(name))
    assert cache.stats["blocks_used"] == 0


def test_errors_can_be_pickled():
    failure = qinfer.KvFullError("QINFER_E_KV_FULL", -10, "full", 3)
    copy = pickle.loads(pickle.dumps(failure))
    assert type(copy) is qinfer.KvFullError and (str(copy), copy.detail) == (str(failure), 3)


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGINT); time.sleep(5)"])
def test_the_interpreter_may_end_in_a_stream(root, cases, end):
    script = f"""
import os, signal, sys, time, qinfer
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
model = qinfer.Model({str(root / cases["model"])!r})
session = qinfer.Session(model)
session.append("Once upon a time")
session.set_bias({{token: float("-inf") for token in model.end_tokens}})
stream = session.stream()
next(stream)
{end}
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    expected = -signal.SIGINT if "SIGINT" in end else 0
    assert done.returncode == expected and "FATAL" not in done.stderr, done.stderr


def test_a_cancelled_astream_leaves_the_loop_free(prompted):
    session = prompted()
    session.set_logits_hook(lambda logits: time.sleep(1.5))

    async def read():
        async for _ in session.astream():
            pass

    async def main():
        task = asyncio.create_task(read())
        await asyncio.sleep(0.1)
        task.cancel()
        longest, last = 0.0, time.monotonic()
        while not task.done():
            await asyncio.sleep(0.01)
            longest, last = max(longest, time.monotonic() - last), time.monotonic()
        return longest

    assert asyncio.run(main()) < 1  # of the 1.5 s that the hook takes


def test_a_stream_may_be_collected_anywhere(root):
    script = f"""
import sys
sys.argv = ["", {str(root)!r}]
sys.path.insert(0, {str(root / "bindings" / "python" / "tests")!r})
import gc, ends, qinfer
session = ends.prompted()
stream = session.stream()
next(stream)
cycle = [stream]
cycle.append(cycle)
del stream, cycle
with qinfer._library.handles():
    gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_ctrl_c_ends_a_generation(root, cases):
    script = f"""
import os, signal, threading, qinfer
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
model = qinfer.Model({str(root / cases["model"])!r})
session = qinfer.Session(model)
session.append("Once upon a time")
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
while True:
    session.truncate(4)
    session.generate(200, on_text=lambda text: None)
"""
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20)
        assert done.returncode == -signal.SIGINT and "KeyboardInterrupt" in done.stderr, done.stderr
        assert "ignored" not in done.stderr, done.stderr


def test_what_a_handler_raises_while_a_thread_begins_comes_out():
    """Python's Thread.start() says then that a lock is not acquired."""

    class Thread(threading.Thread):
        def start(self):
            try:
                raise KeyboardInterrupt
            finally:
                threading.Lock().release()

    class Other(threading.Thread):
        def start(self):
            try:
                raise KeyError
            except KeyError:
                raise RuntimeError("of a handler")

    with pytest.raises(KeyboardInterrupt):
        _apart.start_thread(Thread())
    with pytest.raises(RuntimeError, match="of a handler"):
        _apart.start_thread(Other())
    with pytest.raises(RuntimeError, match="once"):
        try:
            raise ValueError
        except ValueError:
            begun = threading.Thread(target=int)
            _apart.start_thread(begun)
            _apart.start_thread(begun)


def test_logits_kept_from_a_hook_stay(model, prompted):
    session, kept = prompted(), []
    session.set_logits_hook(kept.append)
    session.generate(2)
    session.close()
    assert len(kept) == 2 and all(len(logits) == model.info["n_vocab"] for logits in kept)
    assert list(kept[0]) != list(kept[1])


def test_one_stop_text_may_be_a_text(prompted):
    assert prompted().generate(20, stop=" little girl").text == ", there was a"
