"""What only Python has: exceptions in callbacks, numpy, asyncio, completions, the command line, the declarations."""

import asyncio
import json
import re
import subprocess
import sys
import types

import pytest
from host_files import DiskFile

import qinfer


class Stop(Exception):
    pass


def raising(*_):
    raise Stop


def prompted(model, **options):
    session = qinfer.Session(model, **options)
    session.append("Once upon a time")
    return session


def test_exceptions_pass_through_callbacks(model, root, cases):
    for arguments in ({"on_text": raising}, {"on_token": raising}):
        session = prompted(model)
        with pytest.raises(Stop):
            session.generate(10, **arguments)
        assert session.generate(3).new_tokens == 3
    session = prompted(model)
    session.set_logits_hook(raising)
    session.evaluate()
    with pytest.raises(Stop):
        session.sample()
    with pytest.raises(Stop):
        session.generate(3)
    with pytest.raises(Stop):
        list(session.stream(3))
    session.set_logits_hook(None)
    assert session.generate(3).new_tokens == 3
    with pytest.raises(Stop):
        qinfer.Model(root / cases["model"], progress=raising)


def test_exceptions_pass_through_files(model, root, cases, tmp_path):
    class Broken(DiskFile):
        """A file of which one method raises."""

        def __init__(self, path, name, failure):
            super().__init__(path)
            self.name, self.failure = name, failure

        def __getattribute__(self, name):
            if name == object.__getattribute__(self, "name"):
                raise object.__getattribute__(self, "failure")
            return object.__getattribute__(self, name)

    saved = tmp_path / "snapshot"
    prompted(model).save(saved)
    for method in ("size", "read_at", "close"):
        with pytest.raises(Stop):
            qinfer.Session.load(qinfer.KvCache(model), "a name", files=lambda *_: Broken(saved, method, Stop()))
    for method in ("size", "read_at"):
        failure = OSError("no disk")
        with pytest.raises(qinfer.IoError, match="a name") as failed:
            qinfer.Session.load(qinfer.KvCache(model), "a name", files=lambda *_: Broken(saved, method, failure))
        assert failed.value.__cause__ is failure
    with pytest.raises(qinfer.NotFoundError, match="a name"):
        qinfer.Session.load(qinfer.KvCache(model), "a name", files=lambda *_: open(tmp_path / "none"))
    with pytest.raises(Stop):
        prompted(model).save("a name", files=raising)

    def from_disk(name, _):
        path = root / name
        if not path.is_file():
            raise FileNotFoundError
        return Broken(path, "", None)

    loaded = qinfer.Model(cases["model"], files=from_disk)
    assert prompted(loaded).generate(16).text == cases["greedy"][0]["text"]


def test_logits_into_the_room_of_the_caller(model, cases):
    numpy = pytest.importorskip("numpy")
    session, room = prompted(model), numpy.zeros(model.info["n_vocab"], numpy.float32)
    session.evaluate()
    assert session.copy_logits(room) == len(room) and (room == session.logits()).all()
    with pytest.raises(TypeError, match="32-bit floats"):
        session.copy_logits(room.astype(float))


def test_a_hook_sees_and_bans(model, cases):
    numpy = pytest.importorskip("numpy")
    seen, taken_back = [], []

    def no_the(logits):
        assert isinstance(logits, numpy.ndarray) and logits.shape == (model.info["n_vocab"],)
        logits[cases["greedy"][0]["ids"][1]] = -numpy.inf

    session = prompted(model)
    session.set_logits_hook(no_the, seen.append, taken_back.append)
    session.generate(10)
    assert len(seen) == 10 and cases["greedy"][0]["ids"][1] not in seen
    session.truncate(len(session) - 2)
    assert taken_back == [2]


def test_callbacks_end_a_generation(model):
    pieces = []
    done = prompted(model).generate(50, on_text=lambda piece: pieces.append(piece) or len(pieces) < 3)
    assert done.finish == "callback" and len(pieces) == 3


def test_logits_and_log_probabilities(model, cases):
    numpy = pytest.importorskip("numpy")
    session = prompted(model, max_logits=2)
    session.evaluate(keep_logits=2)
    logits = session.logits()
    assert logits.dtype == numpy.float32 and logits.argmax() == cases["greedy"][0]["ids"][0]
    assert not numpy.array_equal(session.logits(1), logits)
    best = session.top_logprobs(3)
    assert best[0][0] == logits.argmax()
    expected = logits.astype(float) - numpy.log(numpy.exp(logits.astype(float) - logits.max()).sum()) - logits.max()
    assert numpy.allclose([value for _, value in best], numpy.sort(expected)[::-1][:3], atol=1e-9)
    assert session.logprobs([best[0][0]]) == [best[0][1]]
    with pytest.raises(qinfer.StateError):
        session.logits(5)


def test_embeddings(model):
    numpy = pytest.importorskip("numpy")

    def embed(text):
        session = qinfer.Session(model, embeddings=True)
        session.append(text)
        session.evaluate()
        return session.embedding()

    cat, tree, crash = embed("The cat sat by the house."), embed("The cat sat by the tree."), embed("Crash!")
    assert abs(float(numpy.linalg.norm(cat)) - 1) < 1e-5
    assert cat @ tree > cat @ crash
    both = qinfer.embed(model, ["The cat sat by the house.", "Crash!"])
    assert numpy.allclose(both, [cat, crash], atol=1e-6)
    first = qinfer.embed(model, ["Crash!"], dims=8)[0]
    assert first.shape == (8,) and abs(float(numpy.linalg.norm(first)) - 1) < 1e-5
    assert qinfer.embed(model, []) == []
    tokens, cut = model.embedding_tokens("Once upon a time", truncate=True, max_tokens=3)
    assert len(tokens) == 3 and cut == len(model.tokenize("Once upon a time")) - 3
    with pytest.raises(qinfer.ContextFullError, match="at most 3 are taken"):
        model.embedding_tokens("Once upon a time", max_tokens=3)
    assert model.embedding_tokens("Crash!", prompt_text="The ")[0] == model.tokenize("The Crash!")
    assert model.prompts == {} and model.default_prompt is None
    with pytest.raises(qinfer.NotFoundError, match="no prompts"):
        model.embedding_tokens("Crash!", prompt="query")


def test_prompts_of_files(root, cases, tmp_path):
    for file in (root / cases["model"]).iterdir():
        (tmp_path / file.name).symlink_to(file)
    prompts = {"prompts": {"query": "find: ", "document": ""}, "default_prompt_name": "query"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    model = qinfer.Model(tmp_path)
    assert model.prompts == {"document": "", "query": "find: "} and model.default_prompt == "query"
    assert model.embedding_tokens("it", prompt="query")[0] == model.tokenize("find: it")


def test_scores(model):
    how = {"template_text": "{query} said: {document}. It was", "yes": "y", "no": "n", "raw": True}
    how["yes"], how["no"] = (model.token(token).bytes.decode() for token in model.tokenize("yn", special=False)[:2])
    documents = ["a dog", "a cat", "a dog"]
    ranked = qinfer.rerank(model, "Tom", documents, **how)
    assert sorted(at for at, _ in ranked) == [0, 1, 2]
    scores = dict(ranked)
    assert scores[0] == scores[2] and [at for at, _ in ranked if at != 1] == [0, 2]
    session = qinfer.Session(model)
    assert session.set_pair("Tom", "a cat", **how) == 0
    session.evaluate()
    logits = session.logits()
    yes, no = model.find_token(how["yes"]), model.find_token(how["no"])
    assert session.score(**how) == pytest.approx(float(logits[yes]) - float(logits[no]), abs=1e-5)
    assert 0 < session.score(**{**how, "raw": False}) < 1
    with pytest.raises(qinfer.UnsupportedError, match="qwen3-reranker"):
        session.set_pair("Tom", "a cat")


def test_asyncio(model, cases):
    async def main():
        first, second = prompted(model), prompted(model)

        async def collect(session):
            return "".join([piece async for piece in session.astream(16)])

        return await asyncio.gather(collect(first), collect(second))

    assert asyncio.run(main()) == [cases["greedy"][0]["text"]] * 2


def test_tools(chat_model):
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    function = {"name": "get_weather", "description": "Get the weather in a city", "parameters": parameters}
    chat = qinfer.Chat(chat_model, tools=[{"type": "function", "function": function}])
    parts = list(chat.stream("What is the weather in Paris?"))
    calls = [part for part in parts if part.kind == "call"]
    assert [(call.name, call.text) for call in calls] == [("get_weather", '{"city": "Paris"}')]
    assert chat.messages[-1]["tool_calls"][0]["function"]["arguments"] == {"city": "Paris"}
    client = qinfer.Client(chat_model)
    message = [{"role": "user", "content": "What is the weather in Oslo?"}]
    response = client.chat.completions.create(messages=message, tools=chat.tools, temperature=0)
    assert response.choices[0].finish_reason == "tool_calls"
    assert response.choices[0].message.tool_calls[0].function.arguments == '{"city": "Oslo"}'


def test_turns_evaluate_what_is_new(chat_model):
    chat = qinfer.Chat(chat_model)
    chat.send("Hello!")
    before, length = chat.session.metrics, len(chat.session)
    assert chat.send("What is the capital of France?") == "The capital of France is Paris."
    after = chat.session.metrics
    evaluated = sum(after[name] - before[name] for name in ("prefill_tokens", "decode_tokens"))
    # The end token of the first reply was never evaluated, nor is that of the second.
    assert evaluated == len(chat.session) - length


def test_a_conversation_that_fills_the_context(chat_model):
    """It has no room for a reply, which is not an empty one."""
    tokens = chat_model.tokenize_chat([{"role": "user", "content": "Hello!"}])
    for room in (len(tokens) - 1, len(tokens)):
        chat = qinfer.Chat(chat_model, session=qinfer.Session(chat_model, max_tokens=room))
        with pytest.raises(qinfer.ContextFullError, match=f"has {len(tokens)} tokens .* {room} has no room"):
            chat.send("Hello!")
        assert chat.messages == []
    chat = qinfer.Chat(chat_model, session=qinfer.Session(chat_model, max_tokens=len(tokens) + 1))
    assert chat.send("Hello!") and chat.result.finish == "length"


def test_completions(chat_model):
    client = qinfer.Client(chat_model)
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    whole = client.chat.completions.create(messages=messages, temperature=0)
    assert whole.choices[0].message.content == "The capital of France is Paris."
    assert whole.choices[0].finish_reason == "stop" and whole.usage.completion_tokens > 5
    for stop, text in ((" is Paris", "The capital of France"), ("nowhere", "The capital of France is Paris.")):
        chunks = client.chat.completions.create(messages=messages, temperature=0, stream=True, stop=stop)
        assert "".join(chunk.choices[0].delta.get("content", "") for chunk in chunks) == text
    short = client.chat.completions.create(messages=messages, temperature=0, max_tokens=3)
    assert short.choices[0].finish_reason == "length" and short.usage.completion_tokens == 3


def test_forms_of_the_service(chat_model):
    ask = qinfer.Client(chat_model).chat.completions.create
    messages = [{"role": "user", "content": [{"type": "text", "text": "What is the capital of France?"}]}]
    greedy = {"temperature": None, "top_p": 0, "seed": 2**64 - 1}
    answer = ask(messages=messages, n=2, logprobs=True, top_logprobs=1, **greedy)
    assert [choice.message.content for choice in answer.choices] == ["The capital of France is Paris."] * 2
    assert "".join(each.token for each in answer.choices[0].logprobs.content) == answer.choices[0].message.content
    chunks = list(ask(messages=messages, stream=True, stream_options={"include_usage": True}, **greedy))
    assert chunks[-1].usage == ask(messages=messages, **greedy).usage and chunks[-1].choices == []
    with pytest.raises(qinfer.UnsupportedError, match="audio"):
        ask(messages=messages, audio={})
    with pytest.raises(qinfer.FormatError, match="top_p"):
        ask(messages=messages, top_p=2)
    left = ask(messages=messages, stream=True)
    next(left)
    left.close()


def test_completions_and_embeddings_of_the_service(model):
    client = qinfer.Client(model)
    echoed = client.completions.create(prompt=["Once upon a time", [5, 6]], echo=True, logprobs=1, max_tokens=2)
    first, second = echoed.choices
    assert first.text.startswith("Once upon a time") and first.logprobs.token_logprobs[0] is None
    assert len(second.logprobs.tokens) == 4
    answer = client.embeddings.create(input=["a dog", "a cat"])
    with qinfer.Session(model, embeddings=True) as session:
        session.append(model.tokenize("a cat"))
        session.evaluate()
        assert list(session.embedding()) == pytest.approx(answer.data[1].embedding, rel=1e-6)


def test_a_grammar_is_for_any_number_of_sessions(model):
    try:
        grammar = qinfer.Grammar.regex(model, "[a-c]{3}")
    except OSError:
        pytest.skip("libqinfer_grammar was not built")
    for _ in range(3):
        session = prompted(model)
        session.set_grammar(grammar)
        text = session.fork().generate(10).text
        assert len(text) == 3 and set(text) <= set("abc")
    with pytest.raises(qinfer.FormatError):
        qinfer.Grammar.regex(model, "a(b")
    with pytest.raises(qinfer.UnsupportedError, match="uniqueItems"):
        qinfer.Grammar.json_schema(model, {"type": "array", "uniqueItems": True})


def test_a_grammar_that_cannot_go_on_says_why(model, monkeypatch):
    """A hook can only cancel the call."""
    from qinfer import _grammar

    sized = _grammar.sized
    monkeypatch.setattr(_grammar, "sized", lambda kind, **fields: sized(kind, **fields, **limits.get(kind, {})))
    limits = {_grammar._abi.qinfer_grammar_options: {"mask_work": 1}}
    try:
        grammar = qinfer.Grammar.regex(model, "(a|b)*c")
    except OSError:
        pytest.skip("libqinfer_grammar was not built")
    session = qinfer.Session(model)
    session.append("The cat")
    session.set_grammar(grammar)
    session.evaluate()
    for draws in (session.sample, session.generate, lambda: list(session.stream())):
        with pytest.raises(qinfer.UnsupportedError, match="limit"):
            draws()
    with pytest.raises(qinfer.UnsupportedError, match="limit"):
        qinfer.generate(model, ["The cat"], 5, grammar=grammar)
    session.set_grammar(None)
    assert session.generate(3).new_tokens == 3


def test_a_lark_grammar(model):
    try:
        grammar = qinfer.Grammar.lark(model, 'start: "a" DIGITS\nDIGITS: /[0-9]{2}/')
    except OSError:
        pytest.skip("libqinfer_grammar was not built")
    session = prompted(model)
    session.set_grammar(grammar)
    assert re.fullmatch("a[0-9]{2}", session.generate(10).text)


def test_what_the_library_says_of_itself():
    assert re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", qinfer.version()) and qinfer.version() == qinfer.__version__
    assert f"qinfer {qinfer.version()}" in qinfer.build_info()
    cpu = qinfer.cpu_info()
    assert 1 <= cpu["n_physical_cores"] <= cpu["n_logical_cores"]
    assert cpu["model_name"] and isinstance(cpu["features"], str)
    assert qinfer.Runtime(threads=1).info == {"n_threads": 1, "target": cpu["target"]}
    assert qinfer.Runtime(threads=2, cpu_target="reference").info == {"n_threads": 2, "target": "reference"}


def test_what_a_model_says_of_itself(chat_model, root, cases):
    folder = root / cases["chat_model"]
    assert chat_model.chat_template() == (folder / "chat_template.jinja").read_text()
    with pytest.raises(qinfer.NotFoundError):
        chat_model.chat_template("no such template")
    config = json.loads((folder / "config.json").read_text())
    assert chat_model.metadata["config.model_type"] == config["model_type"]
    assert int(chat_model.metadata["config.vocab_size"]) == config["vocab_size"] == chat_model.info["n_vocab"]


def test_what_a_session_says_of_itself(model):
    session = prompted(model, max_tokens=40, max_logits=2, embeddings=True)
    session.evaluate(keep_logits=2)
    session.append([5, 6])
    session.set_bias({5: 1.0})
    session.set_logits_hook(lambda _: None)
    expected = {"max_tokens": 40, "max_logits": 2, "n_logits": 2, "n_bias": 1, "has_logits_hook": 1}
    expected |= {"n_tokens": len(session), "n_evaluated": len(session) - 2}
    assert expected.items() <= session.info.items()


def test_plans_are_what_is_taken(model, root, cases):
    taken = qinfer.Model(root / cases["model"]).memory
    planned = qinfer.plan(root / cases["model"])
    for name in ("weights_mapped", "weights_private", "scratch"):
        assert planned[name] == taken[name], name
    two = qinfer.plan(root / cases["model"], sessions=2, context=100)
    assert two["kv_cache_bytes"] >= 2 * 100 * two["kv_per_token"] > 0


def test_closing_waits_for_what_runs(model):
    session = prompted(model)
    pieces = session.stream(300)
    next(pieces)
    session.close()
    with pytest.raises(ValueError, match="closed"):
        session.generate(1)
    list(pieces)
    session = prompted(model)
    with pytest.raises(RuntimeError, match="a callback of its own call"):
        session.generate(5, on_text=lambda _: session.close())
    assert session.generate(3).new_tokens == 3


def test_a_hub_that_fails_is_a_model_not_found(monkeypatch):
    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = raising
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    with pytest.raises(qinfer.NotFoundError, match="the hub does not give it"):
        qinfer.Model("nobody/no-such-model")


def test_a_hub_id_names_what_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(qinfer.NotFoundError, match="pip install huggingface_hub"):
        qinfer.Model("nobody/no-such-model")


def test_messages_are_whole(model):
    text = "x" * 600
    with pytest.raises(qinfer.QinferError) as failed:
        qinfer.Model("/" + text)
    assert text in str(failed.value)


def test_no_output_of_its_own(root, cases):
    code = f"import qinfer; qinfer.Session(qinfer.Model({str(root / cases['model'])!r})).append('a')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (run.stdout, run.stderr) == (b"", b"")


def test_declarations_are_those_of_the_headers(root):
    pytest.importorskip("pycparser")
    subprocess.run([sys.executable, root / "bindings" / "python" / "make_abi.py", "--check"], check=True)


def test_readme_and_example_run(root, cases):
    text = (root / "bindings" / "python" / "README.md").read_text()
    lines = text.split("```python\n")[1].split("```")[0]
    assert "models/Qwen3-0.6B-Q4_K_M.gguf" in lines
    code = lines.replace("models/Qwen3-0.6B-Q4_K_M.gguf", str(root / cases["chat_model"]))
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "The capital of France is Paris."
    example = root / "bindings" / "python" / "examples" / "story.py"
    run = subprocess.run([sys.executable, example, root / cases["model"]], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("Once upon a time") and " tokens, " in run.stdout


def test_the_bench_runs(root):
    bench = root / "bindings" / "python" / "bench" / "overhead.py"
    run = subprocess.run([sys.executable, bench, "1"], capture_output=True, text=True, check=True)
    assert run.stdout.count(" us a token, ") == 3


def test_stages_give_the_logits_of_the_whole_model(model, root, cases):
    path, n = root / cases["model"], model.info["n_layers"]
    stages = [qinfer.Model(path, model.runtime, layers=layers) for layers in (range(2), range(2, 3), range(3, n))]
    assert [stage.info["n_layers"] for stage in stages] == [2, 1, n - 3]
    tokens = model.tokenize("Once upon a time")
    sessions = [qinfer.Session(qinfer.KvCache(one, budget_blocks=4)) for one in (model, *stages)]
    for piece in (tokens[:-1], tokens[-1:]):
        for session in sessions:
            session.append(piece)
        sessions[0].evaluate()
        hidden = None
        for session in sessions[1:]:
            hidden = qinfer.evaluate_stage([session], hidden)
        assert hidden == []
        assert bytes(memoryview(sessions[0].logits())) == bytes(memoryview(sessions[-1].logits()))
    sessions[2].append([1])
    for wrong in ([b"abcd"], [], None):
        with pytest.raises((ValueError, qinfer.QinferError)):
            qinfer.evaluate_stage([sessions[2]], wrong)
    with pytest.raises(ValueError, match="one after another"):
        qinfer.Model(path, layers=range(0, n, 2))
