"""client.responses: its objects and events, refusals that name a field, and what becomes of streams. tests/habits compares it
with a server."""

import asyncio
import json
import threading

import pytest

import qinfer
import qinfer.openai as openai
from qinfer.openai.types.responses import Response, ResponseFunctionToolCall, ResponseOutputMessage, ResponseReasoningItem

CAPITAL = "What is the capital of France?"
PARIS = "The capital of France is Paris."
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}


@pytest.fixture(scope="module")
def client(chat_model):
    with openai.OpenAI(api_key="none", model=chat_model) as made:
        yield made


def needs_grammars(model):
    try:
        qinfer.Grammar.regex(model, "a")
    except OSError:
        pytest.skip("libqinfer_grammar was not built")


class Person:
    """As classes of pydantic look from outside."""

    def __init__(self, **members):
        self.__dict__.update(members)

    @classmethod
    def model_json_schema(cls):
        return {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"enum": [4, 5]}}}

    @classmethod
    def model_validate_json(cls, text):
        return cls(**json.loads(text))


def test_a_response_has_the_types_of_the_package(client):
    response = client.responses.create(model="any", input=CAPITAL, temperature=0)
    assert type(response) is Response and response.output_text == PARIS
    (message,) = response.output
    assert type(message) is ResponseOutputMessage and message.content[0].type == "output_text"
    assert (response.status, response.error, response.model, response.store) == ("completed", None, "any", False)
    assert message.content[0].parsed is None and response.completed_at >= response.created_at
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens and usage.output_tokens_details.reasoning_tokens == 0
    assert "output_text" not in response.to_dict() and Response.model_validate_json(response.to_json()) == response
    asked = client.responses.create(input="What is the weather in Oslo?", tools=[WEATHER], temperature=0)
    reasoning, call = asked.output
    assert type(reasoning) is ResponseReasoningItem and type(call) is ResponseFunctionToolCall
    assert reasoning.content[0].text and asked.usage.output_tokens_details.reasoning_tokens > 0 and asked.output_text == ""
    assert json.loads(call.arguments) == {"city": "Oslo"} and asked.tools[0].strict is None
    again = Response.model_validate(json.loads(asked.to_json()))
    assert [type(item) for item in again.output] == [ResponseReasoningItem, ResponseFunctionToolCall]


def test_events_say_what_the_response_says(client):
    whole = client.responses.create(input="What is the weather in Oslo?", tools=[WEATHER], temperature=0)
    events = list(client.responses.create(input="What is the weather in Oslo?", tools=[WEATHER], temperature=0, stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == events[-1].response.output
    assert [(item.type, item.get("arguments"), item.get("content")) for item in done] == [
        (item.type, item.get("arguments"), item.get("content")) for item in whole.output
    ]
    assert events[0].type == "response.created" and events[0].response.output == [] and events[0].response.usage is None
    deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert len(deltas) > 3 and "".join(deltas) == done[0].content[0].text


def test_items_of_all_forms_are_taken_again(client):
    first = client.responses.create(input=[{"role": "user", "content": CAPITAL}], temperature=0)
    message = first.output[0]
    for form in (message, message.model_dump(), message.to_dict(), {"role": "assistant", "content": PARIS}):
        items = ({"role": "user", "content": CAPITAL}, form, {"role": "user", "content": "How many days are in a week?"})
        again = client.responses.create(input=iter(items), instructions="Be brief.", temperature=0)
        assert "seven" in again.output_text and again.instructions == "Be brief."


def test_refusals_name_the_field(client):
    create = client.responses.create
    for fields, kind, param in (
        ({"previous_response_id": "resp_1"}, qinfer.UnsupportedError, "previous_response_id"),
        ({"background": True}, qinfer.UnsupportedError, "background"),
        ({"tools": [{"type": "web_search"}]}, qinfer.UnsupportedError, "tools[0].type"),
        ({"input": []}, qinfer.FormatError, "input"),
        ({"input": [{"role": "user", "content": 5}]}, qinfer.FormatError, "input[0].content"),
        ({"input": [{"type": "function_call", "call_id": "a", "name": "", "arguments": ""}]}, qinfer.FormatError, "input[0].name"),
        ({"store": 1}, qinfer.FormatError, "store"),
        ({"max_output_tokens": True}, qinfer.FormatError, "max_output_tokens"),
        ({"temperature": "hot"}, qinfer.FormatError, "temperature"),
        ({"frequency": 1}, qinfer.UnsupportedError, "frequency"),
        ({"extra_body": {"top_k": 3}}, qinfer.UnsupportedError, "top_k"),
        ({"text": {"format": {"type": "json_schema"}}}, qinfer.FormatError, "text.format.name"),
        ({"metadata": {"a": 1}}, qinfer.FormatError, "metadata.a"),
    ):
        for stream in (False, True):
            with pytest.raises(openai.BadRequestError) as failed:
                create(**{"input": CAPITAL, "stream": stream, **fields})
            assert isinstance(failed.value, kind) and failed.value.param == param, fields
    with pytest.raises(openai.BadRequestError) as failed:
        create(input=CAPITAL, metadata=["x" * 99])
    assert "a list, expected an object of texts" in failed.value.message
    with pytest.raises(openai.BadRequestError, match='is "' + "x" * 40 + '...", expected'):
        create(input=CAPITAL, truncation="x" * 99)
    with pytest.raises(TypeError, match="needs the argument 'input'"):
        create(model="any")
    with pytest.raises(AttributeError, match="no 'retrieve': nothing is stored"):
        client.responses.retrieve
    with pytest.raises(AttributeError, match="no attribute 'reply'"):
        client.responses.reply
    none = dict.fromkeys(("tools", "metadata", "previous_response_id", "text", "reasoning", "include", "stream"))
    assert create(input=CAPITAL, max_output_tokens=2, temperature=openai.NOT_GIVEN, **none).status == "incomplete"
    with pytest.raises(openai.APITimeoutError):
        create(input=CAPITAL, timeout=1e-9)


def test_answers_as_objects_of_classes(client, chat_model):
    needs_grammars(chat_model)
    parse = client.responses.parse
    response = parse(input=CAPITAL, text_format=Person, temperature=0, max_output_tokens=80)
    person = response.output_parsed
    assert isinstance(person, Person) and person.age in (4, 5) and response.output[-1].content[0].parsed is person
    assert parse(input=CAPITAL, temperature=0).output_parsed is None
    assert parse(input=CAPITAL, text_format=Person, temperature=0, max_output_tokens=3).output_parsed is None
    with pytest.raises(TypeError, match="model_json_schema"):
        parse(input=CAPITAL, text_format=int)
    with pytest.raises(TypeError, match="and not both"):
        parse(input=CAPITAL, text_format=Person, text={"format": {"type": "text"}})
    tool = openai.pydantic_function_tool(Person, name="add_person")
    choice = {"type": "function", "name": "add_person"}
    called = parse(input=CAPITAL, tools=[tool], tool_choice=choice, temperature=0, max_output_tokens=80)
    assert isinstance(called.output[-1].parsed_arguments, Person)


def test_strict_tools_are_closed(client, chat_model):
    needs_grammars(chat_model)
    # A bias is no field of responses: what closes the arguments is seen in the prompt, which is longer.
    choice = {"type": "function", "name": "get_weather"}
    tokens = []
    for strict in (None, False, True):
        tool = {**WEATHER, "strict": strict}
        response = client.responses.create(input=CAPITAL, tools=[tool], tool_choice=choice, temperature=0, max_output_tokens=60)
        assert json.loads(response.output[-1].arguments).keys() == {"city"} and response.tools[0].strict is strict
        tokens.append(response.usage.input_tokens)
    assert tokens[0] == tokens[1] < tokens[2]


def test_streams_are_left_and_end(client):
    def ask():
        return client.responses.create(input=CAPITAL, stream=True, max_output_tokens=50)

    with ask() as stream:
        assert next(stream).type == "response.created"
    assert list(stream) == []
    del stream
    stream = ask()
    del stream
    engine = client._models.engine_of(None)
    for _ in range(200):
        if engine.stats["running"] == 0:
            break
        threading.Event().wait(0.02)
    assert engine.stats["running"] == 0


def test_asyncio(chat_model):
    async def run():
        async with openai.AsyncOpenAI(model=chat_model) as client:
            create = client.responses.create
            one, two = await asyncio.gather(*[create(input=CAPITAL, temperature=0) for _ in range(2)])
            assert one.output_text == two.output_text == PARIS
            async with await create(input=CAPITAL, temperature=0, stream=True) as stream:
                events = [event async for event in stream]
            assert events[-1].response.output_text == PARIS and [event async for event in stream] == []
            left = await create(input=CAPITAL, stream=True)
            async for event in left:
                assert event.type == "response.created"
                break
            await left.close()
            parsed = await client.responses.parse(input=CAPITAL, temperature=0)
            assert parsed.output_text == PARIS
            with pytest.raises(openai.BadRequestError):
                await create(input=CAPITAL, conversation="c")
            with pytest.raises(AttributeError, match="nothing is stored"):
                client.responses.cancel

    asyncio.run(run())
