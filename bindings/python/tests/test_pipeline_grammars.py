"""Grammars and log probabilities of a pipeline, whose last stage draws."""

import contextlib
import json
import random
import threading

import pytest
from piping import KEY, SAMPLER, halves, layers_of, piped, serve

import qinfer
from qinfer.stages import Pipeline
from qinfer.stages._frames import DRAW, Connection, Frame, Kind
from qinfer.stages._grammars import Grammars

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 8}, "sure": {"type": "boolean"}},
    "required": ["name", "sure"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module", autouse=True)
def needs_grammars(model):
    try:
        qinfer.Grammar.regex(model, "a")
    except OSError:
        pytest.skip("libqinfer_grammar was not built")


# ---- Log probabilities
@pytest.mark.parametrize("stop", [(), ("there was",)])
def test_log_probabilities_are_those_of_a_session(model, path, stop):
    def told(source):
        seen = []
        session = source.session(**SAMPLER)
        session.append("Once upon a time")
        result = session.generate(
            30, stop=stop, top=4, on_token=lambda *at: seen.append(at), on_token_info=lambda info: seen.append(info)
        )
        return seen, result.text, result.finish, session.tokens

    with piped(path, 2, 2, 2) as pipeline:
        assert told(pipeline) == told(model)
        with pytest.raises(ValueError, match="top is 65"):
            pipeline.session().generate(5, top=65)


def test_infos_of_a_text_that_ends_itself(chat_path):
    """With an end token, at a limit inside of a character, and where the callback ends it."""
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    messages = [{"role": "user", "content": "What is the capital of France?"}]

    def told(source, n_tokens, n_infos):
        seen, session = [], source.session(temperature=2.0, seed=3) if n_tokens else source.session()
        session.append(source.tokenize_chat(messages))
        result = session.generate(n_tokens, on_token_info=lambda info: seen.append(info) or len(seen) < n_infos)
        return seen, result.text, result.finish, result.new_tokens

    with piped(chat_path, *halves(chat_path)) as pipeline:
        for n_tokens, n_infos in ((0, 1000), *((n, 1000) for n in range(1, 40)), (40, 3)):
            assert told(pipeline, n_tokens, n_infos) == told(model, n_tokens, n_infos)
        assert told(pipeline, 0, 1000)[2] == "end"


# ---- Grammars
@pytest.mark.parametrize("how", [{}, {"temperature": 1.5, "seeds": range(4)}])
def test_many_prompts_with_a_grammar(model, path, how):
    prompts = ["The cat", "Once upon a time", "A little girl", "Tom"]
    with piped(path, 3, 3) as pipeline:
        found = pipeline.generate(prompts, grammar=qinfer.Grammar.json_schema(pipeline.model, SCHEMA), **how)
        expected = model.generate(prompts, grammar=qinfer.Grammar.json_schema(model, SCHEMA), **how)
        assert [(one.text, one.finish) for one in found] == [(one.text, one.finish) for one in expected]
    assert all(set(json.loads(one.text)) == {"name", "sure"} for one in found)


def test_turns_with_and_without_a_grammar(chat_path):
    model = qinfer.Model(chat_path, qinfer.Runtime(threads=1))
    questions = [("What is the capital of France?", False), ("And of Italy?", True), ("Thank you.", False), ("Really?", True)]

    def asked(source):
        grammar = qinfer.Grammar.json_schema(source.model if source is not model else model, SCHEMA)
        with qinfer.Chat(source, sampler=SAMPLER) as chat:
            return [chat.send(text, max_tokens=40, grammar=grammar if guided else None) for text, guided in questions]

    with piped(chat_path, *halves(chat_path)) as pipeline:
        assert asked(pipeline) == asked(model)


def test_reasoning_is_free_of_the_grammar(thinker, thinker_path):
    """And after it a loss finds which tokens were."""

    def asked(source):
        model = source if source is thinker else source.model
        grammar, prompt = qinfer.Grammar.regex(model, "[a-c]{3}"), [{"role": "user", "content": "Hi"}]
        session, texts = source.session(**SAMPLER), []
        session.append(thinker.tokenize_chat(prompt))
        session.set_grammar(grammar)
        with qinfer.Reply(model, qinfer.ChatPrompt(prompt, generation_prompt=True)) as reply:
            texts.append(session.generate(6, reply=reply).text)
            assert reply.in_reasoning
            session.append(thinker.tokenize("</think>", special=False))
        with qinfer.Reply(model, qinfer.ChatPrompt(prompt, generation_prompt=True), reasoning=False) as reply:
            if hasattr(source, "stages"):
                source._link._connection.close()  # all is drawn again
            texts.append(session.generate(2, reply=reply).text)
        return texts, session.tokens

    n = layers_of(thinker_path)
    with piped(thinker_path, n - 1, 1, patience=5) as pipeline:
        found = asked(pipeline)
        assert found == asked(thinker)
    assert len(found[0][1]) >= 2 and set(found[0][1]) <= set("abc") and not set(found[0][0]) <= set("abc")


@pytest.mark.parametrize("most", [1, 6, 12])
@pytest.mark.parametrize("sampler", [{}, SAMPLER])
def test_reasoning_has_a_bound(thinker, thinker_path, most, sampler):
    def asked(source):
        grammar = qinfer.Grammar.json_schema(source if source is thinker else source.model, SCHEMA)
        with qinfer.Chat(source, sampler=sampler) as chat:
            replies = []
            for _ in range(2):
                parts = list(chat.stream("Hi", grammar=grammar, max_reasoning_tokens=most))
                replies.append((parts, chat.result.reasoning_tokens, chat.result.finish, chat.session.tokens))
        return replies

    with piped(thinker_path, *halves(thinker_path)) as pipeline:
        found = asked(pipeline)
        assert found == asked(thinker)
        session = pipeline.session()
        session.append([5])
        with pytest.raises(qinfer.InvalidArgumentError, match="no reply"):
            session.generate(5, max_reasoning_tokens=5)
    if not sampler:
        content = "".join(part.text for part in found[0][0] if part.kind == "content")
        assert set(json.loads(content)) == {"name", "sure"} and found[0][1] > most


def test_a_grammar_that_cannot_go_on_says_why(path, monkeypatch):
    from qinfer import _grammar

    sized = _grammar.sized
    monkeypatch.setattr(_grammar, "sized", lambda kind, **fields: sized(kind, **fields, **limits.get(kind, {})))
    limits = {_grammar._abi.qinfer_grammar_options: {"mask_work": 1}}
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        session.append("The cat")
        session.set_grammar(qinfer.Grammar.regex(pipeline.model, "(a|b)*c"))
        for draws in (session.draw, session.generate, lambda: list(session.stream())):
            with pytest.raises(qinfer.UnsupportedError, match="limit"):
                draws()
        session.set_grammar(None)
        found = session.generate(3).text
        assert found == pipeline.generate(["The cat"], 3)[0].text


def drawn(session, n, **how):
    is_whole = isinstance(session, qinfer.Session)
    for _ in range(n):
        if is_whole and session.pending:
            session.evaluate()
        yield session.sample() if is_whole else session.draw(**how)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("save_every", [0, 4])
def test_grammars_come_and_go(model, path, tmp_path, seed, save_every):
    """As in a session, with losses, truncations, other tokens, and calls that are cancelled at any moment."""
    chance = random.Random(seed)
    patterns = "([a-z ]{1,4}[,.])*", "([A-C]+ )*", "[0-9 ]*"
    whole, servers = model.session(**SAMPLER), [None, None]

    def start(at):
        servers[at] = serve(path, (range(3), range(3, 6))[at], tmp_path)

    start(0), start(1)
    head = qinfer.Model(path, weights=False)
    with Pipeline(head, lambda: [one.address for one in servers], KEY, patience=10, save_every=save_every) as pipeline:
        session = pipeline.session(**SAMPLER)
        for one in (session, whole):
            one.append("The dog")
        for _ in range(40):
            n, action = chance.randint(1, 6), chance.randrange(6)
            if action == 0:
                which = chance.choice([None, *patterns])
                for one, its in ((session, head), (whole, model)):
                    one.set_grammar(None if which is None else qinfer.Grammar.regex(its, which))
            elif action == 1:
                n_kept = max(1, len(whole) - n)
                session.truncate(n_kept), whole.truncate(n_kept)
            elif action == 2 and chance.random() < 0.4:
                at = chance.randrange(2)
                servers[at].close()
                start(at)
            elif action == 3:
                cancel = qinfer.Cancel()
                timer = threading.Timer(chance.uniform(0, 0.004), cancel.request)
                timer.start()
                with contextlib.suppress(qinfer.CancelledError):
                    for _ in drawn(session, n, cancel=cancel):
                        pass
                timer.join()
                list(drawn(whole, len(session) - len(whole)))
            elif action == 4:
                session.append([5, 6]), whole.append([5, 6])
            else:
                list(drawn(session, n)), list(drawn(whole, n))
            assert session.tokens == whole.tokens
        session.close()
    for server in servers:
        server.close()


def test_what_the_last_stage_is_told():
    grammars = Grammars()

    class Text:
        source = 1, "x", False

    first, second = Text(), Text()
    assert grammars.to_tell(0, False) is None
    grammars.set(5, first)
    assert grammars.to_tell(5, True) is None and grammars.was_drawn_without(5)
    assert grammars.to_tell(5, False) == ({"grammar": {"kind": 1, "text": "x", "any_space": False}}, [])
    for position in (5, 6):
        grammars.note_drawn(position)
    assert grammars.to_tell(7, False) is None  # it has seen them
    assert grammars.to_tell(7, True) == ({"grammar": None}, [])
    grammars.note_drawn(7)
    assert grammars.to_tell(8, False)[1] == [5, 6]
    assert grammars.was_drawn_without(7) and not grammars.was_drawn_without(6)
    grammars.set(9, second)
    grammars.stage_is_new()
    assert grammars.to_tell(6, False)[1] == [5] and grammars.to_tell(9, False)[1] == []
    grammars.truncate(6)  # the second one begins there now
    assert grammars.to_tell(6, False)[1] == [] and grammars.holding(6, False).grammar is second
    assert not grammars.was_drawn_without(5)
    grammars.set(6, second)  # anew
    assert grammars.to_tell(6, False)[1] == []
    grammars.set(6, None)
    grammars.set(6, None)
    assert grammars.to_tell(6, False) == ({"grammar": None}, [])


def test_a_grammar_that_no_frame_holds_is_refused(path):
    with piped(path, 3, 3) as pipeline, pipeline.session() as session:
        with pytest.raises(TypeError, match="Grammar"):
            session.set_grammar("a*")
        grammar = qinfer.Grammar.regex(pipeline.model, "a")
        grammar.source = 2, "\x01" * 200_000, False
        with pytest.raises(qinfer.InvalidArgumentError, match="does not fit"):
            session.set_grammar(grammar)


@pytest.mark.parametrize(
    ("json_of", "why"),
    [
        ({"grammar": 3}, "int"),
        ({"grammar": {"kind": "1", "text": "a", "any_space": False}}, "has a kind"),
        ({"grammar": {"kind": 77, "text": "a", "any_space": False}}, "kind"),
        ({"grammar": {"kind": 2, "text": "a(b", "any_space": False}}, "layers from 0"),
    ],
)
def test_a_wrong_grammar_is_an_error_of_its_session(path, json_of, why):
    with piped(path, layers_of(path)) as pipeline:
        connection = Connection.open(pipeline._stages[0], KEY)
        connection.send(Frame(Kind.ROUTE, json={"next": []}))
        connection.receive()
        for frame, answer in (
            (Frame(Kind.GRAMMAR, 1, json=json_of), why),
            (Frame(Kind.GRAMMAR, 2, json={"grammar": None}), "no session 2"),
            (Frame(Kind.STEP, 1, 0, DRAW, b"\5\0\0\0", json={"n_top": 65}), "at most 64"),
            (Frame(Kind.STEP, 1, 0, DRAW, b"\5\0\0\0", json={"n_top": "all"}), "at most 64"),
        ):
            connection.send(Frame(Kind.OPEN, 1))
            connection.send(frame)
            told = connection.receive()
            assert told.kind == Kind.ERROR and answer in told.json["message"]
            connection.send(Frame(Kind.CLOSE, 1))
        connection.close()
