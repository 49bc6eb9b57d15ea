"""OpenAI's /v1/responses."""

import json
import re

import hostile
import pytest

PATH = "/v1/responses"
TOOLS = [{
    "type": "function", "name": "get_weather", "description": "Get the current weather in a city", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}},
                   "required": ["city"], "additionalProperties": False},
}]
WEATHER = "What is the weather in Oslo?"
CAPITAL = "What is the capital of France?"
USER = {"role": "user", "content": CAPITAL}
SCHEMA = {"type": "json_schema", "name": "n", "strict": True, "schema": {
    "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
    "additionalProperties": False}}


def ask(server, input, **fields):
    return server.post(PATH, **{"model": "m", "temperature": 0, "max_output_tokens": 60, "input": input, **fields})


def answer(server, input, **fields):
    status, response = ask(server, input, **fields)
    assert status == 200, response
    return response


def events_of(server, input, **fields):
    events = server.named_events(PATH, {"model": "m", "temperature": 0, "max_output_tokens": 60, "input": input, **fields})
    assert [event.pop("sequence_number") for event in events] == list(range(len(events)))
    return events


def told_of_item(events, at):
    """The item that the events from `at` on say, and the place after them."""
    added = events[at]
    item, index, kind = added["item"], added["output_index"], added["item"]["type"]
    assert added["type"] == "response.output_item.added" and item["status"] == "in_progress"
    here = {"item_id": item["id"], "output_index": index}
    text = ""
    if kind == "function_call":
        assert item["arguments"] == ""
        names = "response.function_call_arguments"
        end = {"arguments": None, "name": item["name"]}
    else:
        assert item["content"] == []
        names = {"message": "response.output_text", "reasoning": "response.reasoning_text"}[kind]
        here["content_index"] = 0
        part = {"type": names.removeprefix("response."), "text": ""}
        part.update({"annotations": [], "logprobs": []} if kind == "message" else {})
        assert events[at + 1] == {"type": "response.content_part.added", "part": part, **here}
        at += 1
        end = {"text": None, **({"logprobs": []} if kind == "message" else {})}
    at += 1
    while events[at]["type"] == names + ".delta":
        text += events[at].pop("delta")
        events[at].pop("logprobs", None)
        assert events[at] == {"type": names + ".delta", **here}
        at += 1
    end = {key: text if value is None else value for key, value in end.items()}
    assert events[at] == {"type": names + ".done", **here, **end}
    if kind == "function_call":
        item["arguments"] = text
    else:
        at += 1
        part["text"] = text
        assert events[at] == {"type": "response.content_part.done", "part": part, **here}
        item["content"].append(part)
    done = events[at + 1]
    assert done["type"] == "response.output_item.done" and done["output_index"] == index
    item["status"] = done["item"]["status"]
    assert done["item"] == item
    return item, at + 2


def folded(events):
    """The response that a stream says, as clients put it together."""
    assert events[0] == {**events[1], "type": "response.created"} and events[1]["type"] == "response.in_progress"
    begun, last = events[0]["response"], events[-1]
    assert begun["status"] == "in_progress" and begun["output"] == [] and begun["usage"] is None
    assert last["type"] == "response." + last["response"]["status"]
    items, at = [], 2
    while at < len(events) - 1:
        item, at = told_of_item(events, at)
        items.append(item)
    assert last["response"]["output"] == items
    said_at_end = {"status", "output", "usage", "completed_at", "incomplete_details"}
    for key in set(begun) - said_at_end:
        assert begun[key] == last["response"][key], key
    return last["response"]


def comparable(response):
    """Without what depends on chance, on time and on what was asked before."""
    ids = re.compile(r"(resp|msg|rs|fc)_[0-9a-f]{24}(\d*)")
    text = re.sub(r'"call_id": "[0-9A-Za-z]{9}"', '"call_id": null', ids.sub(r"\1_\2", json.dumps(response)))
    made = json.loads(text)
    made["usage"].pop("input_tokens_details")
    return {**made, "created_at": 0, "completed_at": made["completed_at"] and 0}


def error_of(body):
    assert set(body) == {"error"} and set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    return body["error"]


def test_a_response(chat):
    response = answer(chat, CAPITAL, metadata={"a": "b"}, instructions=None)
    assert re.fullmatch("resp_[0-9a-f]{24}", response["id"])
    usage = response["usage"]
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]
    assert set(usage["input_tokens_details"]) == {"cached_tokens", "cache_write_tokens"}
    assert comparable(response) == {
        "id": "resp_", "object": "response", "created_at": 0, "completed_at": 0, "status": "completed",
        "background": False, "error": None, "incomplete_details": None, "model": "tiny-chat",
        "output": [{"id": "msg_0", "type": "message", "status": "completed", "role": "assistant", "content": [
            {"type": "output_text", "text": "The capital of France is Paris.", "annotations": [], "logprobs": []}]}],
        "usage": {"input_tokens": usage["input_tokens"], "output_tokens": usage["output_tokens"],
                  "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": usage["total_tokens"]},
        "instructions": None, "max_output_tokens": 60, "metadata": {"a": "b"}, "parallel_tool_calls": True,
        "previous_response_id": None, "reasoning": {"effort": None, "summary": None}, "store": False,
        "temperature": 0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled",
    }


def test_one_that_is_cut_says_so(chat):
    response = answer(chat, CAPITAL, max_output_tokens=2)
    assert response["status"] == "incomplete" and response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete" and response["usage"]["output_tokens"] == 2


def test_a_tool_is_called_and_its_result_comes_back(chat):
    response = answer(chat, WEATHER, tools=TOOLS)
    assert response["tools"] == TOOLS
    reasoning, call = response["output"]
    assert reasoning["type"] == "reasoning" and reasoning["summary"] == []
    assert reasoning["content"] == [
        {"type": "reasoning_text", "text": "I need the weather in Oslo, so I call get_weather."}]
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] > 0
    assert (call["type"], call["name"], json.loads(call["arguments"])) == ("function_call", "get_weather", {"city": "Oslo"})
    for output in ["sunny", [{"type": "input_text", "text": "sunny"}]]:
        result = {"type": "function_call_output", "call_id": call["call_id"], "output": output}
        items = [{"role": "user", "content": WEATHER}, *response["output"], result]
        final = answer(chat, items, tools=TOOLS)
        assert final["status"] == "completed" and "sunny" in final["output"][-1]["content"][0]["text"]
        assert comparable(folded(events_of(chat, items, tools=TOOLS))) == comparable(final)
    none = answer(chat, WEATHER, tools=TOOLS, tool_choice="none")
    assert "function_call" not in [item["type"] for item in none["output"]]


@pytest.mark.parametrize("fields", [
    dict(input=CAPITAL), dict(input=CAPITAL, max_output_tokens=3), dict(input=WEATHER, tools=TOOLS),
    dict(input=WEATHER, tools=TOOLS, max_output_tokens=5), dict(input=WEATHER, tools=TOOLS, parallel_tool_calls=False),
    dict(input=WEATHER, tools=TOOLS, reasoning={"effort": "none"}, metadata={"a": "b"}),
    dict(input=[USER], instructions="Be brief.", text={"format": {"type": "text"}}),
])
def test_a_stream_says_what_a_response_says(chat, fields):
    assert comparable(folded(events_of(chat, **fields))) == comparable(answer(chat, **fields))


def test_reasoning_as_far_as_it_is_asked_for(chat):
    for effort, there in [("none", False), ("minimal", False), ("low", True), ("max", True)]:
        response = answer(chat, WEATHER, tools=TOOLS, reasoning={"effort": effort, "summary": "auto"})
        assert ("reasoning" in [item["type"] for item in response["output"]]) == there
        assert response["reasoning"]["effort"] == effort


@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_weather"}])
def test_a_call_can_be_asked_for_as_far_as_chat_can(chat, choice):
    status, body = ask(chat, CAPITAL, tools=TOOLS, tool_choice=choice)
    if status == 200:
        assert body["output"][-1]["type"] == "function_call" and body["tool_choice"] == choice
    else:
        assert status == 400 and error_of(body)


def test_a_schema_as_far_as_chat_can(chat):
    status, body = ask(chat, "How many?", text={"format": SCHEMA})
    if status == 200:
        assert body["status"] == "completed" and body["text"] == {"format": SCHEMA}
        assert json.loads(body["output"][-1]["content"][0]["text"])["n"] in range(10)
        assert comparable(folded(events_of(chat, "How many?", text={"format": SCHEMA}))) == comparable(body)
    else:
        assert status == 400 and error_of(body)


def test_what_a_prompt_is_made_of(chat):
    """Requests of both interfaces that mean the same have prompts of as many tokens."""
    call = {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": '{"city": "Oslo"}', "id": "fc"}
    output = {"type": "function_call_output", "call_id": "a", "output": "sunny"}
    calls = [{"id": "a", "type": "function", "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}}]
    tool = {"type": "function", "function": {key: TOOLS[0][key] for key in ["name", "description", "parameters"]}}
    reasoning = {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "short"}],
                 "content": [{"type": "reasoning_text", "text": "I call it."}], "encrypted_content": None}
    summary = {**reasoning, "content": None}
    said = {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "Wait.", "annotations": [], "logprobs": []}]}
    hello = {"role": "user", "content": "Hello!"}
    result = {"role": "tool", "tool_call_id": "a", "content": "sunny"}
    for input, instructions, tools, messages in [
        ("Hello!", None, None, [hello]),
        ("Hello!", "Be brief.", None, [{"role": "system", "content": "Be brief."}, hello]),
        ([{"role": "developer", "content": "Be brief."}, hello], None, None,
         [{"role": "developer", "content": "Be brief."}, hello]),
        ([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hel"},
                                                          {"type": "input_text", "text": "lo!"}]}], None, None, [hello]),
        ([hello, said, hello], None, None, [hello, {"role": "assistant", "content": "Wait."}, hello]),
        ([hello, reasoning, said, call, output], None, TOOLS,
         [hello, {"role": "assistant", "content": "Wait.", "reasoning_content": "I call it.", "tool_calls": calls},
          result]),
        ([hello, summary, call, call, output, output], None, TOOLS,
         [hello, {"role": "assistant", "content": None, "reasoning_content": "short", "tool_calls": calls * 2}, result,
          result]),
        ([hello, hello], None, None, [hello, hello]),
    ]:
        more = {"tools": tools} if tools else {}
        response = answer(chat, input, instructions=instructions, max_output_tokens=1, **more)
        more = {"tools": [tool]} if tools else {}
        status, completion = chat.post("/v1/chat/completions", messages=messages, max_tokens=1, **more)
        assert status == 200, completion
        assert response["usage"]["input_tokens"] == completion["usage"]["prompt_tokens"], input


def test_harmless_fields_change_nothing(chat):
    plain = comparable(answer(chat, CAPITAL))
    assert comparable(answer(
        chat, CAPITAL, store=True, background=False, truncation="disabled", include=["reasoning.encrypted_content"],
        user="u", safety_identifier="s", service_tier="auto", prompt_cache_key="k", stream=False, top_logprobs=0,
        stream_options=None, max_tool_calls=3, previous_response_id=None, text={"verbosity": "low"},
    )) == plain


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "auto"}


@pytest.mark.parametrize("fields, says", [
    (dict(input=None), "input"),
    (dict(input=[]), "input"),
    (dict(input=5), "input"),
    (dict(no_such_field=1), "no_such_field"),
    (dict(temperature="hot"), "temperature"),
    (dict(max_output_tokens=0), "max_output_tokens"),
    (dict(max_output_tokens="x"), "max_output_tokens"),
    (dict(store="yes"), "store"),
    (dict(background=True), "background"),
    (dict(previous_response_id="resp_1"), "previous_response_id"),
    (dict(conversation="c"), "conversation"),
    (dict(conversation={"id": "c"}), "conversation"),
    (dict(prompt={"id": "p"}), "prompt"),
    (dict(truncation="auto"), "truncation"),
    (dict(top_logprobs=2), "top_logprobs"),
    (dict(include=["message.output_text.logprobs"]), "include[0]"),
    (dict(context_management=[{"type": "compaction"}]), "context_management"),
    (dict(moderation={"model": "m"}), "moderation"),
    (dict(metadata={"a": 1}), "metadata.a"),
    (dict(reasoning={"effort": "some"}), "reasoning.effort"),
    (dict(reasoning={"mode": "pro"}), "reasoning.mode"),
    (dict(text={"format": {"type": "grammar"}}), "text.format.type"),
    (dict(text={"format": {"type": "json_schema", "name": "x"}}), "text.format.schema"),
    (dict(tools=[{"type": "web_search"}]), 'tools[0].type" is "web_search"'),
    (dict(tools=[{"type": "file_search", "vector_store_ids": []}]), "file_search"),
    (dict(tools=[{"type": "mcp", "server_label": "x"}]), '"mcp"'),
    (dict(tools=[{"type": "custom", "name": "x"}]), '"custom"'),
    (dict(tools=[{"type": "function", "name": ""}]), "tools[0].name"),
    (dict(tools=[{**TOOLS[0], "parameters": []}]), "tools[0].parameters"),
    (dict(tools=TOOLS, tool_choice="some"), "tool_choice"),
    (dict(tools=TOOLS, tool_choice={"type": "web_search_preview"}), "tool_choice.type"),
    (dict(tools=TOOLS, tool_choice={"type": "allowed_tools", "mode": "auto", "tools": []}), "tool_choice.type"),
    (dict(input=[{"role": "user", "content": [IMAGE]}]), 'input[0].content[0]" is a part of type "input_image"'),
    (dict(input=[{"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}]), "input_file"),
    (dict(input=[{"role": "tool", "content": "x"}]), "input[0].role"),
    (dict(input=[{"type": "item_reference", "id": "x"}]), 'input[0]" is an item of type "item_reference"'),
    (dict(input=[{"type": "computer_call_output"}]), "computer_call_output"),
    (dict(input=[{"type": "function_call_output", "output": "x"}]), "input[0].call_id"),
    (dict(input=[{**USER, "name": "x"}]), "input[0].name"),
])
def test_refusals_name_the_field(chat, fields, says):
    status, body = ask(chat, **{"input": CAPITAL, **fields})
    error = error_of(body)
    assert status == 400 and error["type"] == "invalid_request_error"
    assert says in error["message"], error
    assert ask(chat, **{"input": CAPITAL, **fields, "stream": True})[0] == 400


def test_what_does_not_fit_the_context(chat):
    status, body = ask(chat, "word " * 3000)
    assert status == 400 and error_of(body)["code"] == "context_length_exceeded"


def test_hostile_bodies_get_errors_of_this_form(chat):
    for body in hostile.NO_JSON:
        status, _, text = chat.request("POST", PATH, body)
        assert status == 400 and error_of(json.loads(text))["type"] == "invalid_request_error", body[:50]


FULL = {
    "model": "m", "max_output_tokens": 2, "stream": False, "temperature": 0, "top_p": 0.9, "store": False,
    "instructions": "Be brief.", "metadata": {"a": "b"}, "truncation": "disabled", "include": ["x"], "background": False,
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello!"}]},
        {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "s"}],
         "content": [{"type": "reasoning_text", "text": "I call it."}]},
        {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}", "id": "fc"},
        {"type": "function_call_output", "call_id": "a", "output": [{"type": "input_text", "text": "sunny"}]},
    ],
    "tools": TOOLS, "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"}, "stream_options": {"include_obfuscation": False},
    "top_logprobs": 0,
}


def test_wrong_values_in_each_field_are_no_errors_of_the_server(chat):
    assert chat.post(PATH, **FULL)[0] == 200
    refused = 0
    for path, value, body in hostile.changed(FULL):
        status, _, text = chat.request("POST", PATH, body)
        if status != 200:
            assert status == 400 and error_of(json.loads(text))["type"] == "invalid_request_error", (path, value, text)
            refused += 1
    assert refused > 300
    for path, value, body in hostile.changed({"input": CAPITAL, "max_output_tokens": 2, "text": {"format": SCHEMA}}):
        if value != hostile.LONG_TEXT:  # with which llguidance's own message about a schema fails
            status, _, text = chat.request("POST", PATH, body)
            assert status in (200, 400), (path, value, text)


def test_routes_refuse_in_openai_s_form(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys), model="tiny-chat")
    status, _, text = server.request("POST", PATH, {"input": CAPITAL})
    assert status == 401 and error_of(json.loads(text))["code"] == "invalid_api_key"
    status, head, text = server.request("GET", PATH, headers={"Authorization": "Bearer secret"})
    assert status == 405 and head["Allow"] == "POST" and error_of(json.loads(text))
