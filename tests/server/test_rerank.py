"""/v1/rerank and /v1/score: a model whose files say how pairs of texts are scored, and one whose files do not."""

import base64
import json
import pathlib
import struct

from concurrent.futures import ThreadPoolExecutor

import conftest
import pytest

from clients import is_idle, until, write_reranker


def make_reranker(request, tmp_path_factory):
    """The small model of stories, told to compare "Yes" with "No"."""
    return pathlib.Path(write_reranker(request.config.getoption("--models"), tmp_path_factory.mktemp("reranker")))


def run_reranker(request, tmp_path_factory, *options):
    made = conftest.Server(request.config.getoption("--server"), str(make_reranker(request, tmp_path_factory)), *options)
    yield made
    assert made.end() == 0
    made.process.stderr.close()


@pytest.fixture(scope="module")
def reranker(request, tmp_path_factory):
    yield from run_reranker(request, tmp_path_factory)


@pytest.fixture
def small_reranker(request, tmp_path_factory):
    """Its cache holds little more than one request, and few run at once."""
    yield from run_reranker(request, tmp_path_factory, "--cache-bytes", "1MiB", "--max-running", "3")


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


def test_streams_beside_many_rerankings_have_their_room(small_reranker):
    def stream(i):
        body = {"prompt": f"{i} Once upon a time" + " a dog and a cat" * 30, "max_tokens": 60, "stream": True}
        status, _, text = small_reranker.request("POST", "/v1/completions", body)
        return status == 200 and b'"error"' not in text and text.endswith(b"data: [DONE]\n\n")

    def rank(i):
        documents = [f"{i} {j}" + " the cat sat by the house" * 20 for j in range(6)]
        status, answer = small_reranker.post("/v1/rerank", query=f"Where is the cat {i}?", documents=documents)
        return status == 200 and len(answer["results"]) == 6

    with ThreadPoolExecutor(32) as threads:
        ranked = [threads.submit(rank, i) for i in range(20)]
        streamed = [threads.submit(stream, i) for i in range(12)]
        assert all(done.result() for done in ranked + streamed)
    until(lambda: is_idle(small_reranker))


def test_hostile_requests_for_rankings_are_refused(reranker):
    for body, says in [
        ({"query": "q", "documents": ["a"] * 100_000}, "documents"),
        ({"query": "q", "documents": "a"}, "documents"),
        ({"query": ["q"], "documents": ["a"]}, "query"),
        ({"query": "q", "documents": [["a"]]}, "documents[0]"),
        ({"query": "q", "documents": [None]}, "documents[0]"),
        ({"query": "q", "documents": {"text": "a"}}, "documents"),
        ({"query": "q", "documents": ["a" * (30 << 20)]}, "at most 512"),
        ({"query": "q" * (1 << 20), "documents": ["a"] * 2048, "truncate_prompt_tokens": 100}, "bytes together"),
        ({"query": "q", "documents": ["a"], "truncate_prompt_tokens": "many"}, "truncate_prompt_tokens"),
        ({"query": "q", "documents": ["a"], "instruction": 1}, "instruction"),
        ({"query": "q", "documents": ["a"], "return_documents": "yes"}, "return_documents"),
    ]:
        status, answer = reranker.post("/v1/rerank", **body)
        assert status == 400 and says in answer["error"]["message"], (status, str(answer)[:300])
    for body in [b"", b"[]", b"{", b'{"query": "\xff", "documents": ["a"]}', b'{"query": "q"' * 1000, b"null"]:
        for path in ["/v1/rerank", "/v1/score"]:
            status, _, text = reranker.request("POST", path, body)
            assert status == 400 and b'"error"' in text, (path, body[:30])
    for body in [{"text_1": [], "text_2": "a"}, {"text_1": "a", "text_2": ["b"] * 100_000}, {"text_1": {}, "text_2": "a"},
                 {"text_1": "a", "text_2": [1]}, {"text_2": "a"}]:
        assert reranker.post("/v1/score", **body)[0] == 400
    assert reranker.post("/v1/rerank", query="q", documents=["a"])[0] == 200
