"""Anthropic's /v1/messages and /v1/messages/count_tokens."""

import json
import re
import threading

import hostile
import pytest

TOOLS = [{
    "name": "get_weather",
    "description": "Get the current weather in a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}},
                     "required": ["city"]},
}]
WEATHER = [{"role": "user", "content": "What is the weather in Oslo?"}]
CAPITAL = [{"role": "user", "content": "What is the capital of France?"}]
PATH = "/v1/messages"


def ask(server, messages, **fields):
    return server.post(PATH, **{"model": "m", "max_tokens": 60, "temperature": 0, "messages": messages, **fields})


def answer(server, messages, **fields):
    status, message = ask(server, messages, **fields)
    assert status == 200, message
    return message


def events_of(server, messages, **fields):
    body = {"model": "m", "max_tokens": 60, "temperature": 0, "messages": messages, **fields}
    return server.named_events(PATH, body)


def folded(events):
    """The message that a stream says, as clients put it together."""
    assert events[0]["type"] == "message_start" and events[1] == {"type": "ping"}
    message = events[0]["message"]
    assert message["content"] == [] and message["stop_reason"] is None and message["usage"]["output_tokens"] == 0
    assert message["usage"]["input_tokens"] > 0
    inputs = {}
    for event in events[2:-2]:
        index = event["index"]
        if event["type"] == "content_block_start":
            assert index == len(message["content"])
            message["content"].append(event["content_block"])
        elif event["type"] == "content_block_delta":
            delta = event["delta"]
            block = message["content"][index]
            if delta["type"] == "input_json_delta":
                inputs[index] = inputs.get(index, "") + delta["partial_json"]
            elif delta["type"] == "signature_delta":
                block["signature"] = delta["signature"]
            else:
                kind = {"text_delta": "text", "thinking_delta": "thinking"}[delta["type"]]
                block[kind] += delta[kind]
        else:
            assert event == {"type": "content_block_stop", "index": len(message["content"]) - 1}
            if index in inputs:
                message["content"][index]["input"] = json.loads(inputs[index])
    assert events[-2]["type"] == "message_delta" and events[-1] == {"type": "message_stop"}
    message.update(events[-2]["delta"])
    message["usage"].update(events[-2]["usage"])
    return message


def comparable(message):
    usage = dict(message["usage"])
    read = usage.pop("cache_read_input_tokens")  # depends on what was asked before
    usage["input_tokens"] += read
    content = [{**block, "id": None} if block["type"] == "tool_use" else block for block in message["content"]]
    return {**message, "id": None, "content": content, "usage": usage}


def error_of(text):
    body = json.loads(text)
    assert set(body) == {"type", "error", "request_id"} and body["type"] == "error", body
    assert set(body["error"]) == {"type", "message"} and body["error"]["message"], body
    return body["error"]


def test_a_message(chat):
    message = answer(chat, CAPITAL)
    assert re.fullmatch("msg_[0-9a-f]{24}", message.pop("id"))
    usage = message.pop("usage")
    assert message == {
        "type": "message", "role": "assistant", "model": "tiny-chat", "stop_reason": "end_turn", "stop_sequence": None,
        "content": [{"type": "text", "text": "The capital of France is Paris."}],
        "stop_details": None, "container": None,
    }
    # Each field that the specification requires is there.
    unknown = {"cache_creation", "inference_geo", "output_tokens_details", "server_tool_use", "service_tier"}
    assert {key for key in usage if usage[key] is None} == unknown
    assert set(usage) == unknown | {"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"}
    status, other = chat.post("/v1/chat/completions", messages=CAPITAL, temperature=0)
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == other["usage"]["prompt_tokens"]
    assert usage["output_tokens"] == other["usage"]["completion_tokens"]


def test_why_it_stops(chat):
    message = answer(chat, CAPITAL, max_tokens=2)
    assert message["stop_reason"] == "max_tokens" and message["usage"]["output_tokens"] == 2
    message = answer(chat, CAPITAL, stop_sequences=[" is"])
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", " is")
    assert message["content"] == [{"type": "text", "text": "The capital of France"}]
    message = answer(chat, CAPITAL, stop_sequences=["no such text"])
    assert (message["stop_reason"], message["stop_sequence"]) == ("end_turn", None)
    message = answer(chat, CAPITAL, stop_sequences=[" is", "no such text"])  # which one is not known
    assert (message["stop_reason"], message["stop_sequence"]) == ("stop_sequence", None)
    assert answer(chat, CAPITAL, stop_sequences=[])["stop_reason"] == "end_turn"


def test_a_tool_is_called_and_its_result_comes_back(chat):
    message = answer(chat, WEATHER, tools=TOOLS)
    thinking, call = message["content"]
    assert thinking == {"type": "thinking", "thinking": "I need the weather in Oslo, so I call get_weather.",
                        "signature": "unsigned"}
    assert re.fullmatch("[a-zA-Z0-9_-]+", call.pop("id"))
    assert call == {"type": "tool_use", "name": "get_weather", "input": {"city": "Oslo"}, "caller": {"type": "direct"}}
    assert message["stop_reason"] == "tool_use"
    call["id"] = "call_1"
    for content in ["sunny", [{"type": "text", "text": "sunny"}]]:
        result = {"type": "tool_result", "tool_use_id": "call_1", "content": content}
        turns = [*WEATHER, {"role": "assistant", "content": message["content"]}, {"role": "user", "content": [result]}]
        final = answer(chat, turns, tools=TOOLS)
        assert final["stop_reason"] == "end_turn"
        assert "sunny" in final["content"][-1]["text"]
        assert comparable(folded(events_of(chat, turns, tools=TOOLS))) == comparable(final)
    assert answer(chat, WEATHER, tools=TOOLS, tool_choice={"type": "none"})["stop_reason"] != "tool_use"
    once = answer(chat, WEATHER, tools=TOOLS, tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert once["stop_reason"] == "tool_use"


@pytest.mark.parametrize("fields", [
    dict(messages=CAPITAL), dict(messages=CAPITAL, max_tokens=3), dict(messages=CAPITAL, stop_sequences=[" is"]),
    dict(messages=WEATHER, tools=TOOLS), dict(messages=WEATHER, tools=TOOLS, max_tokens=8),
    dict(messages=WEATHER, tools=TOOLS, thinking={"type": "enabled", "budget_tokens": 5}),
    dict(messages=WEATHER, tools=TOOLS, thinking={"type": "adaptive", "display": "omitted"}),
    dict(messages=WEATHER, tools=TOOLS, thinking={"type": "disabled"}),
])
def test_a_stream_says_what_a_message_says(chat, fields):
    assert comparable(folded(events_of(chat, **fields))) == comparable(answer(chat, **fields))


def test_thinking(chat):
    def blocks(**thinking):
        return answer(chat, WEATHER, tools=TOOLS, thinking=thinking)["content"]

    assert [block["type"] for block in blocks(type="adaptive")] == ["thinking", "tool_use"]
    assert "thinking" not in [block["type"] for block in blocks(type="disabled")]
    assert blocks(type="adaptive", display="omitted")[0]["thinking"] == ""
    short = blocks(type="enabled", budget_tokens=4)[0]
    assert short["type"] == "thinking" and len(short["thinking"]) < len(blocks(type="adaptive")[0]["thinking"])


def test_what_a_prompt_is_made_of(chat):
    """Requests of both interfaces that mean the same have prompts of as many tokens."""
    call = {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Oslo", "at": [1, {"b": 2}]}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "sunny", "is_error": False}
    function = {"name": "get_weather", "arguments": '{"city": "Oslo", "at": [1, {"b": 2}]}'}
    calls = [{"id": "a", "type": "function", "function": function}]
    tool = {"type": "function", "function": {"name": "get_weather", "description": TOOLS[0]["description"],
                                             "parameters": TOOLS[0]["input_schema"]}}
    thinking = {"type": "thinking", "thinking": "I call it.", "signature": "s"}
    redacted = {"type": "redacted_thinking", "data": "x"}
    text = {"type": "text", "text": "Wait.", "cache_control": {"type": "ephemeral"}}
    user = {"role": "user", "content": "Hello!"}
    for messages, system, tools, chat_messages in [
        ([user], None, None, [user]),
        ([user], "Be brief.", None, [{"role": "system", "content": "Be brief."}, user]),
        ([user], [{"type": "text", "text": "x-anthropic-billing-header: cc=5"}, {"type": "text", "text": "Be"},
                  {"type": "text", "text": "brief."}], None, [{"role": "system", "content": "Be\nbrief."}, user]),
        ([{"role": "user", "content": [text, text]}], None, None, [{"role": "user", "content": "Wait.Wait."}]),
        ([user, user], None, None, [{"role": "user", "content": "Hello!Hello!"}]),
        ([user, {"role": "assistant", "content": "Hello."}, user], None, None,
         [user, {"role": "assistant", "content": "Hello."}, user]),
        ([user, {"role": "assistant", "content": [redacted, thinking, text, call]},
          {"role": "user", "content": [result, text]}], None, TOOLS,
         [user, {"role": "assistant", "content": "Wait.", "reasoning_content": "I call it.", "tool_calls": calls},
          {"role": "tool", "tool_call_id": "a", "content": "sunny"}, {"role": "user", "content": "Wait."}]),
        ([user, {"role": "assistant", "content": [call]}, {"role": "user", "content": [{**result, "is_error": True}]}],
         None, TOOLS, [user, {"role": "assistant", "content": None, "tool_calls": calls},
                       {"role": "tool", "tool_call_id": "a", "content": "Error: sunny"}]),
    ]:
        body = {"model": "m", "messages": messages}
        body.update({"system": system} if system else {}, **({"tools": tools} if tools else {}))
        status, counted = chat.post(PATH + "/count_tokens", **body)
        assert status == 200 and set(counted) == {"input_tokens"}, counted
        more = {"tools": [tool]} if tools else {}
        status, completion = chat.post("/v1/chat/completions", messages=chat_messages, max_tokens=1, **more)
        assert status == 200, completion
        assert counted["input_tokens"] == completion["usage"]["prompt_tokens"], messages


def test_counting_evaluates_nothing_and_has_no_bound_but_the_body(chat):
    before = chat.metric("qinfer_requests_total")
    long = [{"role": "user", "content": "word " * 3000}]
    status, counted = chat.post(PATH + "/count_tokens", model="m", messages=long)
    assert status == 200 and counted["input_tokens"] > 1024
    ends_with_assistant = [*CAPITAL, {"role": "assistant", "content": "It"}]
    assert chat.post(PATH + "/count_tokens", model="m", messages=ends_with_assistant)[0] == 200
    assert chat.metric("qinfer_requests_total") == before


@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_weather"}])
def test_a_call_can_be_asked_for_as_far_as_chat_can(chat, choice):
    status, body = ask(chat, WEATHER, tools=TOOLS, tool_choice=choice)
    if status != 200:
        assert status == 400 and "tool_choice" in error_of(json.dumps(body))["message"]
    else:
        assert body["stop_reason"] == "tool_use"


def test_harmless_fields_change_nothing(chat):
    plain = comparable(answer(chat, CAPITAL))
    assert comparable(answer(
        chat, CAPITAL, metadata={"user_id": "x"}, service_tier="auto", cache_control={"type": "ephemeral"}, stream=False,
        container=None, speed="standard", output_config={"effort": "medium"}, top_p=1, top_k=0,
        context_management={"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    )) == plain


USER = CAPITAL[0]
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
RESULT = {"type": "tool_result", "tool_use_id": "a"}


@pytest.mark.parametrize("fields, says", [
    (dict(max_tokens=None), "max_tokens"),
    (dict(max_tokens=0), "max_tokens"),
    (dict(max_tokens="5"), "max_tokens"),
    (dict(messages=None), "messages"),
    (dict(messages=[]), "messages"),
    (dict(no_such_field=1), "no_such_field"),
    (dict(temperature="hot"), "temperature"),
    (dict(stream="yes"), "stream"),
    (dict(stop_sequences=[""]), "stop_sequences[0]"),
    (dict(stop_sequences="x"), "stop_sequences"),
    (dict(container="c"), "container"),
    (dict(mcp_servers=[{}]), "mcp_servers"),
    (dict(speed="fast"), "speed"),
    (dict(context_management={"edits": [{"type": "clear_tool_uses_20250919"}]}), "context_management.edits[0]"),
    (dict(thinking={"type": "enabled"}), "thinking.budget_tokens"),
    (dict(thinking={"type": "between_tools"}), "thinking.type"),
    (dict(output_config={"effort": "some"}), "output_config.effort"),
    (dict(output_config={"format": {"type": "text"}}), "output_config.format.type"),
    (dict(system=[IMAGE]), 'system[0]" is a block of type "image"'),
    (dict(messages=[{"role": "user", "content": [IMAGE]}]), 'messages[0].content[0]" is a block of type "image"'),
    (dict(messages=[{"role": "user", "content": [{"type": "document"}]}]), '"document"'),
    (dict(messages=[{"role": "user", "content": [{"type": "search_result"}]}]), '"search_result"'),
    (dict(messages=[{"role": "user", "content": [{**RESULT, "content": [IMAGE]}]}]), "messages[0].content[0].content[0]"),
    (dict(messages=[USER, {"role": "assistant", "content": [{"type": "server_tool_use"}]}, USER]), "server_tool_use"),
    (dict(messages=[USER, {"role": "assistant", "content": "It"}]), "prefill"),
    (dict(messages=[{"role": "user", "content": []}]), "messages[0].content"),
    (dict(messages=[{"role": "tool", "content": "x"}]), "messages[0].role"),
    (dict(messages=[{**USER, "name": "x"}]), "messages[0].name"),
    (dict(tools=[{"type": "web_search_20250305", "name": "web_search"}]), "tools[0].type"),
    (dict(tools=[{"name": "x"}]), "tools[0].input_schema"),
    (dict(tools=[{**TOOLS[0], "defer_loading": True}]), "tools[0].defer_loading"),
    (dict(tools=[{**TOOLS[0], "input_examples": [{}]}]), "tools[0].input_examples"),
    (dict(tools=[{**TOOLS[0], "allowed_callers": ["code_execution_20250825"]}]), "tools[0].allowed_callers"),
    (dict(tools=TOOLS, tool_choice={"type": "some"}), "tool_choice.type"),
    (dict(tools=TOOLS, tool_choice={"type": "tool"}), "tool_choice.name"),
])
def test_refusals_name_the_field(chat, fields, says):
    status, body = ask(chat, **{"messages": CAPITAL, **fields})
    error = error_of(json.dumps(body))
    assert status == 400 and error["type"] == "invalid_request_error"
    assert says in error["message"], error
    if "stream" not in fields:
        assert ask(chat, **{"messages": CAPITAL, **fields, "stream": True})[0] == 400


def test_what_does_not_fit_is_said_in_words_that_programs_know(chat):
    long = [{"role": "user", "content": "word " * 3000}]
    error = error_of(json.dumps(ask(chat, long)[1]))
    assert re.fullmatch(r"prompt is too long: \d{4} tokens > 1024 maximum", error["message"])
    error = error_of(json.dumps(ask(chat, CAPITAL, max_tokens=1020)[1]))
    assert re.match(r"input length and `max_tokens` exceed context limit: \d+ \+ 1020 > 1024", error["message"])


def test_hostile_bodies_get_errors_of_this_form(chat):
    for path in [PATH, PATH + "/count_tokens"]:
        for body in hostile.NO_JSON:
            status, _, text = chat.request("POST", path, body)
            assert status == 400 and error_of(text)["type"] == "invalid_request_error", body[:50]


FULL = {
    "model": "m", "max_tokens": 2, "stream": False, "temperature": 0, "top_p": 0.9, "top_k": 5, "stop_sequences": ["x"],
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": "Hello!"}]},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "I call it.", "signature": "s"}, {"type": "text", "text": "Wait."},
            {"type": "tool_use", "id": "a", "name": "get_weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [{**RESULT, "content": [{"type": "text", "text": "sunny"}], "is_error": False}]},
    ],
    "tools": TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": False},
    "thinking": {"type": "enabled", "budget_tokens": 2, "display": "summarized"},
    "output_config": {"effort": "low"}, "metadata": {"user_id": "x"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015"}]},
}


def test_wrong_values_in_each_field_are_no_errors_of_the_server(chat):
    assert chat.post(PATH, **FULL)[0] == 200
    refused = 0
    for path, value, body in hostile.changed(FULL):
        status, _, text = chat.request("POST", PATH, body)
        if status != 200 or value == "stream":
            assert status == 400 and error_of(text)["type"] == "invalid_request_error", (path, value, status, text)
            refused += 1
    assert refused > 300


def test_routes_refuse_in_this_form(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys), model="tiny-chat")
    for path in [PATH, PATH + "/count_tokens"]:
        status, _, text = server.request("POST", path, {"messages": CAPITAL, "max_tokens": 5})
        assert status == 401 and error_of(text)["type"] == "authentication_error"
        body = {"messages": CAPITAL, **({"max_tokens": 5} if path == PATH else {})}
        assert server.request("POST", path + "?beta=true", body, {"x-api-key": "secret"})[0] == 200
        status, head, text = server.request("GET", path, headers={"x-api-key": "secret"})
        assert status == 405 and head["Allow"] == "POST" and error_of(text)["type"] == "invalid_request_error"


def test_too_many_are_told_when_to_come_again(serve):
    server = serve("--max-running", "1", "--max-waiting", "1", model="tiny-chat")
    body = {"model": "m", "max_tokens": 900, "messages": CAPITAL, "temperature": 1}
    answers = []

    def post():
        answers.append(server.request("POST", PATH, body))

    threads = [threading.Thread(target=post) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [(head, text) for status, head, text in answers if status == 429]
    assert {status for status, _, _ in answers} <= {200, 429}
    for head, text in refused:
        assert error_of(text)["type"] == "rate_limit_error" and int(head["Retry-After"]) > 0
    assert refused
