"""The interface of OpenAI's package: its objects, errors, clients, and conversations that go on."""

import asyncio
import copy
import json
import pickle
import threading

import pytest

import qinfer
import qinfer.openai as openai
from qinfer.openai.types.chat import ChatCompletion, ChatCompletionMessageParam

CAPITAL: list[ChatCompletionMessageParam] = [{"role": "user", "content": "What is the capital of France?"}]
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


@pytest.fixture(scope="module")
def path(root, cases):
    return str(root / cases["chat_model"])


@pytest.fixture(scope="module")
def client(chat_model):
    with openai.OpenAI(api_key="none", model=chat_model) as made:
        yield made


def needs_grammars(model):
    try:
        qinfer.Grammar.regex(model, "a")
    except OSError:
        pytest.skip("libqinfer_grammar was not built")


def test_absent_members_are_none(client):
    answer = client.chat.completions.create(model="any", messages=CAPITAL, temperature=0)
    message = answer.choices[0].message
    assert type(answer) is ChatCompletion and answer["choices"] is answer.choices
    assert (message.tool_calls, message.refusal, message.function_call, message.audio) == (None,) * 4
    assert answer.choices[0].logprobs is None and answer.system_fingerprint is None and answer.model == "any"
    with pytest.raises(AttributeError, match="'ChatCompletionMessage' has no attribute 'contents'"):
        message.contents
    chunks = list(client.chat.completions.create(messages=CAPITAL, temperature=0, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == message.content
    assert chunks[-1].choices[0].delta.tool_calls is None and chunks[-1].choices[0].finish_reason == "stop"


def test_objects_are_dumped_copied_and_sent_again(client):
    answer = client.chat.completions.create(messages=CAPITAL, temperature=0)
    message = answer.choices[0].message
    assert message.model_dump()["audio"] is None and "audio" not in message.model_dump(exclude_none=True)
    assert message.to_dict() == {"role": "assistant", "content": message.content, "refusal": None}
    assert message.model_dump(include={"role"}) == {"role": "assistant"}
    assert type(answer.model_dump()["choices"][0]["message"]) is dict
    assert json.loads(answer.model_dump_json(exclude_unset=True)) == json.loads(answer.to_json()) == answer
    assert ChatCompletion.model_validate_json(answer.to_json()) == ChatCompletion.model_validate(dict(answer)) == answer
    copied = answer.model_copy(deep=True)
    copied.choices[0].message.content = "other"
    assert message.content != "other" and copied.choices[0].message["content"] == "other"
    assert copy.deepcopy(answer) == pickle.loads(pickle.dumps(answer)) == answer
    assert type(pickle.loads(pickle.dumps(answer)).choices[0].message) is type(message)
    assert repr(message).startswith("ChatCompletionMessage(role='assistant', content=")
    for form in (message, message.model_dump(), message.to_dict()):
        again = client.chat.completions.create(messages=[*CAPITAL, form, *CAPITAL], temperature=0)
        assert again.choices[0].message.content == message.content


def test_a_conversation_that_goes_on_is_not_evaluated_again(chat_model):
    for made in (openai.OpenAI(model=chat_model), qinfer.Client(chat_model)):
        messages, cached, prompts = [], [], []
        for turn in range(4):
            messages.append({"role": "user", "content": f"What is {turn} + 3? " + "I like numbers very much. " * 8})
            answer = made.chat.completions.create(messages=messages, temperature=0, max_tokens=20)
            messages.append(answer.choices[0].message)
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
            prompts.append(answer.usage.prompt_tokens)
        assert cached[0] == 0
        for before, now, total in zip(prompts, cached[1:], prompts[1:]):
            assert before - 64 < now < total, (cached, prompts)


def test_usage_tools_choices_and_logprobs(client, chat_model):
    create = client.chat.completions.create
    chunks = list(create(messages=CAPITAL, stream=True, temperature=0, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens > 10 and chunks[0].usage is None
    both = create(messages=CAPITAL, n=2, temperature=1.0, seed=4, logprobs=True, top_logprobs=2)
    assert [choice.index for choice in both.choices] == [0, 1]
    first = both.choices[0].logprobs.content[0]
    assert first.logprob <= 0 and len(first.top_logprobs) == 2 and first.top_logprobs[0].bytes
    asked = [{"role": "user", "content": "What is the weather in Oslo?"}]
    called = create(messages=asked, tools=[WEATHER], temperature=0).choices[0]
    assert called.finish_reason == "tool_calls"
    assert json.loads(called.message.tool_calls[0].function.arguments) == {"city": "Oslo"}
    none = create(messages=asked, tools=[WEATHER], tool_choice="none", temperature=0, max_tokens=10)
    assert none.choices[0].message.tool_calls is None
    needs_grammars(chat_model)
    choice = {"type": "function", "function": {"name": "get_weather"}}
    forced = create(messages=CAPITAL, tools=[WEATHER], tool_choice=choice, temperature=0, max_tokens=60)
    assert forced.choices[0].message.tool_calls[0].function.name == "get_weather"


class Person:
    """As classes of pydantic look from outside."""

    def __init__(self, **members):
        self.__dict__.update(members)

    @classmethod
    def model_json_schema(cls):
        return {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"enum": [4, 5], "default": 4}},
        }

    @classmethod
    def model_validate_json(cls, text):
        return cls(**json.loads(text))


def test_strict_schemas_are_closed(client, chat_model):
    needs_grammars(chat_model)
    schema = {"type": "object", "properties": {"age": {"enum": [4, 5]}}, "required": ["age"]}
    form = {"type": "json_schema", "json_schema": {"name": "age", "strict": True, "schema": schema}}
    # A bias for what begins another member: only a closed schema does not let it begin.
    comma = {str(chat_model.tokenize(",", special=False)[0]): 100}
    options = dict(messages=CAPITAL, temperature=0, max_tokens=60, logit_bias=comma)
    closed = client.chat.completions.create(response_format=form, **options).choices[0]
    assert closed.finish_reason == "stop" and json.loads(closed.message.content).keys() == {"age"}
    form["json_schema"]["strict"] = False
    assert "," in client.chat.completions.create(response_format=form, **options).choices[0].message.content
    assert schema == {"type": "object", "properties": {"age": {"enum": [4, 5]}}, "required": ["age"]}


def test_answers_as_objects_of_classes(client, chat_model):
    needs_grammars(chat_model)
    parse = client.chat.completions.parse
    answer = parse(messages=CAPITAL, response_format=Person, temperature=0, max_tokens=80)
    person = answer.choices[0].message.parsed
    assert isinstance(person, Person) and person.age in (4, 5) and set(vars(person)) == {"name", "age"}
    assert client.beta.chat.completions.parse(messages=CAPITAL, temperature=0).choices[0].message.parsed is None
    with pytest.raises(openai.LengthFinishReasonError) as failed:
        parse(messages=CAPITAL, response_format=Person, temperature=0, max_tokens=3)
    assert failed.value.completion.usage.completion_tokens == 3
    with pytest.raises(TypeError, match="model_json_schema"):
        parse(messages=CAPITAL, response_format=int)
    tool = openai.pydantic_function_tool(Person, name="add_person")
    assert tool["function"]["parameters"]["required"] == ["name", "age"] and tool["function"]["strict"] is True
    assert tool["function"]["description"] == "As classes of pydantic look from outside."
    choice = {"type": "function", "function": {"name": "add_person"}}
    called = parse(messages=CAPITAL, tools=[tool], tool_choice=choice, temperature=0, max_tokens=80)
    assert isinstance(called.choices[0].message.tool_calls[0].function.parsed_arguments, Person)


def test_closing_goes_everywhere_and_changes_nothing_else():
    from qinfer.openai._strict import closed

    schema = {
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
        "type": "object",
        "properties": {
            "properties": {"type": "array", "items": {"type": "object", "properties": {}}},
            "either": {"anyOf": [{"type": ["object", "null"]}, {"type": "string"}]},
            "open": {"type": "object", "additionalProperties": {"type": "object"}},
            "default": {"type": "string", "enum": ["type"]},
        },
        "required": ["either"],
    }
    assert closed(schema) == {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
        },
        "type": "object",
        "properties": {
            "properties": {"type": "array", "items": {"type": "object", "properties": {}, "additionalProperties": False}},
            "either": {"anyOf": [{"type": ["object", "null"], "additionalProperties": False}, {"type": "string"}]},
            "open": {"type": "object", "additionalProperties": {"type": "object", "additionalProperties": False}},
            "default": {"type": "string", "enum": ["type"]},
        },
        "required": ["either"],
        "additionalProperties": False,
    }
    assert closed(schema, requires_all=True)["required"] == ["properties", "either", "open", "default"]


def test_errors_are_those_of_the_package_and_ours(client, chat_model, monkeypatch):
    create = client.chat.completions.create
    for fields, kind, ours, param in (
        ({"top_p": 2}, openai.BadRequestError, qinfer.FormatError, "top_p"),
        ({"audio": {}}, openai.BadRequestError, qinfer.UnsupportedError, "audio"),
        ({"messages": "hi"}, openai.BadRequestError, qinfer.FormatError, "messages"),
        ({"messages": [{"rol": "user", "content": "hi"}]}, openai.BadRequestError, qinfer.FormatError, "messages[0].role"),
        ({"extra_headers": {"a": "b"}}, openai.BadRequestError, qinfer.UnsupportedError, "extra_headers"),
    ):
        with pytest.raises(kind) as failed:
            create(**{"messages": CAPITAL, **fields})
        error = failed.value
        assert all(isinstance(error, one) for one in (ours, openai.APIStatusError, openai.OpenAIError)), fields
        assert (error.status_code, error.param, error.type) == (400, param, "invalid_request_error")
        assert error.body["message"] == error.message and error.response is None
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error) and str(again) == str(error) and again.status == error.status
    with pytest.raises(openai.BadRequestError) as failed:
        create(messages=[{"role": "user", "content": "long " * 9000}])
    assert failed.value.code == "context_length_exceeded" and isinstance(failed.value, qinfer.ContextFullError)
    with pytest.raises(openai.APITimeoutError) as failed:
        create(messages=CAPITAL, timeout=1e-9)
    assert isinstance(failed.value, openai.APIConnectionError) and isinstance(failed.value, qinfer.CancelledError)
    with pytest.raises(openai.APITimeoutError):
        list(client.with_options(timeout=1e-9).chat.completions.create(messages=CAPITAL, stream=True))
    with pytest.raises(TypeError, match="needs the argument 'messages'"):
        create(model="any")
    small = qinfer.Engine(qinfer.KvCache(chat_model, budget_blocks=200), max_running=1, max_waiting=1)
    with small, pytest.raises(openai.RateLimitError):
        openai.OpenAI(model=small).chat.completions.create(messages=CAPITAL, n=9, max_tokens=50)
    with pytest.raises(openai.APIConnectionError, match="closed"):
        openai.OpenAI(model=small).chat.completions.create(messages=CAPITAL)


def test_requests_without_a_bound_run_together(path):
    loaded = qinfer.Model(path)
    with openai.OpenAI(model=loaded) as client:
        engine = client._models.engine_of(None)
        one = qinfer.KvCache(loaded).stats["blocks_total"]
        assert engine.cache.stats["blocks_total"] == 4 * one
    small = qinfer.Model(path, memory_budget=loaded.memory["total"] + 2 * qinfer.KvCache(loaded).stats["bytes_reserved"])
    answer = openai.OpenAI(model=small).chat.completions.create(messages=CAPITAL, temperature=0)
    assert answer.choices[0].message.content == "The capital of France is Paris."


def test_an_error_is_json_for_clients_of_a_server():
    from qinfer.openai._draw import error_json

    told = json.loads(error_json(qinfer.FormatError("QINFER_E_FORMAT", -8, 'request: "top_p" is 2', 0)))["error"]
    assert told["message"] == 'request: "top_p" is 2' and told["type"] == "invalid_request_error"


def test_names_of_models(path, chat_model, monkeypatch, tmp_path):
    monkeypatch.delenv("QINFER_MODEL", raising=False)
    client = qinfer.OpenAI(models={"gpt-4o": chat_model})
    assert client.chat.completions.create(model="gpt-4o", messages=CAPITAL, max_tokens=2).model == "gpt-4o"
    with pytest.raises(openai.NotFoundError, match="known \\(gpt-4o\\)") as failed:
        client.chat.completions.create(model="gpt-5", messages=CAPITAL)
    assert isinstance(failed.value, qinfer.NotFoundError) and failed.value.code == "model_not_found"
    assert failed.value.status_code == 404
    assert client.chat.completions.create(model=path, messages=CAPITAL, max_tokens=2).model == path
    assert [one.id for one in client.models.list()] == ["gpt-4o", path] and not client.models.list().has_next_page()
    assert client.models.retrieve("gpt-4o").owned_by == "qinfer"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-5")
    monkeypatch.setenv("QINFER_MODEL", path)
    assert client.chat.completions.create(model="gpt-5", messages=CAPITAL, max_tokens=2).model == "gpt-5"
    assert [one.id for one in qinfer.OpenAI().models.list().data] == [path]
    assert len(qinfer.OpenAI(model=chat_model).models.list().data) == 1
    client.close()


def test_what_only_a_server_honours_is_refused(chat_model):
    for name, value in (("base_url", "http://localhost/v1"), ("default_headers", {}), ("http_client", object())):
        for kind in (openai.OpenAI, openai.AsyncOpenAI):
            with pytest.raises(qinfer.UnsupportedError, match=f"{name} is not supported"):
                kind(**{name: value})
    openai.OpenAI(api_key="x", organization="y", project="z", max_retries=5, timeout=None, base_url=None)
    with pytest.raises(TypeError, match="unexpected keyword argument 'api_kee'"):
        openai.OpenAI(api_kee="x")
    with pytest.raises(AttributeError, match="has no 'images': it has chat.completions, responses"):
        openai.OpenAI().images
    with pytest.raises(TypeError, match="expected seconds"):
        openai.OpenAI(timeout="1")
    client = openai.OpenAI(model=chat_model, timeout=50)
    other = client.with_options(timeout=None, max_retries=0)
    assert (client.timeout, other.timeout) == (50, None) and other.copy(timeout=3).timeout == 3
    options = dict(temperature=openai.NOT_GIVEN, tools=openai.omit, stop=None)
    assert other.chat.completions.create(messages=CAPITAL, max_tokens=2, **options).usage.completion_tokens == 2
    assert not openai.NOT_GIVEN and repr(openai.NOT_GIVEN) == "NOT_GIVEN"


def test_an_encoder_gives_embeddings_alone(root, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).symlink_to(root / "tests" / "fixtures" / "models" / "bert-f32" / name)
    size = json.loads((tmp_path / "config.json").read_text())["vocab_size"]
    words = ["[PAD]", "[UNK]", "a", "dog", "cat", *(f"word{i}" for i in range(size - 5))]
    pieces = {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 9}
    pieces["vocab"] = {word: i for i, word in enumerate(words)}
    tokenizer = {"model": pieces, "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    tokenizer |= {"post_processor": None, "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(tokenizer))
    client = openai.OpenAI(models={"bert": tmp_path})
    answer = client.embeddings.create(model="bert", input=["a dog", "a cat"])
    expected = qinfer.embed(tmp_path, ["a dog", "a cat"])
    for one, other in zip(answer.data, expected, strict=True):
        assert one.embedding == pytest.approx(list(other), rel=1e-6)
    assert answer.usage.prompt_tokens == 4 and answer.data[0].embedding != answer.data[1].embedding
    with pytest.raises(openai.BadRequestError, match="gives no logits"):
        client.completions.create(model="bert", prompt="a dog")


def test_streams_are_left_and_end(client):
    def ask():
        return client.chat.completions.create(messages=CAPITAL, stream=True, max_tokens=50)

    with ask() as stream:
        next(stream)
    assert list(stream) == []
    stream = ask()
    del stream
    for _ in range(200):
        if client._models.engine_of(None).stats["running"] == 0:
            break
        threading.Event().wait(0.02)
    assert client._models.engine_of(None).stats["running"] == 0


def test_events_of_a_stream(client, chat_model):
    with client.chat.completions.stream(messages=CAPITAL, temperature=0) as stream:
        deltas = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == final.choices[0].message.content == stream.current_completion_snapshot.choices[0].message.content
    asked = [{"role": "user", "content": "What is the weather in Oslo?"}]
    with client.chat.completions.stream(messages=asked, tools=[WEATHER], temperature=0) as stream:
        done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
        stream.close()
    assert [(event.name, json.loads(event.arguments)) for event in done] == [("get_weather", {"city": "Oslo"})]
    needs_grammars(chat_model)
    with client.chat.completions.stream(messages=CAPITAL, response_format=Person, temperature=0, max_tokens=80) as stream:
        (done,) = [event for event in stream if event.type == "content.done"]
    assert isinstance(done.parsed, Person)


def test_asyncio(chat_model, path):
    async def run():
        async with openai.AsyncOpenAI(api_key="none") as client:
            create = client.chat.completions.create
            one, two = await asyncio.gather(*[create(model=path, messages=CAPITAL, temperature=0) for _ in range(2)])
            assert one.choices == two.choices
            async with await create(model=path, messages=CAPITAL, temperature=0, stream=True) as stream:
                text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
            assert text == one.choices[0].message.content and [chunk async for chunk in stream] == []
            left = await create(model=path, messages=CAPITAL, stream=True)
            async for _ in left:
                break
            await left.close()
            await left.aclose()
            vectors = await client.embeddings.create(model=path, input=["a dog", "a cat"])
            listed = await client.models.list()
            assert [one.id async for one in client.models.list()] == [one.id for one in listed] == [path]
            assert (await client.models.retrieve(path)).id == path
            async with client.chat.completions.stream(model=path, messages=CAPITAL, temperature=0) as events:
                deltas = [event.delta async for event in events if event.type == "content.delta"]
                final = await events.get_final_completion()
                assert events.current_completion_snapshot.choices[0].message.content == text
                await events.close()
            assert "".join(deltas) == text == final.choices[0].message.content
            parsed = await client.beta.chat.completions.parse(model=path, messages=CAPITAL, temperature=0)
            assert parsed.choices[0].message.content == text
            with pytest.raises(openai.APITimeoutError):
                await client.with_options(timeout=1e-9).chat.completions.create(model=path, messages=CAPITAL)
            with pytest.raises(openai.BadRequestError):
                await create(model=path, messages=CAPITAL, top_p=2)
            done = await client.completions.create(model=path, prompt="Once", max_tokens=3, temperature=0)
            assert done.usage.completion_tokens == 3
            return vectors

    vectors = asyncio.run(run())
    assert qinfer.Client(chat_model).engine.model is chat_model
    client = qinfer.AsyncClient(chat_model)
    assert client.model is client.engine.model is chat_model
    same = openai.OpenAI(model=chat_model).embeddings.create(input=["a dog", "a cat"])
    assert [one.embedding for one in vectors.data] == [one.embedding for one in same.data]
    assert vectors.usage.total_tokens == same.usage.prompt_tokens > 0


def test_a_program_that_knows_the_package_by_another_name(chat_model):
    import qinfer as openai

    client = openai.OpenAI(model=chat_model)
    try:
        client.chat.completions.create(messages=CAPITAL, top_p=2)
    except openai.BadRequestError as failure:
        assert "top_p" in str(failure)
    assert issubclass(openai.RateLimitError, openai.APIError)
