"""The cases that every binding must do alike."""

import array
import threading

import pytest
from host_files import MemoryFile

import qinfer
from qinfer import _errors, _library


class Store:
    """Files in memory."""

    def __init__(self):
        self.files, self.opened = {}, 0

    def open(self, name, writing):
        if not writing and name not in self.files:
            raise FileNotFoundError(name)
        self.opened += 1
        return StoredFile(self, self.files.setdefault(name, bytearray()))


class StoredFile(MemoryFile):
    def __init__(self, store, data):
        super().__init__(data)
        self.store = store

    def close(self):
        self.store.opened -= 1


def prompted(model, prompt, **options):
    session = qinfer.Session(model, **options)
    session.append(prompt)
    return session


def test_greedy(model, cases):
    for case in cases["greedy"]:
        ids = []
        done = prompted(model, case["prompt"]).generate(case["new_tokens"], on_token=lambda t, _: ids.append(t))
        assert (ids, done.text) == (case["ids"], case["text"])
        session, sampled = prompted(model, case["prompt"]), []
        for _ in case["ids"]:
            session.evaluate()
            sampled.append(session.sample())
        assert sampled == case["ids"]
        assert model.detokenize(case["ids"]) == case["text"]


def test_stop_texts(model, cases):
    for case in cases["stop"]:
        done = prompted(model, case["prompt"]).generate(case["new_tokens"], stop=case["stop"])
        assert (done.text, done.finish) == (case["text"], case["finish"])


def test_text_comes_back(model, cases):
    for text in cases["roundtrip"]:
        assert model.detokenize(model.tokenize(text, special=False)) == text


def test_streams(model, cases):
    for case in cases["greedy"]:
        session = prompted(model, case["prompt"])
        pieces = list(session.stream(case["new_tokens"]))
        assert "".join(pieces) == case["text"] and len(pieces) > 5
        session = prompted(model, case["prompt"])
        for piece in session.stream(100):
            assert case["text"].startswith(piece)
            break
        # Whoever leaves the loop leaves a session that goes on.
        assert session.generate(3).new_tokens == 3


def test_chat(chat_model, cases):
    for case in cases["chat"]:
        chat = qinfer.Chat(chat_model, messages=list(case["messages"]))
        assert "".join(part.text for part in chat.stream(None) if part.kind == "content") == case["reply"]
        assert chat.messages[-1]["content"] == case["reply"]


def test_call(chat_model, cases):
    case = cases["call"]
    reply = qinfer.Reply(chat_model, qinfer.ChatPrompt([{"role": "user", "content": "Hi"}]))
    parts = [part for token in chat_model.tokenize(case["text"], parse_special=True) for part in reply.push(token)]
    assert [(part.kind, part.name) for part in parts + reply.finish()] == [("call", case["name"])]
    assert reply.message["tool_calls"][0]["function"]["name"] == case["name"]


def test_schema(model, cases):
    import json

    try:
        grammar = qinfer.Grammar.json_schema(model, cases["schema"])
    except OSError:
        pytest.skip("libqinfer_grammar was not built")
    for seed in range(5):
        session = prompted(model, "Lily: ")
        session.set_sampler(temperature=1.5, seed=seed)
        session.set_grammar(grammar)
        done = session.generate(200)
        if done.finish == "end":
            document = json.loads(done.text)
            assert len(document["name"]) <= 12 and document["age"] in (4, 5)


def test_cancel_from_another_thread(model, cases):
    cancel = qinfer.Cancel()
    session = prompted(model, "Once upon a time")
    begun = threading.Event()

    def stop():
        begun.wait()
        cancel.request()

    thread = threading.Thread(target=stop)
    thread.start()
    with pytest.raises(qinfer.CancelledError):
        while True:
            session.generate(20, on_text=lambda _: begun.set(), cancel=cancel)
            session.truncate(4)
    thread.join()
    cancel.reset()
    session.truncate(4)
    assert session.generate(16).text == cases["greedy"][0]["text"]


def test_hook(model, cases):
    case, seen = cases["hook"], []

    def ban(logits):
        logits[case["ban"]] = float("-inf")

    session = prompted(model, case["prompt"])
    session.set_logits_hook(ban, seen.append)
    assert session.generate(case["new_tokens"]).text == case["text"]
    assert seen == case["ids"]


def test_forks_and_snapshots(model, cases, tmp_path):
    case, store = cases["snapshot"], Store()
    session = prompted(model, case["prompt"])
    session.generate(case["before"])
    session.save(tmp_path / "snapshot")
    session.save(case["name"], files=store.open)
    assert list(store.files) == [case["name"]] and store.opened == 0
    cache = qinfer.KvCache(model, budget_blocks=16)
    others = [
        session.fork(),
        qinfer.Session.load(cache, tmp_path / "snapshot"),
        qinfer.Session.load(cache, case["name"], files=store.open),
    ]
    assert store.opened == 0
    rest = session.generate(case["after"]).text
    assert cases["greedy"][0]["text"].endswith(rest)
    for other in others:
        assert other.generate(case["after"]).text == rest
        assert other.tokens == session.tokens


def test_prefixes(model, cases):
    case = cases["prefix"]
    cache = qinfer.KvCache(model, prefix=True, budget_blocks=case["budget_blocks"])
    tokens = model.tokenize(case["text"] * case["times"])
    for cached in (False, True):
        with qinfer.Session(cache) as again:
            again.append(tokens)
            assert (again.generate(1).cached_tokens > 0) == cached


def test_sessions_at_once(model, cases):
    wanted = cases["concurrent"]
    cache = qinfer.KvCache(model, budget_blocks=wanted["budget_blocks"])
    done, wrong = [], []

    def run(case):
        session = qinfer.Session(cache, max_tokens=wanted["max_tokens"])
        for _ in range(wanted["rounds"]):
            session.set_tokens(model.tokenize(case["prompt"]))
            text = session.generate(case["new_tokens"]).text
            (done if text == case["text"] else wrong).append(text)

    count = wanted["sessions"]
    threads = [threading.Thread(target=run, args=(cases["greedy"][at % 2],)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(done) == count * wanted["rounds"]


def test_batches(model, cases):
    cache = qinfer.KvCache(model, budget_blocks=16)
    sessions = [qinfer.Session(cache, max_tokens=64) for _ in cases["greedy"]]
    for session, case in zip(sessions, cases["greedy"], strict=True):
        session.append(case["prompt"])
    drawn = [[] for _ in sessions]
    for _ in range(16):
        qinfer.evaluate(sessions)
        for session, ids in zip(sessions, drawn, strict=True):
            ids.append(session.sample())
    assert drawn == [case["ids"] for case in cases["greedy"]]


def test_free_in_any_order(root, cases):
    runtime = qinfer.Runtime(threads=1)
    model = qinfer.Model(root / cases["model"], runtime)
    cache = qinfer.KvCache(model)
    session = qinfer.Session(cache)
    session.append("Once upon a time")
    for handle in (runtime, cache, model):
        handle.close()
        handle.close()
    session.evaluate()
    session.close()
    with pytest.raises(ValueError, match="this Session is closed"):
        session.evaluate()


def provoke(call, case, root, model, tmp_path):
    if call == "load":
        qinfer.Model(root / case["path"])
    elif call == "append":
        qinfer.Session(model).append([1, case["token"]])
    elif call == "sample":
        qinfer.Session(model).sample()
    elif call == "cpu_target":
        qinfer.Runtime(cpu_target=case["name"])
    elif call == "files_io":

        def broken(*_):
            raise OSError("out of order")

        qinfer.Session.load(qinfer.KvCache(model), case["says"], files=broken)
    elif call == "buffer":
        session = prompted(model, "Once")
        session.evaluate()
        session.copy_logits(array.array("f", [0]))
    elif call == "budget":
        qinfer.Model(root / "examples/models/tiny-stories", memory_budget=case["bytes"])
    elif call == "kv_full":
        session = qinfer.Session(qinfer.KvCache(model, budget_blocks=1))
        session.append([1] * 100)
        session.evaluate()
    elif call == "context_full":
        session = qinfer.Session(model, max_tokens=4)
        session.append([1] * 5)
    elif call == "cancelled":
        cancel = qinfer.Cancel()
        cancel.request()
        session = qinfer.Session(model)
        session.append([1])
        session.evaluate(cancel=cancel)
    elif call == "ban_all":
        session = qinfer.Session(model)
        session.append([1])
        session.evaluate()
        session.set_bias({token: float("-inf") for token in range(model.info["n_vocab"])})
        session.sample()
    elif call == "snapshot":
        qinfer.Session.load(qinfer.KvCache(model), root / case["path"])
    elif call == "save":
        session = qinfer.Session(model)
        session.append([1])
        session.save(tmp_path / case["path"])


def test_errors(model, cases, root, tmp_path):
    for case in cases["errors"]:
        with pytest.raises(qinfer.QinferError) as failed:
            provoke(case["call"], case, root, model, tmp_path)
        assert failed.value.status == case["status"], case
        assert case["says"] in failed.value.message
        assert failed.value.detail == case.get("detail", failed.value.detail)
    statuses = {case["status"] for case in cases["errors"]}
    assert statuses == set(_errors.ERRORS) - {-1}, "every status but QINFER_E_INTERNAL is provoked"


def test_every_status_has_an_exception_of_its_own():
    for status, kind in _errors.ERRORS.items():
        error = _library.error_of(status, "what", 7)
        assert type(error) is kind and (error.status, error.message, error.detail) == (status, "what", 7)
        assert error.name.startswith("QINFER_E_")
    assert len(set(_errors.ERRORS.values())) == 13
    assert type(_library.error_of(-99, "new", 0)) is qinfer.QinferError
