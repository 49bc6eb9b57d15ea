"""Calls of a pipeline's session that are interrupted, cancelled or wrong, beside those of a session."""

import random
import signal
import sys
import threading

import pytest
from conftest import with_thoughts
from piping import KEY, SAMPLER, layers_of, piped

import qinfer
from qinfer import _apart, _library
from qinfer.stages import BrokenConnectionError, _frames, _link
from qinfer.stages._frames import DRAW, Connection, Kind

PROMPT = [{"role": "user", "content": "Hi"}]


class Interrupt(BaseException):  # as KeyboardInterrupt is one
    pass


@pytest.fixture
def interrupted():
    """Work that a signal's handler interrupts after so many seconds; whether it did."""

    def interrupt(*_):
        raise Interrupt

    def run(seconds, work):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            work()
        except Interrupt:
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False

    before = signal.signal(signal.SIGALRM, interrupt)
    yield run
    signal.signal(signal.SIGALRM, before)


def model_of(source):
    return source if isinstance(source, qinfer.Model) else source.model


def reply_to(source, **options):
    return qinfer.Reply(model_of(source), qinfer.ChatPrompt(PROMPT, generation_prompt=True), **options)


# ---- Interrupted
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of a thread that was to begin
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # one that came while a handle was freed
def test_a_reply_has_what_the_session_has(thinker, thinker_path, interrupted):
    """Whenever a signal's handler raises in a generation of it."""
    chance, n_interrupts = random.Random(5), 0
    with piped(thinker_path, layers_of(thinker_path) - 1, 1) as pipeline:
        for turn in range(25):
            with pipeline.session(**{**SAMPLER, "seed": turn}) as session, reply_to(pipeline) as reply:
                session.append(thinker.tokenize_chat(PROMPT))
                n_prompt = len(session)
                work = lambda session=session, reply=reply: session.generate(40, reply=reply)  # noqa: E731
                n_interrupts += interrupted(chance.uniform(0.002, 0.03), work)
                reply.finish()
                expected = reply_to(thinker)
                for token in session.tokens[n_prompt:]:
                    expected.push(token)
                expected.finish()
                assert reply.message == expected.message
    assert n_interrupts > 5


def test_tokens_and_grammars_change_at_once(path):
    """Whatever line a handler raises at."""

    def at_line(number, work):
        lines = 0

        def trace(frame, event, _):
            nonlocal lines
            if not frame.f_code.co_filename.endswith(("stages/_session.py", "stages/_grammars.py")):
                return None
            lines += event == "line"
            if event == "line" and lines == number:
                sys.settrace(None)
                raise Interrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            work()
            return False
        except Interrupt:
            return True
        finally:
            sys.settrace(before)

    with piped(path, 3, 3) as pipeline:
        letters, digits = (qinfer.Grammar.regex(pipeline.model, text) for text in ("[A-C]{1,9}", "[0-9]{1,9}"))
        changes = {
            "append": lambda session: session.append([5, 6]),
            "truncate": lambda session: session.truncate(3),
            "set_tokens": lambda session: session.set_tokens([5, 6, 7]),
            "set_grammar": lambda session: session.set_grammar(digits),
        }

        def state(session):
            held = [(one.position, one.grammar, list(one.positions)) for one in session._grammars._holdings]
            return session.tokens, list(session._drawn), held, session._evaluated, session._cut

        def begun():
            session = pipeline.session(**SAMPLER)
            session.append("The dog")
            session.draw()
            session.set_grammar(letters)
            session.draw(), session.draw()
            return session

        for name, change in changes.items():
            with begun() as session:
                before = state(session)
                change(session)
                after = state(session)
            number, n_before = 1, 0
            with begun() as session:
                while at_line(number, lambda change=change, session=session: change(session)):
                    found, number = state(session), number + 1
                    if found == after:
                        break
                    assert found == before, (name, number)
                    n_before += 1
            assert n_before, name


def test_runtime_errors_of_handlers_come_out(path, monkeypatch):
    """Python's own, that no thread can be made, have the work done here instead."""
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        session.append("The cat")
        started = _apart.start_thread

        def starts(error, after):
            def start(thread):
                if after:
                    started(thread)
                raise error

            monkeypatch.setattr(_apart, "start_thread", start)

        for after in (False, True):
            starts(RuntimeError("of a handler"), after)
            n = len(session)
            with pytest.raises(RuntimeError, match="of a handler"):
                session.draw()
            assert len(session) - n in ((0, 1) if after else (0,))
        starts(RuntimeError("can't start new thread"), False)
        n = len(session)
        session.draw()
        assert len(session) == n + 1
        assert _library.run_apart(lambda: 7, int) == 7


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # the stage's threads fail, too
def test_what_fails_to_begin_leaves_nothing(path, monkeypatch):
    """The stage has sixteen places."""
    with piped(path, 3, 3) as pipeline:

        def fail(_):
            raise Interrupt

        for module in (_link, _frames):
            monkeypatch.setattr(module, "start_thread", fail)
            for _ in range(20):
                with pytest.raises(Interrupt):
                    qinfer.stages.Pipeline(pipeline.model, pipeline._stages, KEY)
            monkeypatch.undo()
        with qinfer.stages.Pipeline(pipeline.model, pipeline._stages, KEY) as other:
            assert other.generate(["The cat"], 3)[0].new_tokens == 3


# ---- Cancelled
def cancel_after_sending(session):
    """A draw whose answer is still to come."""
    cancel, link = qinfer.Cancel(), session._pipeline._link
    send = link.send

    def sends(frame):
        send(frame)
        if frame.kind == Kind.STEP and frame.flags & DRAW:
            cancel.request()

    link.send = sends
    try:
        with pytest.raises(qinfer.CancelledError):
            session.draw(cancel=cancel)
    finally:
        del link.send


def test_a_grammar_begins_anew_after_a_draw_that_was_cancelled(model, path):
    with piped(path, 3, 3) as pipeline, pipeline.session() as session, model.session() as whole:
        grammar = qinfer.Grammar.regex(pipeline.model, "A1B2C3")
        session.append("The dog"), whole.append("The dog")
        session.set_grammar(grammar)
        cancel_after_sending(session)
        session.set_grammar(grammar)
        whole.set_grammar(qinfer.Grammar.regex(model, "A1B2C3"))
        assert session.generate(10).text == whole.generate(10).text == "A1B2C3"


def test_a_cancel_is_seen_before_each_token_that_ends_the_reasoning(tmp_path):
    """Of a model that has five of them."""
    path = with_thoughts("tiny-stories", tmp_path)
    model = qinfer.Model(path, qinfer.Runtime(threads=1))

    def asked(source):
        session, seen, cancel = source.session(), [], qinfer.Cancel()
        session.append(model.tokenize_chat(PROMPT))
        n = len(session)

        def receive(token, _):
            seen.append(token)
            if len(seen) == 4:
                cancel.request()

        with reply_to(source) as reply:
            with pytest.raises(qinfer.CancelledError):
                session.generate(12, reply=reply, on_token=receive, max_reasoning_tokens=2, cancel=cancel)
            first = session.tokens[n:], reply.in_reasoning
            session.generate(5, reply=reply, max_reasoning_tokens=2)  # the others follow
            return first, session.tokens[n:], reply.in_reasoning

    with piped(path, 3, 3) as pipeline:
        found = asked(pipeline)
        assert found == asked(model)
    assert len(found[0][0]) == 4 and found[0][1] and not found[2]


def test_text_that_was_held_back_is_told_where_a_generation_fails(model, path):
    def asked(source):
        session, seen, cancel = source.session(), [], qinfer.Cancel()
        session.append("Once upon a time")

        def receive(token, text):
            seen.append((token, text))
            if len(seen) == 2:
                cancel.request()

        with pytest.raises(qinfer.CancelledError):
            session.generate(20, stop=[", there was nobody"], on_token=receive, cancel=cancel)
        return seen

    with piped(path, 3, 3) as pipeline:
        found = asked(pipeline)
        assert found == asked(model)
    assert found[-1][0] == -1 and found[-1][1]


# ---- Wrong
def test_characters_may_go_on_in_the_next_generation_of_a_reply(thinker, thinker_path):
    def asked(source):
        session, texts = source.session(), []
        session.append(thinker.tokenize_chat(PROMPT))
        session.set_grammar(qinfer.Grammar.regex(model_of(source), "(日|本)+"))
        with reply_to(source, reasoning=False) as reply:
            for _ in range(7):
                result = session.generate(1, reply=reply)
                texts.append((result.text, reply.take()))
        return texts

    with piped(thinker_path, layers_of(thinker_path) - 1, 1) as pipeline:
        found = asked(pipeline)
        assert found == asked(thinker)
    assert len({text for text, _ in found}) > 1


def test_wrong_calls_are_errors_as_of_a_session(thinker, thinker_path):
    def failures(source):
        session, other = source.session(), qinfer.Model(thinker_path, weights=False)
        session.append(thinker.tokenize_chat(PROMPT))
        finished = reply_to(source)
        finished.finish()
        own = reply_to(source)

        def within(call):
            return lambda: session.generate(2, on_token=lambda *_: call())

        out, n = [], len(session)
        for call in (
            lambda: session.generate(3.0),
            lambda: session.generate(2, top=2.0, on_token_info=print),
            lambda: session.generate(2, top=65, on_token_info=print),
            lambda: session.generate(2, stop=[""]),
            lambda: session.generate(2, stop=["a" * 5000]),
            lambda: session.generate(2, stop=["a"] * 257),
            lambda: session.generate(2, reply=3),
            lambda: session.generate(2, reply=finished),
            lambda: session.generate(2, reply=reply_to(other)),
            lambda: session.generate(2, max_reasoning_tokens=2),
        ):
            with pytest.raises(Exception) as failure:  # noqa: PT011
                call()
            out.append(type(failure.value))
            assert len(session) == n
        for call in (
            lambda: session.append([5]),
            lambda: session.truncate(0),
            lambda: session.close(),
            lambda: session.generate(1),
        ):
            with pytest.raises(Exception) as failure:  # noqa: PT011
                within(call)()
            out.append(type(failure.value))
        assert session.generate(2, reply=own).new_tokens == 2  # it goes on
        return out

    with piped(thinker_path, layers_of(thinker_path) - 1, 1) as pipeline:
        assert failures(pipeline) == failures(thinker)


def test_models_without_a_tokenizer_generate(root):
    path = root / "tests" / "fixtures" / "models" / "gemma3-f32"
    with piped(path, layers_of(path) - 1, 1) as pipeline:
        for source in (qinfer.Model(path, qinfer.Runtime(threads=1)), pipeline):
            seen, session = [], source.session(**SAMPLER)
            session.append([5, 6, 7])
            result = session.generate(9, on_token=lambda *at, seen=seen: seen.append(at))
            assert (result.text, result.new_tokens, len(seen)) == ("", 9, 9)
            tokens = session.tokens if source is not pipeline else tokens  # noqa: F821
        assert session.tokens == tokens
        with pytest.raises(qinfer.NotFoundError):
            session.generate(2, stop=["a"])


@pytest.mark.parametrize("told", [{"status": "x"}, {"status": float("inf")}, {"logprob": "x"}, {"top": 3}, {"tokens": b"\xff\xff\xff\x7f"}])
def test_an_answer_that_cannot_be_read_ends_the_connection(model, path, monkeypatch, told):
    send, bad = Connection.send, [told]

    def sends(self, frame):
        if frame.kind == Kind.DRAWN and bad:
            told = dict(bad.pop())
            if "status" in told:
                frame.kind = Kind.ERROR
            if "tokens" in told:
                frame.tokens = told.pop("tokens")
            frame.json = told
        send(self, frame)

    monkeypatch.setattr(Connection, "send", sends)
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        session.append("The cat")
        with pytest.raises(BrokenConnectionError, match="read"):
            session.draw()
    bad.append(told)
    with piped(path, 3, 3, patience=5) as pipeline, pipeline.session() as session:
        session.append("The cat")
        assert session.generate(5).text == model.generate(["The cat"], 5)[0].text
    assert not bad and threading.active_count() < 50
