"""What a host does wrong, or leaves half done: values of other types, copies, signals, streams and turns that end early."""

import copy
import multiprocessing
import os
import pickle
import signal
import threading
import time

import pytest

import qinfer

QUESTION = "What is the capital of France?"
ANSWER = "The capital of France is Paris."


class Stop(Exception):
    pass


def stop(*_):
    raise Stop


def seconds(n):
    """Turns of a loop for that long."""
    end = time.monotonic() + n
    while time.monotonic() < end:
        yield


def wrong_calls(model):
    """Calls that give something else where a handle belongs, with the class that is wanted."""
    session, prompt = qinfer.Session(model), qinfer.ChatPrompt([])
    for other in (5, object(), model.info, "text", qinfer.Cancel()):
        yield "Model", lambda other=other: qinfer.Detokenizer(other)
        yield "Model", lambda other=other: qinfer.Reply(other, prompt)
        yield "ChatPrompt", lambda other=other: qinfer.Reply(model, other)
        yield "Model", lambda other=other: qinfer.Grammar.regex(other, "a")
        yield "Grammar", lambda other=other: session.set_grammar(other)
        yield "Session", lambda other=other: qinfer.evaluate([session, other])
        yield "KvCache", lambda other=other: qinfer.Session.load(other, "a name")
        if other != "text":
            yield "Model", lambda other=other: qinfer.KvCache(other)
            yield "Model", lambda other=other: qinfer.Session(other)
            yield "Model", lambda other=other: qinfer.Chat(other)
            yield "Model", lambda other=other: qinfer.Client(other)
            yield "path", lambda other=other: qinfer.Model(other)
            yield "path", lambda other=other: qinfer.plan(other)
            yield "str", lambda other=other: model.tokenize(other)
            yield "str", lambda other=other: model.find_token(other)
    for other in (5, "text", session, model):
        yield "Runtime", lambda other=other: qinfer.Model("a name", other)
        yield "Cancel", lambda other=other: qinfer.Model("a name", cancel=other)
        yield "Cancel", lambda other=other: session.evaluate(cancel=other)
        yield "Cancel", lambda other=other: session.generate(1, cancel=other)
        yield "Cancel", lambda other=other: qinfer.ChatPrompt([], cancel=other)
        yield "Callable", lambda other=other: qinfer.Runtime(log=other)
        yield "Callable", lambda other=other: session.set_logits_hook(other)


def test_what_is_no_handle_is_a_type_error(model):
    for wanted, call in wrong_calls(model):
        with pytest.raises(TypeError, match=f"a {wanted} is expected"):
            call()


def test_a_path_stands_for_its_model(root, cases):
    path = root / cases["chat_model"]
    assert qinfer.Chat(path).send(QUESTION) == ANSWER
    assert qinfer.Chat(str(path)).send(QUESTION) == ANSWER
    assert qinfer.Session(path).model.info["n_vocab"] == qinfer.KvCache(str(path)).model.info["n_vocab"]
    assert qinfer.Client(path).model.info["n_vocab"] > 0


def test_handles_are_not_copied(model):
    session = qinfer.Session(model)
    for one, hint in ((session, "fork"), (model, "path"), (qinfer.Cancel(), "make another")):
        for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot be copied or pickled: .*{hint}"):
                attempt(one)
    spawn = multiprocessing.get_context("spawn")
    with pytest.raises(TypeError, match="loads it from its path"):
        spawn.Process(target=print, args=(model,)).start()
    session.append([1])
    session.evaluate()


def test_a_size_that_fits_is_an_error(model):
    """And not tried again with more room."""

    def complains(*arguments):
        arguments[-2]._obj.value = 1
        return qinfer._abi.QINFER_E_BUFFER_TOO_SMALL

    for read in (qinfer._library.read_text, qinfer._library.read_tokens):
        with pytest.raises(qinfer.BufferTooSmallError):
            read(complains)


def test_render_chat_is_what_is_tokenized(chat_model):
    messages = [{"role": "user", "content": QUESTION}]
    text = chat_model.render_chat(messages)
    assert QUESTION in text
    assert chat_model.tokenize(text, special=False, parse_special=True) == chat_model.tokenize_chat(messages)


@pytest.fixture
def slow_session(root, cases):
    """With a prompt that takes seconds."""
    model = qinfer.Model(root / cases["chat_model"], qinfer.Runtime(threads=1, cpu_target="reference"))
    session = qinfer.Session(model)
    session.append([5 + i % 50 for i in range(model.info["context_tokens"] - 4)])
    return session


@pytest.fixture
def after_a_moment():
    """Sends this process a signal soon."""
    timers, usual = [], {}

    def send(number, handler, seconds=0.1):
        usual.setdefault(number, signal.signal(number, handler))
        timers.append(threading.Timer(seconds, os.kill, (os.getpid(), number)))
        timers[-1].start()

    yield send
    for timer in timers:
        timer.join()
    for number, handler in usual.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("call", ["evaluate", "generate"])
@pytest.mark.parametrize(
    ("number", "handler", "raised"),
    [(signal.SIGINT, signal.default_int_handler, KeyboardInterrupt), (signal.SIGUSR1, stop, Stop)],
)
def test_signals_end_a_prompt(slow_session, after_a_moment, call, number, handler, raised):
    after_a_moment(number, handler)
    try:
        getattr(slow_session, call)()
        pytest.fail("it was not ended")
    except raised:
        assert slow_session.pending > 0
        slow_session.truncate(3)
        slow_session.evaluate()
        assert slow_session.generate(2).new_tokens == 2


def test_a_signal_whose_handler_returns_ends_nothing(slow_session, after_a_moment):
    seen = []
    slow_session.truncate(400)
    after_a_moment(signal.SIGUSR1, lambda *_: seen.append(slow_session.native))
    slow_session.evaluate()
    assert seen and slow_session.pending == 0


def test_a_generation_counts_the_prompt_that_signals_could_end(slow_session):
    result = slow_session.generate(2)
    n = slow_session.model.info["context_tokens"] - 4
    assert (result.prompt_tokens, result.cached_tokens, result.new_tokens) == (n, 0, 2)
    assert result.prefill_ns > result.decode_ns


@pytest.mark.parametrize("progress", [None, lambda *_: None])
def test_signals_end_loading(root, cases, after_a_moment, progress):
    path = root / cases["chat_model"]
    with pytest.raises(Stop):
        for _ in range(3):  # Python loses what a handler raises inside of a __del__
            after_a_moment(signal.SIGUSR1, stop)
            for _ in seconds(5):
                qinfer.Model(path, progress=progress).close()


def test_a_stream_that_an_exception_left_is_ended_by_the_next_call(chat_model):
    session = qinfer.Session(chat_model)
    session.append(chat_model.tokenize_chat([{"role": "user", "content": QUESTION}]))
    try:
        for _ in session.stream():
            raise Stop
    except Stop:
        session.truncate(1)
        session.evaluate()
        # One that is made in here is read in here.
        running, go_on = threading.Event(), threading.Event()

        def wait(_):
            running.set()
            go_on.wait()

        session.set_logits_hook(wait)
        stream = session.stream()
        running.wait()
        with pytest.raises(qinfer.StateError):
            session.truncate(1)
        go_on.set()
        stream.close()


@pytest.mark.parametrize("close", [False, True])
def test_two_signals_leave_no_session_in_use(chat_model, after_a_moment, close):
    """The second one comes while the end of the stream is waited for."""
    session = qinfer.Session(chat_model)
    session.append(chat_model.tokenize_chat([{"role": "user", "content": QUESTION}]))
    running = threading.Event()
    session.set_logits_hook(lambda _: running.set() or time.sleep(0.5))
    stream = session.stream()
    running.wait()
    after_a_moment(signal.SIGUSR1, stop)
    after_a_moment(signal.SIGUSR2, stop, 0.2)
    with pytest.raises(Stop):
        stream.close() if close else list(stream)
    session.set_logits_hook(None)
    session.truncate(3)
    assert session.generate(2).new_tokens == 2


def roles(chat):
    return [message["role"] for message in chat.messages]


def test_a_turn_that_fails_takes_its_message_back(chat_model):
    chat = qinfer.Chat(chat_model)
    with pytest.raises(TypeError):
        chat.send(5j)
    with pytest.raises(qinfer.QinferError):
        chat.send(QUESTION * 1000)
    cancel = qinfer.Cancel()
    cancel.request()
    with pytest.raises(qinfer.CancelledError):
        chat.send(QUESTION, cancel=cancel)
    assert chat.messages == []
    assert chat.send(QUESTION) == ANSWER
    assert roles(chat) == ["user", "assistant"]


def test_a_turn_that_is_left_keeps_the_reply_so_far(chat_model):
    chat = qinfer.Chat(chat_model)
    for part in chat.stream(QUESTION):
        first = part.text
        break
    assert roles(chat) == ["user", "assistant"] and chat.messages[1]["content"].startswith(first)
    # The same where an exception keeps the generator.
    try:
        for _ in chat.stream(QUESTION):
            raise Stop
    except Stop:
        assert chat.send(QUESTION) == ANSWER
    assert roles(chat) == ["user", "assistant"] * 3


@pytest.mark.parametrize("size", [2**80, -1, "many"])
def test_sizes_of_files_that_cannot_be_are_errors(size):
    class Odd:
        def size(self):
            return size

        def close(self):
            pass

    with pytest.raises((ValueError, TypeError)):
        qinfer.Model("a name", files=lambda *_: Odd())


def test_a_handler_may_not_use_a_session_that_is_evaluated_apart(slow_session, after_a_moment):
    met = []

    def use(*_):
        for call in (lambda: slow_session.tokens, slow_session.fork, lambda: slow_session.truncate(1)):
            try:
                call()
            except qinfer.StateError as failure:
                met.append(failure)

    slow_session.truncate(400)
    after_a_moment(signal.SIGUSR1, use)
    slow_session.evaluate()
    assert len(met) == 3
    assert slow_session.pending == 0 and len(slow_session.tokens) == 400


def test_a_request_passes_over_a_call_that_is_ending(model):
    cancel = qinfer.Cancel()
    ended, other = qinfer.Cancel.of_call(cancel), qinfer.Cancel.of_call(cancel)
    ended.close()
    cancel.request()
    session = qinfer.Session(model)
    session.append([1])
    with pytest.raises(qinfer.CancelledError):
        session.evaluate(cancel=other)


def test_a_signal_leaves_the_callers_cancel_alone(slow_session, after_a_moment):
    cancel = qinfer.Cancel()
    after_a_moment(signal.SIGUSR1, stop)
    with pytest.raises(Stop):
        slow_session.evaluate(cancel=cancel)
    slow_session.truncate(3)
    slow_session.evaluate(cancel=cancel)
    cancel.request()
    with pytest.raises(qinfer.CancelledError):
        slow_session.generate(1, cancel=cancel)
    cancel.reset()
    assert slow_session.generate(1, cancel=cancel).new_tokens == 1


def test_a_handler_that_is_changed_in_a_callback_stays(chat_model):
    usual = signal.getsignal(signal.SIGUSR2)
    session = qinfer.Session(chat_model)
    session.append(chat_model.tokenize_chat([{"role": "user", "content": QUESTION}]))
    signal.signal(signal.SIGUSR2, stop)
    try:
        session.generate(3, on_token=lambda *_: bool(signal.signal(signal.SIGUSR2, signal.SIG_IGN)) or True)
        assert signal.getsignal(signal.SIGUSR2) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGUSR2, usual)


def test_a_signal_during_short_calls_comes_out_as_it_is(chat_model, after_a_moment):
    after_a_moment(signal.SIGUSR1, stop)
    with pytest.raises(Stop):
        for _ in seconds(20):
            chat_model.detokenize(range(5, 100))
