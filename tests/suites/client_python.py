"""Clients in Python against a server: run by suite_clients.py as `client_python.py URL KEY`, in the suite's environment.
Prints a line of JSON for each check: its name, and what is wrong or null. The model is examples/models/tiny-chat, whose
answers are known.
"""
import json
import re
import sys
import time
import urllib.request

URL, KEY = sys.argv[1:]
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
ANSWER = "The capital of France is Paris."
WEATHER = [{"role": "user", "content": "What is the weather in Paris?"}]
CITY = {"type": "object", "properties": {"city": {"type": "string", "description": "The city"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "Get the current weather in a city",
                                         "parameters": CITY}}
END = ["1271", "1273"]  # tokens that end a text
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


def running():
    request = urllib.request.Request(URL + "/metrics", headers={"Authorization": f"Bearer {KEY}"})
    text = urllib.request.urlopen(request).read().decode()
    return float(re.search(r"^vllm:num_requests_running\{[^}]*\} (\S+)$", text, re.M)[1])


def must_end_soon():
    end = time.monotonic() + 5
    while running() != 0:
        assert time.monotonic() < end, "a request goes on whose client has left"
        time.sleep(0.05)


def must_raise(kind, call):
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


# ---- openai


def openai_client(key=KEY):
    import openai
    return openai.OpenAI(base_url=URL + "/v1", api_key=key, max_retries=0, timeout=60)


@check
def openai_list():
    assert [model.id for model in openai_client().models.list()] == ["tiny-chat"]


@check
def openai_retrieve():
    assert openai_client().models.retrieve("tiny-chat").id == "tiny-chat"


@check
def openai_chat():
    answer = openai_client().chat.completions.create(model="tiny-chat", messages=QUESTION, temperature=0)
    assert answer.choices[0].message.content == ANSWER, answer
    assert answer.choices[0].finish_reason == "stop" and answer.usage.total_tokens > answer.usage.completion_tokens > 0


@check
def openai_connection_is_kept():
    client = openai_client()
    for _ in range(20):
        answer = client.chat.completions.create(model="tiny-chat", messages=QUESTION, temperature=0)
        assert answer.choices[0].message.content == ANSWER, answer
        assert client.models.list().data


@check
def openai_chat_stream_with_usage():
    chunks = list(openai_client().chat.completions.create(model="tiny-chat", messages=QUESTION, temperature=0, stream=True,
                                                          stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == ANSWER
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
    assert chunks[-1].usage.completion_tokens > 0 and not chunks[-1].choices
    assert all(c.usage is None for c in chunks[:-1])


@check
def openai_stream_helper():
    with openai_client().chat.completions.stream(model="tiny-chat", messages=QUESTION, temperature=0) as stream:
        assert any(event.type == "content.delta" for event in stream)
        assert stream.get_final_completion().choices[0].message.content == ANSWER


@check
def openai_tool_and_its_result():
    client = openai_client()
    answer = client.chat.completions.create(model="tiny-chat", messages=WEATHER, tools=[TOOL], temperature=0)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    assert call.function.name == "get_weather" and json.loads(call.function.arguments) == {"city": "Paris"}, call
    result = {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 21, "sky": "clear"}'}
    answer = client.chat.completions.create(model="tiny-chat", messages=[*WEATHER, choice.message, result], tools=[TOOL],
                                            temperature=0)
    assert "Paris" in answer.choices[0].message.content, answer


@check
def openai_calls_have_own_ids():
    """A conversation tells results of calls apart by them."""
    client = openai_client()
    ids = [client.chat.completions.create(model="tiny-chat", messages=WEATHER, tools=[TOOL], temperature=0)
           .choices[0].message.tool_calls[0].id for _ in range(2)]
    assert ids[0] != ids[1], ids


@check
def openai_tool_stream():
    chunks = openai_client().chat.completions.create(model="tiny-chat", messages=WEATHER, tools=[TOOL], temperature=0,
                                                     stream=True)
    deltas = [call for c in chunks if c.choices for call in c.choices[0].delta.tool_calls or []]
    assert deltas[0].id and deltas[0].function.name == "get_weather" and {d.index for d in deltas} == {0}
    assert json.loads("".join(d.function.arguments or "" for d in deltas)) == {"city": "Paris"}


@check
def openai_tool_is_required():
    for choice in ["required", {"type": "function", "function": {"name": "get_weather"}}]:
        answer = openai_client().chat.completions.create(model="tiny-chat", messages=QUESTION, tools=[TOOL], temperature=0,
                                                         tool_choice=choice, max_tokens=100)
        call = answer.choices[0].message.tool_calls[0]
        assert call.function.name == "get_weather" and list(json.loads(call.function.arguments)) == ["city"], call


@check
def openai_no_tool():
    answer = openai_client().chat.completions.create(model="tiny-chat", messages=WEATHER, tools=[TOOL], temperature=0,
                                                     tool_choice="none")
    assert not answer.choices[0].message.tool_calls and answer.choices[0].message.content


@check
def openai_json_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
              "additionalProperties": False}
    answer = openai_client().chat.completions.create(
        model="tiny-chat", messages=QUESTION, max_tokens=60, temperature=0,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}})
    assert list(json.loads(answer.choices[0].message.content)) == ["n"], answer


@check
def openai_choices_and_logprobs():
    answer = openai_client().chat.completions.create(model="tiny-chat", messages=QUESTION, n=3, seed=1, logprobs=True,
                                                     top_logprobs=2)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    for choice in answer.choices:
        assert "".join(t.token for t in choice.logprobs.content).startswith(choice.message.content), choice
        assert all(len(t.top_logprobs) == 2 for t in choice.logprobs.content)


@check
def openai_completion():
    answer = openai_client().completions.create(model="tiny-chat", prompt=["One", "Two"], max_tokens=4, temperature=0)
    assert [c.index for c in answer.choices] == [0, 1] and answer.usage.completion_tokens <= 8


@check
def openai_embeddings():
    """The client asks for base64 where it is not told otherwise."""
    texts = ["a dog", "a cat"]
    given = openai_client().embeddings.create(model="tiny-chat", input=texts)
    plain = openai_client().embeddings.create(model="tiny-chat", input=texts, encoding_format="float")
    assert len(given.data) == 2 and given.usage.prompt_tokens > 0
    for one, other in zip(given.data, plain.data):
        assert len(one.embedding) == len(other.embedding) > 8
        assert max(abs(a - b) for a, b in zip(one.embedding, other.embedding)) < 1e-6


@check
def openai_wrong_key():
    import openai
    error = must_raise(openai.AuthenticationError, lambda: openai_client("wrong").models.list())
    assert error.code == "invalid_api_key", error


@check
def openai_context_too_long():
    import openai
    error = must_raise(openai.BadRequestError, lambda: openai_client().chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "word " * 3000}]))
    assert error.code == "context_length_exceeded", error
    stream = must_raise(openai.BadRequestError, lambda: openai_client().chat.completions.create(
        model="tiny-chat", messages=[{"role": "user", "content": "word " * 3000}], stream=True))
    assert stream.code == "context_length_exceeded", stream


@check
def openai_no_such_model():
    import openai
    must_raise(openai.NotFoundError, lambda: openai_client().models.retrieve("no-such-model"))


@check
def openai_names_the_parameter():
    import openai
    error = must_raise(openai.BadRequestError, lambda: openai_client().chat.completions.create(
        model="tiny-chat", messages=QUESTION, temperature=-1))
    assert error.param == "temperature", error


@check
def openai_abort():
    client = openai_client()
    stream = client.completions.create(model="tiny-chat", prompt="Once", max_tokens=900, n=8, stream=True,
                                       logit_bias=dict.fromkeys(END, -100))
    next(iter(stream))
    assert running() > 0
    stream.close()
    client.close()
    must_end_soon()


@check
def openai_responses():
    answer = openai_client().responses.create(model="tiny-chat", input=QUESTION[0]["content"], temperature=0, store=False)
    assert answer.output_text == ANSWER and answer.status == "completed", answer
    assert answer.usage.output_tokens > 0


@check
def openai_responses_instructions():
    answer = openai_client().responses.create(model="tiny-chat", instructions="You are Bob.", temperature=0, store=False,
                                              input=[{"role": "user", "content": "Who are you?"}])
    assert "Bob" in answer.output_text, answer


@check
def openai_responses_stream():
    client = openai_client()
    events = list(client.responses.create(model="tiny-chat", input=QUESTION, temperature=0, stream=True, store=False))
    assert events[0].type == "response.created" and events[-1].type == "response.completed", [e.type for e in events]
    assert [e.sequence_number for e in events] == list(range(len(events)))
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == ANSWER
    with client.responses.stream(model="tiny-chat", input=QUESTION, temperature=0, store=False) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == ANSWER


@check
def openai_responses_tool():
    client, tool = openai_client(), {"type": "function", **TOOL["function"], "strict": False}
    answer = client.responses.create(model="tiny-chat", input=WEATHER, tools=[tool], temperature=0, store=False)
    call = next(item for item in answer.output if item.type == "function_call")
    assert call.name == "get_weather" and json.loads(call.arguments) == {"city": "Paris"}, answer
    result = {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 21, "sky": "clear"}'}
    answer = client.responses.create(model="tiny-chat", input=[*WEATHER, *answer.output, result], tools=[tool],
                                     temperature=0, store=False)
    assert "Paris" in answer.output_text, answer


@check
def openai_responses_schema():
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}, "required": ["n"],
              "additionalProperties": False}
    answer = openai_client().responses.create(
        model="tiny-chat", input=QUESTION, temperature=0, max_output_tokens=60, store=False,
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}})
    assert list(json.loads(answer.output_text)) == ["n"], answer


@check
def openai_responses_errors():
    import openai
    client = openai_client()
    must_raise(openai.BadRequestError, lambda: client.responses.create(model="tiny-chat", input="word " * 3000))
    must_raise(openai.AuthenticationError, lambda: openai_client("wrong").responses.create(model="tiny-chat", input="Hi"))


# ---- anthropic


def anthropic_client(key=KEY):
    import anthropic
    return anthropic.Anthropic(base_url=URL, api_key=key, max_retries=0, timeout=60)


def ask(client, **more):
    """Drawn greedily, which this client has no parameter for."""
    return client.messages.create(model="tiny-chat", **{"max_tokens": 100, "extra_body": {"temperature": 0}, **more})


def ask_stream(client, **more):
    return client.messages.stream(model="tiny-chat", max_tokens=100, extra_body={"temperature": 0}, **more)


ANTHROPIC_TOOL = {"name": "get_weather", "description": "Get the current weather in a city", "input_schema": CITY}


@check
def anthropic_message():
    answer = ask(anthropic_client(), messages=QUESTION)
    assert answer.content[0].text == ANSWER and answer.stop_reason == "end_turn" and answer.role == "assistant", answer
    assert answer.usage.input_tokens > 0 and answer.usage.output_tokens > 0


@check
def anthropic_system_and_parts():
    answer = ask(anthropic_client(), system=[{"type": "text", "text": "You are Bob."}],
                 messages=[{"role": "user", "content": [{"type": "text", "text": "Who are you?"}]}])
    assert "Bob" in answer.content[0].text, answer


@check
def anthropic_max_tokens():
    answer = ask(anthropic_client(), messages=QUESTION, max_tokens=3)
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 3, answer


@check
def anthropic_stop_sequence():
    answer = ask(anthropic_client(), messages=QUESTION, stop_sequences=[" France"])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == " France", answer
    assert answer.content[0].text == "The capital of", answer


@check
def anthropic_stream():
    with ask_stream(anthropic_client(), messages=QUESTION) as stream:
        types = [event.type for event in stream]
        message = stream.get_final_message()
    assert types[0] == "message_start" and types[-1] == "message_stop" and "content_block_delta" in types, types
    assert message.content[0].text == ANSWER and message.stop_reason == "end_turn", message
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0


@check
def anthropic_tool_and_its_result():
    client = anthropic_client()
    answer = ask(client, messages=WEATHER, tools=[ANTHROPIC_TOOL])
    use = answer.content[-1]
    assert answer.stop_reason == "tool_use" and use.type == "tool_use" and use.input == {"city": "Paris"}, answer
    result = {"type": "tool_result", "tool_use_id": use.id, "content": '{"temperature": 21, "sky": "clear"}'}
    answer = ask(client, tools=[ANTHROPIC_TOOL], messages=[*WEATHER, {"role": "assistant", "content": answer.content},
                                                           {"role": "user", "content": [result]}])
    assert "Paris" in answer.content[0].text, answer


@check
def anthropic_thinks_only_when_asked():
    answer = ask(anthropic_client(), messages=WEATHER, tools=[ANTHROPIC_TOOL])
    assert {block.type for block in answer.content} <= {"text", "tool_use"}, answer


@check
def anthropic_tool_stream():
    with ask_stream(anthropic_client(), messages=WEATHER, tools=[ANTHROPIC_TOOL]) as stream:
        message = stream.get_final_message()
    assert message.stop_reason == "tool_use" and message.content[-1].input == {"city": "Paris"}, message


@check
def anthropic_tool_is_forced():
    for choice in [{"type": "any"}, {"type": "tool", "name": "get_weather"}]:
        answer = ask(anthropic_client(), messages=QUESTION, tools=[ANTHROPIC_TOOL], tool_choice=choice)
        assert answer.content[-1].type == "tool_use" and list(answer.content[-1].input) == ["city"], answer


@check
def anthropic_count_tokens():
    client = anthropic_client()
    n = client.messages.count_tokens(model="tiny-chat", messages=QUESTION).input_tokens
    answer = client.messages.create(model="tiny-chat", messages=QUESTION, max_tokens=1)
    assert n == answer.usage.input_tokens, (n, answer.usage)


@check
def anthropic_errors():
    import anthropic
    client = anthropic_client()
    error = must_raise(anthropic.AuthenticationError, lambda: anthropic_client("wrong").messages.create(
        model="tiny-chat", messages=QUESTION, max_tokens=1))
    assert error.body["type"] == "error" and error.body["error"]["type"] == "authentication_error", error.body
    error = must_raise(anthropic.BadRequestError, lambda: client.messages.create(
        model="tiny-chat", messages=[{"role": "user", "content": "word " * 3000}], max_tokens=1))
    assert error.body["type"] == "error" and error.body["error"]["type"] == "invalid_request_error", error.body
    must_raise(anthropic.BadRequestError, lambda: client.messages.create(model="tiny-chat", messages=[], max_tokens=1))


@check
def anthropic_abort():
    client = anthropic_client()
    with client.messages.stream(model="tiny-chat", messages=[{"role": "user", "content": "Tell me a story."}],
                                max_tokens=200) as stream:
        next(iter(stream))
    client.close()
    must_end_soon()


# ---- litellm


def litellm_call(provider="openai", base=URL + "/v1", **more):
    import litellm
    return litellm.completion(model=f"{provider}/tiny-chat", api_base=base, api_key=KEY, messages=QUESTION, temperature=0,
                              num_retries=0, **more)


@check
def litellm_chat():
    assert litellm_call().choices[0].message.content == ANSWER


@check
def litellm_stream():
    chunks = list(litellm_call(stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == ANSWER


@check
def litellm_hosted_vllm():
    assert litellm_call("hosted_vllm").choices[0].message.content == ANSWER


@check
def litellm_embedding():
    import litellm
    given = litellm.embedding(model="openai/tiny-chat", api_base=URL + "/v1", api_key=KEY, input=["a dog"])
    assert len(given.data[0]["embedding"]) > 8


@check
def litellm_context_too_long():
    import litellm
    must_raise(litellm.ContextWindowExceededError, lambda: litellm.completion(
        model="openai/tiny-chat", api_base=URL + "/v1", api_key=KEY, num_retries=0,
        messages=[{"role": "user", "content": "word " * 3000}]))


@check
def litellm_anthropic():
    assert litellm_call("anthropic", URL, max_tokens=60).choices[0].message.content == ANSWER


@check
def litellm_responses():
    import litellm
    answer = litellm.responses(model="openai/tiny-chat", api_base=URL + "/v1", api_key=KEY, input="Hello", store=False)
    assert answer.output[0].content[0].text


for function in CHECKS:
    try:
        function()
        problem = None
    except Exception as failed:  # the other checks still run
        problem = f"{type(failed).__name__}: {failed}"[:600]
    print(json.dumps({"test": "python " + function.__name__, "problem": problem}), flush=True)
