"""/v1/rerank and /v1/score: a model whose files say how pairs of texts are scored, and one whose files do not."""

import base64
import json
import pathlib
import struct

import conftest
import pytest


@pytest.fixture(scope="module")
def reranker(request, tmp_path_factory):
    """The small model of stories, told to compare "Yes" with "No"."""
    folder = tmp_path_factory.mktemp("reranker")
    stories = pathlib.Path(request.config.getoption("--models")).resolve() / "tiny-stories"
    for file in stories.iterdir():
        (folder / file.name).symlink_to(file)
    vocabulary = json.loads((stories / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "1_LogitScore").mkdir()
    score = {"true_token_id": vocabulary["Yes"], "false_token_id": vocabulary["No"]}
    (folder / "1_LogitScore" / "config.json").write_text(json.dumps(score))
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_LogitScore", "type": "LogitScore"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (folder / "chat_template.jinja").write_text(template)
    made = conftest.Server(request.config.getoption("--server"), str(folder))
    yield made
    assert made.end() == 0
    made.process.stderr.close()


def test_documents_come_in_the_order_of_their_scores(reranker):
    documents = ["The cat sat by the house.", {"text": "Crash!"}, "The cat sat by the house.", "A dog."]
    status, answer = reranker.post("/v1/rerank", model="m", query="Where is the cat?", documents=documents)
    assert status == 200, answer
    results = answer["results"]
    scores = [one["relevance_score"] for one in results]
    assert scores == sorted(scores, reverse=True) and all(0 < score < 1 for score in scores)
    assert sorted(one["index"] for one in results) == [0, 1, 2, 3]
    assert [one["index"] for one in results if one["index"] in (0, 2)] == [0, 2]  # equal scores
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 40
    assert "document" not in results[0]
    _, some = reranker.post("/rerank", query="Where is the cat?", documents=documents, top_n=2, return_documents=True)
    assert [one["relevance_score"] for one in some["results"]] == scores[:2]
    index = some["results"][0]["index"]
    text = documents[index] if isinstance(documents[index], str) else documents[index]["text"]
    assert some["results"][0]["document"] == {"text": text}


def test_scores_come_in_the_order_of_the_texts(reranker):
    texts = ["The cat sat by the house.", "Crash!"] * 10
    _, ranked = reranker.post("/v1/rerank", query="Where?", documents=texts)
    status, answer = reranker.post("/v1/score", text_1="Where?", text_2=texts)
    assert status == 200, answer
    by_index = {one["index"]: one["relevance_score"] for one in ranked["results"]}
    assert [one["score"] for one in answer["data"]] == [by_index[i] for i in range(20)]
    assert reranker.post("/v1/score", text_1=["Where?", "x"], text_2=["a", "b"])[0] == 200
    assert reranker.post("/v1/score", text_1=["Where?", "x"], text_2=["a"])[0] == 400


def test_what_is_wrong_is_refused_by_name(reranker, server):
    long = "word " * 600
    for body, says in [
        ({"documents": ["a"]}, "query"),
        ({"query": "q"}, "documents"),
        ({"query": "q", "documents": []}, "documents"),
        ({"query": "q", "documents": [1]}, "documents[0]"),
        ({"query": "q", "documents": [{"title": "a"}]}, "documents[0].text"),
        ({"query": "q", "documents": ["a"], "top_n": 0}, "top_n"),
        ({"query": "q", "documents": ["a"], "no_such_field": 1}, "no_such_field"),
        ({"query": "q", "documents": [long]}, "at most 512"),
    ]:
        status, answer = reranker.post("/v1/rerank", **body)
        assert status == 400 and says in answer["error"]["message"], answer
    cut = {"query": "q", "documents": [long], "truncate_prompt_tokens": -1}
    status, answer = reranker.post("/v1/rerank", **cut)
    assert status == 200 and answer["usage"]["prompt_tokens"] == 512
    assert reranker.request("GET", "/v1/rerank")[0] == 405
    status, answer = server.post("/v1/rerank", query="q", documents=["a"])
    assert status == 400 and "do not say how" in answer["error"]["message"]


def test_embeddings_have_as_many_values_as_are_asked_for(server):
    _, all_values = server.post("/v1/embeddings", input="a dog", model="m")
    status, some = server.post("/v1/embeddings", input="a dog", model="m", dimensions=8, encoding_format="base64")
    assert status == 200, some
    values = struct.unpack("<8f", base64.b64decode(some["data"][0]["embedding"]))
    assert abs(sum(x * x for x in values) - 1) < 1e-5
    whole = all_values["data"][0]["embedding"][:8]
    length = sum(x * x for x in whole) ** 0.5
    assert max(abs(a - b / length) for a, b in zip(values, whole)) < 1e-6
    status, refused = server.post("/v1/embeddings", input="a dog", model="m", dimensions=100000)
    assert status == 400 and "dimensions" in refused["error"]["message"]
