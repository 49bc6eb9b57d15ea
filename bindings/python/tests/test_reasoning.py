"""Grammars and replies that reason: the grammar begins where the content begins."""

import json
import threading

import pytest

import qinfer

SCHEMA = {
    "type": "object",
    "properties": {"sure": {"type": "boolean"}},
    "required": ["sure"],
    "additionalProperties": False,
}


def test_a_grammar_begins_after_the_reasoning(thinker):
    chat = qinfer.Chat(thinker)
    grammar = qinfer.Grammar.json_schema(thinker, SCHEMA)
    parts = list(chat.stream("Hi", grammar=grammar, max_reasoning_tokens=6))
    content = "".join(part.text for part in parts if part.kind == "content")
    assert set(json.loads(content)) == {"sure"}
    assert any(part.kind == "reasoning" for part in parts)
    assert chat.messages[-1]["reasoning_content"] and chat.messages[-1]["content"] == content
    assert chat.result.reasoning_tokens > 6 and not chat.result.in_reasoning


def test_without_reasoning_it_holds_from_the_first_token_on(thinker):
    chat = qinfer.Chat(thinker)
    grammar = qinfer.Grammar.json_schema(thinker, SCHEMA)
    assert set(json.loads(chat.send("Hi", grammar=grammar, reasoning=False))) == {"sure"}
    assert "reasoning_content" not in chat.messages[-1] and chat.result.reasoning_tokens == 0


def test_who_runs_out_inside_of_the_reasoning_is_told(thinker):
    chat = qinfer.Chat(thinker)
    assert chat.send("Hi", grammar=qinfer.Grammar.json_schema(thinker, SCHEMA), max_tokens=3) == ""
    assert chat.result.in_reasoning and chat.result.finish == "length" and chat.result.reasoning_tokens == 3


def test_the_client_has_the_document_in_content(thinker):
    ask = qinfer.Client(thinker).chat.completions.create
    form = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    messages = [{"role": "user", "content": "Hi"}]
    answer = ask(messages=messages, response_format=form, max_reasoning_tokens=5, seed=1)
    assert set(json.loads(answer.choices[0].message.content)) == {"sure"}
    assert answer.choices[0].message.reasoning_content
    assert answer.usage.completion_tokens_details.reasoning_tokens > 5
    at_once = ask(messages=messages, response_format=form, reasoning=False, seed=1)
    assert set(json.loads(at_once.choices[0].message.content)) == {"sure"}
    assert "reasoning_content" not in at_once.choices[0].message


def test_a_reply_is_for_the_thread_that_generates_it(thinker):
    prompt = [{"role": "user", "content": "Hi"}]
    reply = qinfer.Reply(thinker, qinfer.ChatPrompt(prompt, generation_prompt=True))
    assert reply.in_reasoning
    session = qinfer.Session(thinker)
    session.append(thinker.tokenize_chat(prompt))
    failures, kinds = [], set()

    def other():
        try:
            reply.push(5)
        except qinfer.StateError as error:
            failures.append(error)

    def receive(token, text):
        kinds.update(part.kind for part in reply.take())
        if not failures:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()

    result = session.generate(8, reply=reply, on_token=receive, max_reasoning_tokens=3)
    assert len(failures) == 1 and kinds == {"reasoning", "content"}
    assert not reply.in_reasoning and result.new_tokens == 8
    reply.finish()
    assert reply.message["reasoning_content"]


def test_who_draws_ends_the_reasoning_with_its_tokens(thinker):
    reply = qinfer.Reply(thinker, qinfer.ChatPrompt([{"role": "user", "content": "Hi"}], generation_prompt=True))
    tokens = reply.reasoning_end
    assert thinker.detokenize(tokens) == "</think>" and reply.in_reasoning
    for token in tokens:
        reply.push(token)
    assert not reply.in_reasoning and reply.reasoning_end == tokens


def test_what_does_not_fit_is_refused(thinker):
    session = qinfer.Session(thinker)
    session.append([1, 2])
    with pytest.raises(qinfer.InvalidArgumentError, match="max_reasoning_tokens"):
        session.generate(1, max_reasoning_tokens=2)
    with pytest.raises(TypeError, match="Reply"):
        session.generate(1, reply=5)
