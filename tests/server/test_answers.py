"""What routes answer: choices, streams, errors, tokens, metrics."""

import json
import threading

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


def test_models_and_metrics(server):
    _, _, text = server.request("GET", "/v1/models")
    models = json.loads(text)["data"]
    assert [model["id"] for model in models] == ["tiny-stories"]
    assert models[0]["max_model_len"] == 512
    assert server.metric("vllm:num_requests_running") == 0
    assert server.metric("vllm:kv_cache_usage_perc") == 0
    assert server.metric("qinfer_requests_total") > 5


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


def test_what_is_not_there_is_refused(serve):
    server = serve(model="tiny-chat")
    schema = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    status, answer = server.post("/v1/chat/completions", messages=[{"role": "user", "content": "x"}], response_format=schema)
    assert status == 400 and "schema" in answer["error"]["message"]
