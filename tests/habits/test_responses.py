"""client.responses as the package has it with a qinfer-server: the same responses, the same events, and refusals that name
the same fields.

    pytest test_responses.py

With the library's Python package on the path, the package openai, and QINFER_SERVER as for test_cookbook.py.
"""

import json
import pathlib
import re

import pytest

MODEL = pathlib.Path(__file__).resolve().parents[2] / "examples" / "models" / "tiny-chat"
CAPITAL = "What is the capital of France?"
WEATHER = "What is the weather in Oslo?"
TOOL = {
    "type": "function", "name": "get_weather", "description": "Get the current weather in a city", "strict": True,
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}},
                   "required": ["city"], "additionalProperties": False},
}  # fmt: skip
SCHEMA = {
    "type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
    "additionalProperties": False,
}  # fmt: skip
FORMAT = {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}
CALLED = [
    {"role": "user", "content": WEATHER},
    {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "I call it."}]},
    {"type": "function_call", "call_id": "abcdefghi", "name": "get_weather", "arguments": '{"city": "Oslo"}', "id": "fc"},
    {"type": "function_call_output", "call_id": "abcdefghi", "output": [{"type": "input_text", "text": "sunny"}]},
]
SAID = [
    {"type": "message", "role": "developer", "content": [
        {"type": "input_text", "text": "Be "}, {"type": "input_text", "text": "brief."}]},
    {"role": "user", "content": CAPITAL},
    {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": [
        {"type": "output_text", "text": "Paris.", "annotations": [], "logprobs": []}, {"type": "refusal", "refusal": "No."}]},
    {"role": "user", "content": "How many days are in a week?"},
]  # fmt: skip
REQUESTS = [
    {"input": CAPITAL},
    {"input": CAPITAL, "instructions": "Be brief.", "metadata": {"a": "b"}, "store": True, "top_p": 0.5},
    {"input": CAPITAL, "max_output_tokens": 3},
    {"input": SAID},
    {"input": WEATHER, "tools": [TOOL]},
    {"input": WEATHER, "tools": [TOOL], "max_output_tokens": 5},
    {"input": WEATHER, "tools": [{**TOOL, "strict": None}], "parallel_tool_calls": False},
    {"input": WEATHER, "tools": [TOOL], "tool_choice": "none", "reasoning": {"effort": "none", "summary": "auto"}},
    {"input": WEATHER, "tools": [TOOL], "reasoning": {"effort": "max"}, "include": ["reasoning.encrypted_content"]},
    {"input": CAPITAL, "tools": [TOOL], "tool_choice": {"type": "function", "name": "get_weather"}},
    {"input": CALLED, "tools": [TOOL]},
    {"input": "How many?", "text": {"format": FORMAT, "verbosity": "low"}},
    {"input": CAPITAL, "text": {"format": {"type": "text"}}, "truncation": "disabled", "user": "u", "service_tier": "auto"},
]
PART = {"type": "input_image", "image_url": "data:image/png;base64,eA==", "detail": "auto"}
REFUSED = [
    ({"input": []}, "input"),
    ({"input": 5}, "input"),
    ({"temperature": "hot"}, "temperature"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": "x"}, "max_output_tokens"),
    ({"store": "yes"}, "store"),
    ({"background": True}, "background"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": {"id": "c"}}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"truncation": "auto"}, "truncation"),
    ({"top_logprobs": 2}, "top_logprobs"),
    ({"include": ["message.output_text.logprobs"]}, "include[0]"),
    ({"context_management": [{"type": "compaction"}]}, "context_management"),
    ({"moderation": {"model": "m"}}, "moderation"),
    ({"metadata": {"a": 1}}, "metadata.a"),
    ({"reasoning": {"effort": "some"}}, "reasoning.effort"),
    ({"reasoning": {"mode": "pro"}}, "reasoning.mode"),
    ({"text": {"format": {"type": "grammar"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "mcp", "server_label": "x"}]}, '"mcp"'),
    ({"tools": [{"type": "function", "name": ""}]}, "tools[0].name"),
    ({"tools": [{**TOOL, "parameters": []}]}, "tools[0].parameters"),
    ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tools": [TOOL], "tool_choice": "some"}, "tool_choice"),
    ({"tools": [TOOL], "tool_choice": {"type": "web_search_preview"}}, "tool_choice.type"),
    ({"input": [{"role": "user", "content": [PART]}]}, 'input[0].content[0]" is a part of type "input_image"'),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, 'input[0]" is an item of type "item_reference"'),
    ({"input": [{"type": "function_call_output", "output": "x"}]}, "input[0].call_id"),
    ({"input": [{"role": "user", "content": "x", "name": "x"}]}, "input[0].name"),
    ({"stream_options": {"include_usage": True}}, "stream_options.include_usage"),
    ({"extra_body": {"no_such_field": 1}}, "no_such_field"),
]


@pytest.fixture(scope="module")
def clients(service):
    """Of the package, and ours."""
    openai = pytest.importorskip("openai")
    ours = pytest.importorskip("qinfer.openai")
    with ours.OpenAI(model=MODEL) as client:
        yield openai.OpenAI(base_url=service, api_key="none", max_retries=0), client


def comparable(made):
    """Without what depends on chance, on time, and on what was asked before."""
    text = re.sub(r"(resp|msg|rs|fc)_[0-9a-f]{24,32}(\d*)\"", r'\1_"', json.dumps(made, sort_keys=True))
    text = re.sub(r'"call_id": "[0-9A-Za-z]{9}"', '"call_id": null', text)
    text = re.sub(r'"(created_at|completed_at)": [0-9.]+', r'"\1": 0', text)
    return json.loads(re.sub(r'"cached_tokens": \d+', '"cached_tokens": 0', text))


def asked(fields):
    return {"model": "tiny-chat", "temperature": 0, "max_output_tokens": 60, **fields}


def needs_grammars(fields):
    if "tool_choice" not in fields and "text" not in fields:
        return
    import qinfer

    try:
        qinfer.Grammar.regex(qinfer.Model(MODEL), "a")
    except OSError:
        pytest.skip("machine: libqinfer_grammar was not built")


@pytest.mark.parametrize("fields", REQUESTS, ids=range(len(REQUESTS)))
def test_responses_and_events_are_the_same(clients, fields):
    needs_grammars(fields)
    theirs, ours = (client.responses.create(**asked(fields)) for client in clients)
    assert comparable(ours.to_dict(mode="json")) == comparable(theirs.to_dict(mode="json"))
    assert ours.output_text == theirs.output_text
    for one in (theirs, ours):
        assert one.output and one.output[-1].type in ("message", "function_call", "reasoning")
    theirs, ours = ([event.to_dict(mode="json") for event in client.responses.create(**asked(fields), stream=True)]
                    for client in clients)  # fmt: skip
    assert comparable(ours) == comparable(theirs)
    assert len(ours) > 6 and ours[-1]["type"] == "response." + ours[-1]["response"]["status"]


@pytest.mark.parametrize("fields, says", REFUSED, ids=[says for _, says in REFUSED])
def test_refusals_name_the_same_field(clients, fields, says):
    import openai

    import qinfer.openai

    for client, error in zip(clients, (openai.BadRequestError, qinfer.openai.BadRequestError)):
        for stream in (False, True):
            with pytest.raises(error) as failed:
                client.responses.create(**asked({"input": CAPITAL, **fields}), stream=stream)
            assert says in failed.value.message and failed.value.status_code == 400, failed.value
            assert failed.value.type == "invalid_request_error"


def test_what_does_not_fit_the_context(clients):
    for client in clients:
        with pytest.raises(Exception) as failed:
            client.responses.create(model="tiny-chat", input="word " * 3000)
        assert failed.value.code == "context_length_exceeded"


def test_output_goes_into_the_next_request(clients):
    for client in clients:
        first = client.responses.create(**asked({"input": WEATHER, "tools": [TOOL]}))
        call = first.output[-1]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        for items in (first.output, [item.model_dump() for item in first.output], [item.to_dict() for item in first.output]):
            final = client.responses.create(
                **asked({"input": [{"role": "user", "content": WEATHER}, *items, result], "tools": [TOOL]})
            )
            assert "sunny" in final.output_text
