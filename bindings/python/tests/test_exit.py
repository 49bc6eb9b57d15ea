"""Where the interpreter ends, calls of other threads end before it, whatever they do."""

import os
import random
import subprocess
import sys
import time

import ends
import pytest

AT_ONCE = 4  # kinds of calls in one process


def run(*arguments, seconds=60, folder=None):
    """folder: where its temporary files are."""
    env = os.environ if folder is None else {**os.environ, "TMPDIR": str(folder)}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=env)


def check(done, stdout=""):
    assert (done.returncode, done.stdout, done.stderr) == (0, stdout, "")


def script(root, body):
    """One that has a session, which draws no end token."""
    return f"""
import atexit, os, sys, threading, time
at_exit = []  # after what the package does, which is imported later
atexit.register(lambda: [work() for work in at_exit])
sys.path.insert(0, {str(root / "bindings" / "python" / "tests")!r})
sys.argv = ["", {str(root)!r}]
import ends, qinfer
session = ends.prompted()
{body}
"""


@pytest.mark.parametrize("turn", range(10))
def test_the_interpreter_may_end_in_any_call(root, turn, tmp_path):
    draw, kinds = random.Random(turn), list(ends.KINDS)
    draw.shuffle(kinds)
    for first in range(0, len(kinds), AT_ONCE):
        kinds_now = kinds[first : first + AT_ONCE]
        check(run(ends.__file__, root, draw.uniform(0.0, 0.1), *kinds_now, folder=tmp_path))


def test_calls_that_begin_later_say_so(root):
    body = """
other = ends.prompted()
other.generate(1)
ending, ended, said = threading.Event(), threading.Event(), []
def late():
    ending.wait()
    for work in (lambda: session.model.tokenize("a"), lambda: session.generate(1), session.stream, qinfer.Cancel):
        try:
            work()
            said.append("no error")
        except SystemExit as end:
            said.append(str(end))
    ended.set()
    session.model.tokenize("a")  # ends this thread without a word
threading.Thread(target=late, daemon=True).start()
threading.Thread(target=ends.again, args=(ends.generate(), threading.Event()), daemon=True).start()
time.sleep(0.05)
def ask():
    ending.set()
    ended.wait()
    assert len(said) == 4 and all("the interpreter ends" in text for text in said), said
    assert other.generate(3, on_text=str).new_tokens == 3  # of the thread that ends it
    session.save("a name", files=lambda *_: ends.MemoryFile())
    try:
        session.stream()
    except qinfer.StateError as failure:
        print(failure)
at_exit.append(ask)
"""
    check(run("-c", script(root, body)), "QINFER_E_STATE: the interpreter ends: a stream cannot begin any more\n")


@pytest.mark.parametrize("callback", ["lambda _: time.sleep(1000)", "lambda _: any(False for _ in iter(int, 1))"])
def test_a_callback_that_hangs_does_not_hold_up_the_end(root, callback):
    body = f"""
threading.Thread(target=lambda: session.generate(on_text={callback}), daemon=True).start()
time.sleep(0.2)
"""
    before = time.monotonic()
    check(run("-c", script(root, body)))
    assert time.monotonic() - before < 8


def test_signals_do_not_break_the_wait(root):
    body = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored
def interrupt():
    for _ in range(2):
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)
session.set_logits_hook(lambda _: time.sleep(0.5))
threading.Thread(target=session.generate, daemon=True).start()
time.sleep(0.1)
threading.Thread(target=interrupt, daemon=True).start()
"""
    done = run("-c", script(root, body))
    assert done.returncode == 0 and "FATAL" not in done.stderr and "KeyboardInterrupt" in done.stderr, done


def test_a_child_does_not_wait_for_threads_of_its_parent(root):
    body = """
stream = session.stream()
threading.Thread(target=ends.again, args=(ends.KINDS["on_text"](), threading.Event()), daemon=True).start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    before = time.monotonic()
    check(run("-c", script(root, body)))
    assert time.monotonic() - before < 9
