"""Models' files without a loaded model: plans, what headers say, packing, exports; and what the library says of itself."""

import sys
import types

import pytest

import qinfer


def test_plans_are_what_caches_and_budgets_take(path):
    model = qinfer.Model(path, max_batch_tokens=64)
    planned = qinfer.plan(path, max_batch_tokens=64)
    assert planned["scratch"] == model.memory["scratch"] < qinfer.plan(path)["scratch"]
    for options in ({"budget_blocks": 9, "kv_type": "f32"}, {"budget_blocks": 5, "block_tokens": 64}):
        cache = qinfer.KvCache(model, **options)
        assert qinfer.plan(path, **options)["kv_cache_bytes"] == cache.stats["bytes_reserved"] > 0, options
    narrow, wide = (qinfer.plan(path, sessions=2, context=100, kv_type=kind) for kind in ("bf16", "f32"))
    assert wide["kv_per_token"] == 2 * narrow["kv_per_token"]
    assert wide["kv_cache_bytes"] > narrow["kv_cache_bytes"]
    assert qinfer.plan(path, budget_bytes=1 << 22)["kv_cache_bytes"] <= 1 << 22
    locked = qinfer.plan(path, mmap=False)
    assert locked["weights_mapped"] == 0 and qinfer.plan(path, cpu_target="reference", exact=True)["total"] > 0
    with pytest.raises(TypeError, match="plan\\(\\) got an unexpected keyword argument 'kv'"):
        qinfer.plan(path, kv="f16")
    with pytest.raises(ValueError, match="kv_type is 'q8', expected one of 'default', 'f32', 'f16', 'bf16'"):
        qinfer.plan(path, kv_type="q8")


def test_maps_add_up_to_the_total(path):
    options = {"sessions": 2, "context": 100, "kv_type": "f16", "threads": 1}
    mapped, planned = qinfer.plan_map(path, **options), qinfer.plan(path, **options)
    sizes = {"model": 0, "cache": 0, "session": 0}
    for region in mapped["regions"]:
        sizes[region["belongs_to"]] += region["bytes"]
    assert sizes["model"] + sizes["cache"] == planned["total"] and sizes["session"] == planned["per_session"]


def test_headers(path, cases, root):
    details, info = qinfer.inspect(path), qinfer.Model(path).info
    for name in ("architecture", "n_params", "n_vocab", "n_layers", "n_embd", "context_tokens", "file_bytes"):
        assert details[name] == info[name], name
    assert details["weight_types"] and details["n_ffn"] > 0
    with pytest.raises(qinfer.NotFoundError):
        qinfer.inspect(root / "no such model")


def text_of(model):
    with qinfer.Session(model) as session:
        session.append("Once upon a time")
        return session.generate(16).text


def test_packed_and_exported_models_say_the_same(path, cases, tmp_path):
    seen = []
    packed, exported, small = tmp_path / "packed", tmp_path / "model.gguf", tmp_path / "small.gguf"
    qinfer.pack(path, packed, progress=lambda done, total: seen.append((done, total)))
    qinfer.export_gguf(path, exported)
    qinfer.export_gguf(path, small, qinfer.Runtime(threads=1), weight_format="q8_0")
    assert seen and seen[-1][0] == seen[-1][1]
    for file in (packed, exported):
        assert text_of(qinfer.Model(file)) == cases["greedy"][0]["text"]
    assert small.stat().st_size < exported.stat().st_size
    assert "q8_0" in {one["name"] for one in qinfer.Model(small).encodings}
    assert text_of(qinfer.Model(path, packed_path=packed, verify=True)) == cases["greedy"][0]["text"]
    with pytest.raises(qinfer.FormatError):
        qinfer.pack(path, exported)
    with pytest.raises(TypeError, match="pack\\(\\) got an unexpected keyword argument 'format'"):
        qinfer.pack(path, packed, format="q8_0")


def test_flags_of_loading(path, cases):
    model = qinfer.Model(path, qinfer.Runtime(threads=1, normal_pages=True), mmap=False, embed_rows=True)
    assert model.memory["weights_mapped"] == 0 and text_of(model) == cases["greedy"][0]["text"]
    budget = qinfer.plan(path)["total"] - qinfer.plan(path)["weights_mapped"]
    if qinfer.plan(path)["weights_mapped"]:
        with pytest.raises(qinfer.NoMemoryError):
            qinfer.Model(path, memory_budget=budget + 1000)
        assert qinfer.Model(path, memory_budget=budget + (1 << 20), budget_private=True).info["n_vocab"] > 0
    with pytest.raises(TypeError, match="Model\\(\\) got an unexpected keyword argument 'memory'"):
        qinfer.Model(path, memory=5)


def test_kernel_sets_and_runtimes(path):
    sets = qinfer.kernel_sets()
    names = [one.name for one in sets]
    assert "reference" in names and len(set(names)) == len(names)
    (default,) = [one for one in sets if one.default]
    assert default.name == qinfer.cpu_info()["target"] and default.usable
    features = qinfer.cpu_info()["features"].split()
    for one in sets:
        assert "f32" in one.kv_types and one.weight_formats
        assert not one.usable or set(one.cpu_features) <= set(features), one
    runtime = qinfer.Runtime(threads=1, cpu_ids=[0])
    text_of(qinfer.Model(path, runtime))
    assert runtime.metrics["decode_tokens"] > 10 and len(runtime.metrics["drafted"]) == 16
    with pytest.raises(ValueError, match="out of range"):
        qinfer.Runtime(cpu_ids=[-1])


def test_what_tokens_sessions_and_experts_say(model, chat_model):
    seen = []
    session = qinfer.Session(model)
    session.append("Once upon a time")
    done = session.generate(5, on_token_info=seen.append, top=3)
    assert "".join(one.text for one in seen) == done.text and [len(one.top) for one in seen[:5]] == [3] * 5
    assert all(one.top[0] == (one.token, one.logprob) and one.logprob < 0 for one in seen[:5])
    assert session.generate(50, on_token_info=seen.append, stop=[" named"]).finish == seen[-1].finish == "stop"
    assert session.generate(50, on_token_info=lambda info: False).finish == "callback"
    assert session.memory["kv_private"] > 0
    assert model.expert_counts(0) == []
    with pytest.raises(qinfer.InvalidArgumentError):
        model.expert_counts(1000)
    assert chat_model.chat_template_names and chat_model.chat_template(chat_model.chat_template_names[0])
    tokens = [model.token(token) for token in range(model.info["n_vocab"])]
    assert {one.byte for one in tokens} <= {True, False} and all(len(one.bytes) == 1 for one in tokens if one.byte)


def test_spaces_of_prefixes(model):
    cache, tokens = qinfer.KvCache(model, budget_blocks=40, prefix=True), model.tokenize("Once upon a time. " * 12)

    def cached(space):
        with qinfer.Session(cache, prefix_space=space) as session:
            session.append(tokens)
            return session.generate(1).cached_tokens

    assert [cached(1), cached(2)] == [0, 0] and cached(1) > 0


def test_errors_are_in_words_of_python(model):
    session = qinfer.Session(model)
    session.append("Once")
    session.evaluate()
    with pytest.raises(qinfer.StateError, match="embeddings=True") as failed:
        session.embedding()
    assert "QINFER_SESSION" not in str(failed.value)
    with pytest.raises(ValueError, match="pooling is 'avg', expected one of 'default', 'last', 'mean', 'first'"):
        session.embedding("avg")
    with pytest.raises(ValueError, match="kv_type is 'q8', expected one of"):
        qinfer.KvCache(model, kv_type="q8")
    with pytest.raises(ValueError, match="max_tokens is -1, which is out of range: 0 to"):
        session.generate(-1)
    with pytest.raises(TypeError, match="temperature is 'warm', expected a number"):
        session.set_sampler(temperature="warm")
    with pytest.raises(TypeError, match="a list of texts"):
        qinfer.embed(model, "a text")
    with pytest.raises(TypeError, match="unexpected keyword argument 'temprature'"):
        session.set_sampler(temprature=1)


def test_files_of_the_hub(path, monkeypatch, tmp_path):
    asked = []

    def snapshot_download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tmp_path)

    hub = types.ModuleType("huggingface_hub")
    hub.snapshot_download = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", hub)
    qinfer.export_gguf(path, tmp_path / "model-Q8_0.gguf", weight_format="q8_0")
    model = qinfer.Model("somebody/model:*Q8_0.gguf")
    assert asked == [("somebody/model", ["*Q8_0.gguf"])] and model.info["n_vocab"] > 0
    (tmp_path / "other-Q8_0.gguf").write_bytes(b"")
    for pattern in ("*Q8_0.gguf", "*Q4_0.gguf"):
        with pytest.raises(qinfer.NotFoundError, match="one is expected"):
            qinfer.inspect(f"somebody/model:{pattern}")


def test_the_types_of_dicts_are_the_members_of_structs():
    from qinfer import _abi, _infos

    structs = {
        "CpuInfo": "cpu_info", "RuntimeInfo": "runtime_info", "ModelDetails": "model_details", "ModelInfo": "model_info",
        "EncodingInfo": "encoding_info", "Memory": "memory", "CacheStats": "kv_cache_stats", "StoreStats": "kv_store_stats",
        "SessionInfo": "session_info", "SessionMemory": "session_memory", "Metrics": "metrics",
        "EngineStats": "scheduler_stats",
    }  # fmt: skip
    more = {"CpuInfo": {"model_name", "features"}, "EngineStats": {"memory_bytes"}}
    assert structs.keys() == {name for name, value in vars(_infos).items() if hasattr(value, "__total__")}
    for name, struct in structs.items():
        members = {member for member, *_ in getattr(_abi, f"qinfer_{struct}")._fields_} - {"struct_size", "reserved"}
        assert getattr(_infos, name).__annotations__.keys() == members | more.get(name, set()), name
    members = {member for member, *_ in _abi.qinfer_sampler_options._fields_} - {"struct_size", "reserved"}
    assert qinfer.SamplerOptions.__annotations__.keys() == members | {"dry_breakers"}
