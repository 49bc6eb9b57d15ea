"""What routes answer: choices, streams, errors, tokens, metrics."""

import json
import os
import threading
import time

import conftest

STORY = ", there was a little girl named Lily. She was a"


def test_a_completion_and_its_stream_are_one_text(server):
    asked = dict(prompt="Once upon a time", max_tokens=12, temperature=0)
    status, answer = server.post("/v1/completions", **asked)
    assert status == 200
    assert answer["choices"][0]["text"] == STORY
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["usage"]["completion_tokens"] == 12
    events = server.events("/v1/completions", **asked)
    assert "".join(event["choices"][0]["text"] for event in events) == STORY


def test_choices_are_drawn_together_and_seeded(server):
    asked = dict(prompt=["Once upon a time", "The sun"], n=3, max_tokens=20, temperature=0.9, seed=5)
    status, answer = server.post("/v1/completions", **asked)
    assert status == 200
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert len({choice["text"] for choice in answer["choices"]}) == 6
    assert server.post("/v1/completions", **asked)[1]["choices"] == answer["choices"]


def test_a_connection_has_one_answer_for_each_request(server):
    connection = server.connect()
    for stream, n, max_tokens in [(a, b, c) for a in (False, True) for b in (1, 3) for c in (1, 9)] * 2:
        body = dict(prompt="Once", max_tokens=max_tokens, n=n, stream=stream, temperature=1)
        connection.request("POST", "/v1/completions", json.dumps(body))
        response = connection.getresponse()
        text = response.read()
        assert response.status == 200
        if stream:
            assert text.endswith(b"data: [DONE]\n\n")
        else:
            assert len(json.loads(text)["choices"]) == n
    connection.request("GET", "/health")
    assert connection.getresponse().read() == b"ok\n"
    connection.close()


def test_a_chat(serve):
    server = serve(model="tiny-chat")
    asked = dict(messages=[{"role": "user", "content": "What is your name?"}], max_completion_tokens=30, temperature=0)
    status, answer = server.post("/v1/chat/completions", **asked)
    assert status == 200, answer
    content = answer["choices"][0]["message"]["content"]
    assert content
    events = server.events("/v1/chat/completions", **asked, stream_options={"include_usage": True})
    pieces = [event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"]]
    assert "".join(pieces) == content
    assert events[-1]["usage"]["completion_tokens"] == answer["usage"]["completion_tokens"]


def test_prompt_log_probabilities(server):
    status, answer = server.post("/v1/completions", prompt="Once upon a time", echo=True, logprobs=2, max_tokens=0)
    assert status == 200, answer
    logprobs = answer["choices"][0]["logprobs"]
    assert len(logprobs["token_logprobs"]) == 4
    assert all(value < 0 for value in logprobs["token_logprobs"][1:])


def test_a_prompt_that_fills_the_context_and_draws_nothing(server):
    tokens = [5] * 512
    status, answer = server.post("/v1/completions", prompt=tokens, echo=True, logprobs=1, max_tokens=0)
    assert status == 200, answer
    assert server.post("/v1/completions", prompt=tokens, max_tokens=1)[0] == 400
    assert server.post("/v1/embeddings", input=tokens, model="m")[0] == 200


def test_an_end_token_has_its_log_probability(server):
    for seed in range(20):
        asked = dict(prompt="The end.", logprobs=1, max_tokens=200, temperature=1.5, seed=seed, logit_bias={"2": 5})
        _, answer = server.post("/v1/completions", **asked)
        choice = answer["choices"][0]
        assert len(choice["logprobs"]["tokens"]) == answer["usage"]["completion_tokens"]
        if choice["finish_reason"] == "stop":
            return
    raise AssertionError("no end token was drawn")


def test_embeddings(server):
    status, answer = server.post("/v1/embeddings", input=["a dog", "a cat"], model="m")
    assert status == 200, answer
    assert [one["index"] for one in answer["data"]] == [0, 1]
    assert abs(sum(x * x for x in answer["data"][0]["embedding"]) - 1) < 1e-5


def test_errors_have_the_form_of_openai(server):
    for body, says in [
        ("", "line 1, column 1"),
        ("[1]", "object"),
        ("{", "line 1, column 2"),
        ({"prompt": "x", "temperature": "hot"}, "temperature"),
        ({"prompt": "x", "no_such_field": 1}, "no_such_field"),
        ({"prompt": "word " * 600}, "512"),
        ({"prompt": "x", "max_tokens": 100000}, "512"),
    ]:
        status, fields, text = server.request("POST", "/v1/completions", body)
        error = json.loads(text)["error"]
        assert status == 400 and fields["Content-Type"] == "application/json"
        assert says in error["message"], error
        assert set(error) == {"message", "type", "param", "code"}
    assert server.post("/v1/completions", prompt="word " * 600)[1]["error"]["code"] == "context_length_exceeded"


def test_methods_and_paths(server):
    for method, path, status in [
        ("GET", "/nothing", 404),
        ("POST", "/v1/models", 405),
        ("GET", "/v1/completions", 405),
        ("DELETE", "/health", 405),
        ("GET", "/health", 200),
        ("HEAD", "/health", 200),
        ("GET", "/ready?x=1", 200),
    ]:
        given, fields, text = server.request(method, path)
        assert given == status, (method, path)
        if status == 405:
            assert fields["Allow"]
        if method == "HEAD":
            assert text == b"" and fields["Content-Length"] == "3"


def test_tokens_there_and_back(server):
    status, answer = server.post("/tokenize", prompt="Once upon a time")
    assert status == 200 and answer["count"] == len(answer["tokens"]) == 4
    assert server.post("/detokenize", tokens=answer["tokens"])[1]["prompt"].strip() == "Once upon a time"
    for path, body in [("/tokenize", {}), ("/tokenize", {"prompt": 5}), ("/detokenize", {"tokens": "x"}),
                       ("/detokenize", {"tokens": [-1]}), ("/detokenize", {"tokens": [10**9]})]:
        assert server.post(path, **body)[0] == 400


def test_tokens_of_a_conversation_and_their_texts(serve):
    server = serve(model="tiny-chat")
    messages = [{"role": "user", "content": "What is your name?"}]
    status, answer = server.post("/tokenize", messages=messages, return_token_strs=True)
    assert status == 200, answer
    assert "What is your name?" in "".join(answer["token_strs"])
    chat = server.post("/v1/chat/completions", messages=messages, max_completion_tokens=1)[1]
    assert chat["usage"]["prompt_tokens"] == answer["count"] == len(answer["tokens"])
    info = json.loads(server.request("GET", "/tokenizer_info")[2])
    assert "message" in info["chat_template"] and info["eos_token"] in ("<|im_end|>", "<|endoftext|>")
    for body in [{"messages": 5}, {"messages": messages, "add_generation_prompt": False}, {"prompt": "a", "x": 1}]:
        assert server.post("/tokenize", **body)[0] == 400


def test_a_long_text_is_tokenized_while_others_are_answered(server):
    done = []
    thread = threading.Thread(target=lambda: done.append(server.post("/tokenize", prompt="word " * 2_000_000)))
    thread.start()
    start, longest = time.monotonic(), 0
    while thread.is_alive():
        begun = time.monotonic()
        assert server.request("GET", "/health")[0] == 200
        longest = max(longest, time.monotonic() - begun)
    ((status, answer),) = done
    assert status == 200 and answer["count"] == len(answer["tokens"]) > 2_000_000
    assert longest < max(1, (time.monotonic() - start) / 2)


def test_models_and_metrics(server):
    _, _, text = server.request("GET", "/v1/models")
    models = json.loads(text)["data"]
    assert [model["id"] for model in models] == ["tiny-stories"]
    assert models[0]["max_model_len"] == 512
    assert json.loads(server.request("GET", "/v1/models/tiny-stories")[2]) == models[0]
    assert server.request("GET", "/v1/models/other")[0] == 404
    assert server.metric("vllm:num_requests_running") == 0
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert server.metric("qinfer_requests_total") > 5
    assert 0 < server.metric("vllm:time_to_first_token_seconds_count") <= server.metric("qinfer_requests_total")
    assert server.metric("qinfer_inter_token_latency_seconds_sum") > 0


def test_a_name_that_is_no_utf_8(request, tmp_path):
    """Of the model's folder; such a name is no text of JSON."""
    path = os.fsencode(tmp_path) + b"/caf\xe9"
    os.symlink(os.path.abspath(f"{request.config.getoption('--models')}/tiny-stories"), path)
    server = conftest.Server(request.config.getoption("--server"), path)
    assert server.request("GET", "/v1/models")[0] == 200
    assert server.post("/v1/completions", prompt="a", max_tokens=2)[0] == 200
    assert server.end() == 0
    server.process.stderr.close()


def test_many_clients_get_what_each_gets_alone(server):
    prompts = [f"Once upon a time there were {n} cats" for n in range(16)]
    alone = [server.post("/v1/completions", prompt=p, max_tokens=30, temperature=0)[1]["choices"] for p in prompts]
    together = [None] * len(prompts)

    def ask(i):
        together[i] = server.post("/v1/completions", prompt=prompts[i], max_tokens=30, temperature=0)[1]["choices"]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {
            "type": "object",
            "properties": {"city": {"$ref": "#/$defs/city"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
            "required": ["city", "days"],
            "additionalProperties": False,
            "$defs": {"city": {"enum": ["Oslo", "Rome"]}},
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}


def test_contents_fulfil_a_schema(serve):
    server = serve(model="tiny-chat")
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
    format = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    for temperature in (0, 1.5):
        asked = dict(messages=[{"role": "user", "content": "How many?"}], temperature=temperature, max_tokens=60, n=3, seed=1)
        status, answer = server.post("/v1/chat/completions", **asked, response_format=format)
        assert status == 200, answer
        for choice in answer["choices"]:
            if choice["finish_reason"] == "stop":
                assert isinstance(json.loads(choice["message"]["content"])["n"], int)
    format["json_schema"]["schema"] = {"type": "array", "uniqueItems": True}
    status, answer = server.post("/v1/chat/completions", **asked, response_format=format)
    assert status == 400 and "uniqueItems" in answer["error"]["message"]


def test_a_call_that_is_cut_off_is_no_content(serve):
    server = serve(model="tiny-chat")
    asked = dict(messages=[{"role": "user", "content": "x"}], tools=[WEATHER], tool_choice="required", max_tokens=4)
    message = server.post("/v1/chat/completions", **asked)[1]["choices"][0]["message"]
    assert message["content"] == "" and "tool_calls" not in message
    events = server.events("/v1/chat/completions", **asked)
    assert not any(event["choices"][0]["delta"].get("content") for event in events)
    status, answer = serve().post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}])
    assert status == 400 and answer["error"]["type"] == "invalid_request_error"


def test_a_call_that_must_be_made_is_made(serve):
    server = serve(model="tiny-chat")
    messages = [{"role": "user", "content": "What is the weather in Rome?"}]
    named = {"type": "function", "function": {"name": "weather"}}
    for choice, tools in [("required", [WEATHER]), ("required", [CLOCK, WEATHER]), (named, [CLOCK, WEATHER])]:
        asked = dict(messages=messages, tools=tools, tool_choice=choice, temperature=1.2, seed=3, max_tokens=200)
        status, answer = server.post("/v1/chat/completions", **asked)
        assert status == 200, answer
        assert answer["choices"][0]["finish_reason"] == "tool_calls"
        message = answer["choices"][0]["message"]
        assert message["content"] is None
        (call,) = message["tool_calls"]
        assert call["type"] == "function" and call["id"]
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "weather":
            assert arguments["city"] in ("Oslo", "Rome") and 1 <= arguments["days"] <= 9
        else:
            assert choice == "required" and call["function"]["name"] == "clock" and arguments == {}
        events = server.events("/v1/chat/completions", **asked)
        deltas = [event["choices"][0]["delta"] for event in events]
        streamed = [one for delta in deltas for one in delta.get("tool_calls", [])]
        assert [one["function"] for one in streamed] == [call["function"]]
        assert not any(delta.get("content") for delta in deltas)


def test_calls_of_different_answers_have_different_ids(chat):
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
    asked = {"messages": [{"role": "user", "content": "What is the weather in Oslo?"}], "tools": [tool], "seed": 1,
             "temperature": 0}
    ids = []
    for _ in range(3):
        status, answer = chat.post("/v1/chat/completions", **asked)
        assert status == 200
        ids += [call["id"] for call in answer["choices"][0]["message"]["tool_calls"]]
    assert len(ids) == len(set(ids)) == 3 and all(len(one) == 9 and one.isalnum() for one in ids)
