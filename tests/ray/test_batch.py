"""Batch inference by Ray Data: the rows are those of a serial run, with any number of actors, and where one is lost."""

import json
import os
import signal

import pyarrow.parquet
import pytest
import ray

import qinfer
import qinfer.ray

N_ROWS = 1000
SAMPLER = {"temperature": 0.9, "seed": 7}
MAX_TOKENS = 8
STARTS = ("The cat", "Once upon a time", "A little girl", "The dog and the bird", "It was a sunny day", "Tom")


def rows(n):
    """Each with its own seed, so that no two have the same answer."""
    return [{"id": at, "prompt": f"{STARTS[at % len(STARTS)]} {'and then ' * (at % 5)}", "seed": at + 1} for at in range(n)]


@pytest.fixture(scope="module")
def serial(model):
    """What one session after another gives, drawn token by token without a scheduler."""
    found = []
    cache = qinfer.KvCache(model, budget_blocks=20)
    for row in rows(N_ROWS):
        with qinfer.Session(cache) as session:
            session.set_sampler(**{**SAMPLER, "seed": row["seed"]})
            session.append(row["prompt"])
            begin, logprobs = len(session), []
            for _ in range(MAX_TOKENS):
                session.evaluate()
                token = session.sample()
                logprobs += session.logprobs([token])
                if token in model.end_tokens:
                    break
            found.append({"id": row["id"], "tokens": session.tokens[begin:], "logprobs": logprobs})
    return found


def of(ds, *names):
    return [{name: row[name] for name in names} for row in ds.take_all()]


def computed(stories, n_actors, n_rows=N_ROWS, rows_per_block=100):
    ds = ray.data.from_items(rows(n_rows), override_num_blocks=4)
    options = {"sampler": SAMPLER, "max_tokens": MAX_TOKENS, "context": 64, "threads": 1, "logprobs": True}
    return qinfer.ray.batch(ds, stories, actors=n_actors, rows_per_block=rows_per_block, **options)


@pytest.mark.parametrize("n_actors", [1, 2, 4])
def test_a_thousand_rows_are_those_of_a_serial_run(cluster, stories, serial, n_actors):
    assert of(computed(stories, n_actors), "id", "tokens", "logprobs") == serial


def processes():
    """Those that run actors of batch inference."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                with open(f"{entry.path}/cmdline", "rb") as told:
                    if told.read().startswith(b"ray::MapWorker(MapBatches(Inference))"):
                        found.append(int(entry.name))
            except OSError:
                pass
    return found


def test_where_an_actor_is_lost_no_row_is_and_none_is_doubled(cluster, stories, serial):
    found, killed = [], None
    for row in computed(stories, 2).iter_rows():
        found.append({name: row[name] for name in ("id", "tokens", "logprobs")})
        if killed is None:  # midway: ten blocks of rows were given to two actors, and one of them has come
            killed = min(processes())
            os.kill(killed, signal.SIGKILL)
    assert killed not in processes()
    assert found == serial


def test_a_job_goes_on_where_it_was_ended(cluster, stories, serial, tmp_path):
    """Files of results, of which one was left half written."""
    computed(stories, 1, 90, 30).write_json(str(tmp_path))
    whole = sorted(tmp_path.iterdir())
    assert len(whole) > 2 and sorted(qinfer.ray.done_ids(tmp_path)) == list(range(90))
    torn = whole[1].read_bytes()
    whole[1].write_bytes(torn[: len(torn) // 2])
    left = qinfer.ray.remaining(ray.data.from_items(rows(120)), tmp_path)
    assert [path.name for path in tmp_path.glob("*.torn")] == [f"{whole[1].name}.torn"] and not whole[1].exists()
    n_done = len(qinfer.ray.done_ids(tmp_path))
    assert 0 < n_done < 90
    options = {"sampler": SAMPLER, "max_tokens": MAX_TOKENS, "context": 64, "threads": 1, "logprobs": True}
    qinfer.ray.batch(left, stories, actors=1, **options).write_json(str(tmp_path))
    lines = [line for path in tmp_path.glob("*.json") for line in path.read_text().splitlines()]
    results = sorted(map(json.loads, lines), key=lambda row: row["id"])
    assert [(row["id"], row["tokens"]) for row in results] == [(row["id"], row["tokens"]) for row in serial[:120]]
    for row, alone in zip(results, serial, strict=False):  # write_json() writes ten digits after the point
        assert row["logprobs"] == pytest.approx(alone["logprobs"], rel=0, abs=5.1e-11)


def test_what_is_done(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table({"name": ["a", "b"], "text": ["", ""]}), tmp_path / "1.parquet")
    pyarrow.parquet.write_table(pyarrow.table({"name": ["c"] * 100}), tmp_path / "2.parquet")
    (tmp_path / "3.jsonl").write_text('{"name": "d"}\n{"name": "e"}\n')
    (tmp_path / "4.jsonl").write_text('{"name": "f"}\n{"name": "g"')
    (tmp_path / "notes.txt").write_text("of somebody")
    two = (tmp_path / "2.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(two[:-9])
    assert qinfer.ray.done_ids(tmp_path, id="name") == ["a", "b", "d", "e"]
    names = ["1.parquet", "2.parquet.torn", "3.jsonl", "4.jsonl.torn", "notes.txt"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    with pytest.raises(KeyError, match="id"):
        qinfer.ray.done_ids(tmp_path)
    assert qinfer.ray.done_ids(tmp_path / "none") == []


def test_conversations(cluster, chat, chat_model):
    questions = "What is the capital of France?", "What is the capital of Italy?"
    conversations = [[{"role": "user", "content": question}] for question in questions]
    items = [{"id": 0, "messages": conversations[0]}, {"id": 1, "messages": conversations[1]}]
    answers = [qinfer.Chat(chat_model).send(question, max_tokens=40) for question in questions]
    assert len(set(answers)) == 2
    as_text = [{**item, "messages": json.dumps(item["messages"])} for item in items]
    for one, max_tokens in ((items, 40), (as_text, 0)):
        ds = qinfer.ray.batch(ray.data.from_items(one), chat, actors=1, max_tokens=max_tokens, context=256)
        found = ds.take_all()
        assert [json.loads(row["message"]) for row in found] == [{"role": "assistant", "content": text} for text in answers]
        assert [row["prompt_tokens"] for row in found] == [len(chat_model.tokenize_chat(one)) for one in conversations]
        assert {row["finish"] for row in found} <= {"end", "stop"}


def test_embeddings(cluster, stories, model):
    texts = [row["prompt"] for row in rows(40)]
    ds = ray.data.from_items([{"id": at, "prompt": text} for at, text in enumerate(texts)])
    found = qinfer.ray.batch(ds, stories, actors=2, output="embedding", context=64).take_all()
    assert [list(row["embedding"]) for row in found] == [qinfer.embed(model, [text])[0].tolist() for text in texts]


def test_scores(cluster, stories, model):
    yes, no = (model.token(token).bytes.decode() for token in model.tokenize("yn", special=False)[:2])
    how = {"template_text": "{query} said: {document}. It was", "yes": yes, "no": no, "raw": True}
    pairs = [("Tom", "a dog"), ("Anna", "a cat"), ("Tom", "a tree")] * 10
    ds = ray.data.from_items([{"id": at, "query": query, "document": document} for at, (query, document) in enumerate(pairs)])
    found = qinfer.ray.batch(ds, stories, actors=1, output="score", context=64, how=how).take_all()
    alone = [qinfer.rerank(model, query, [document], **how)[0][1] for query, document in pairs]
    assert [row["score"] for row in found] == alone and len(set(alone)) == 3


def test_a_row_that_cannot_be_answered(cluster, stories):
    items = [{"id": 0, "prompt": "The cat"}, {"id": 1, "prompt": "cat " * 2000}, {"id": 2, "prompt": "The dog"}]

    def answers(**how):
        return qinfer.ray.batch(ray.data.from_items(items), stories, actors=1, max_tokens=4, context=64, **how)

    found = answers(errors="keep").take_all()
    assert [row["error"] is None for row in found] == [True, False, True]
    assert [row["text"] is None for row in found] == [False, True, False]
    assert "the context of 64" in found[1]["error"]
    with pytest.raises(ray.exceptions.RayTaskError, match="the context of 64"):
        answers().take_all()
    with pytest.raises(ray.exceptions.RayError, match="expected one of"):
        answers(output="song").take_all()


def test_room(cluster, stories, monkeypatch):
    """By hand: what a plan says, and 300 MiB of a process, in nodes of 2 GiB with one CPU each."""
    planned = qinfer.plan(stories, sessions=4, context=128, threads=1)
    bytes_of_one = planned["total"] + 4 * planned["per_session"] + (300 << 20)
    found = qinfer.ray.room(stories, sessions=4, context=128)
    assert found == qinfer.ray.Actors(n=2, threads=1, cpus=0.0, memory=bytes_of_one)

    def nodes(*sizes):
        told = [{"Alive": True, "Resources": {"CPU": cpus, "memory": memory}} for cpus, memory in sizes]
        monkeypatch.setattr(ray, "nodes", lambda: [*told, {"Alive": False, "Resources": {"CPU": 64.0, "memory": 1e12}}])

    nodes((9.0, 10 * bytes_of_one), (9.0, 1.5 * bytes_of_one))
    found = qinfer.ray.room(stories, sessions=4, context=128, threads=2)
    assert (found.n, found.threads, found.cpus) == (4 + 1, 2, 2.0)
    nodes((9.0, bytes_of_one - 1))
    with pytest.raises(ValueError, match=f"{bytes_of_one} B: the largest has 8 CPUs to give and {bytes_of_one - 1} B"):
        qinfer.ray.room(stories, sessions=4, context=128, threads=1)
