"""What one client may take of what all share, and learn of what others do: room, bodies, threads, names of files."""

import json
import socket
import threading
import time

import pytest

from clients import all_of, begin, is_idle, LONG, run_program, to_the_end, until


BODIES = ("--bodies-bytes", "4MiB", "--max-body-bytes", "3MiB")


def begin_body(server, length=None, path=b"/tokenize"):
    """A request of which the body is to come: in chunks, or so many bytes."""
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    framing = b"Transfer-Encoding: chunked" if length is None else b"Content-Length: %d" % length
    connection.sendall(b"POST %s HTTP/1.1\r\nHost: a\r\n%s\r\n\r\n" % (path, framing))
    return connection


def test_bodies_have_a_bound_together(serve):
    server = serve(*BODIES)
    first = begin_body(server, 2 << 20)
    until(lambda: server.metric("qinfer_body_bytes") == 2 << 20)
    for path, kind in [(b"/tokenize", b'"type":"overloaded_error"'), (b"/v1/messages", b'"type":"error"')]:
        refused = all_of(begin_body(server, 3 << 20, path))
        assert refused.startswith(b"HTTP/1.1 503") and b"\r\nRetry-After: " in refused and kind in refused
    expects = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    expects.sendall(b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\nExpect: 100-continue\r\n\r\n")
    assert all_of(expects).startswith(b"HTTP/1.1 503")
    assert server.post("/tokenize", prompt="small ones pass " * 3000)[0] == 200
    first.close()
    until(lambda: server.metric("qinfer_body_bytes") == 0)
    status, answer = server.post("/tokenize", prompt="a" * (5 << 19))
    assert status == 200
    until(lambda: server.metric("qinfer_body_bytes") == 0)


def test_a_body_in_chunks_has_its_part_as_it_grows(serve):
    server = serve(*BODIES)
    first = begin_body(server, 2 << 20)
    until(lambda: server.metric("qinfer_body_bytes") == 2 << 20)
    second = begin_body(server)
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    second.sendall(chunk * 20)
    until(lambda: server.metric("qinfer_body_bytes") == (2 << 20) + 20 * 0x10000)
    try:
        second.sendall(chunk * 20)
    except OSError:
        pass
    assert all_of(second).startswith(b"HTTP/1.1 503")
    until(lambda: server.metric("qinfer_body_bytes") == 2 << 20)
    first.close()


def test_a_bound_of_all_bodies_holds_one(request):
    path = f"{request.config.getoption('--models')}/tiny-stories"
    ended = run_program(request, path, "--port", "0", "--bodies-bytes", "1MiB")
    assert ended.returncode == 1 and "--bodies-bytes is 1048576, less than the 33554432" in ended.stderr


def test_large_bodies_that_are_prepared_delay_no_small_ones(serve):
    server = serve()
    many = [threading.Thread(target=server.post, args=("/tokenize",), kwargs={"prompt": f"{i} " + "a dog " * (1 << 19)})
            for i in range(6)]
    for thread in many:
        thread.start()
    until(lambda: server.metric("qinfer_body_bytes") > 8 << 20)
    begun = time.monotonic()
    assert server.post("/tokenize", prompt="a")[0] == 200
    assert server.metric("qinfer_body_bytes") > 0  # they are still prepared
    assert time.monotonic() - begun < 3
    for thread in many:
        thread.join()


def test_more_choices_than_can_wait_are_refused_for_good(serve):
    server = serve("--max-running", "2", "--max-waiting", "10")
    status, answer = server.post("/v1/completions", prompt=["a", "b"], n=8, max_tokens=1)
    assert status == 400 and "16 choices" in answer["error"]["message"] and "at most 12" in answer["error"]["message"]
    assert server.post("/v1/embeddings", input=["a"] * 16)[0] == 200


def test_a_piece_of_a_stream_may_be_large(serve):
    server = serve("--cache-bytes", "1GiB")
    body = {"prompt": " a dog and a cat" * 72, "n": 30, "echo": True, "logprobs": 20, "max_tokens": 0, "stream": True}
    status, _, text = server.request("POST", "/v1/completions", body)
    assert status == 200 and text.count(b'"finish_reason":"length"') == 30 and len(text) > 8 << 20
    assert text.endswith(b"data: [DONE]\n\n")


def test_a_large_schema_delays_no_other_request(serve):
    server = serve(model="tiny-chat")

    def ask(n, more=""):
        schema = {"type": "object", "properties": {f"name{i}{more}": {"type": "string", "pattern": f"^[a-z]{{1,{i % 9 + 2}}}x{i}$"}
                                                   for i in range(n)}}
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        return server.post("/v1/chat/completions", messages=[{"role": "user", "content": "Hello"}], max_tokens=2,
                           response_format=form)

    assert ask(1)[0] in [200, 400]  # the vocabulary is there then
    status, answer = ask(3000)
    assert status == 400 and "bytes, and at most 131072" in answer["error"]["message"]
    large = [threading.Thread(target=ask, args=(1000, f"_{i}")) for i in range(3)]
    for thread in large:
        thread.start()
    time.sleep(0.1)
    begun = time.monotonic()
    assert server.post("/v1/chat/completions", messages=[{"role": "user", "content": "Hello"}], max_tokens=2)[0] == 200
    assert ask(1, "a")[0] in [200, 400]
    assert time.monotonic() - begun < 2
    for thread in large:
        thread.join()


def test_paths_without_a_version(serve):
    server = serve()
    assert server.post("/completions", prompt="a", max_tokens=1)[0] == 200
    assert server.post("/embeddings", input="a")[0] == 200
    assert server.request("GET", "/models")[2] == server.request("GET", "/v1/models")[2]
    assert server.post("/chat/completions", messages=[])[0] == 400
    assert server.request("GET", "/completions")[0] == 405


def test_what_is_evaluated_for_log_probabilities_takes_nothing_from_others(serve):
    server = serve("--cache-bytes", "3MiB", "--max-running", "8")
    statuses, ends = [], threading.Event()

    def score(i):
        while not ends.is_set():
            body = {"prompt": f"{i}" + " a dog and a cat" * 60, "max_tokens": 1, "echo": True, "logprobs": 1}
            statuses.append(server.post("/v1/completions", **body)[0])
            statuses.append(server.post("/v1/embeddings", input=[f"{i}" + " a dog and a cat" * 60] * 3)[0])

    def complete(i):
        body = {**LONG, "stream": False, "prompt": f"A cat {i}", "max_tokens": 150}
        statuses.append(server.post("/v1/completions", **body)[0])

    scoring = [threading.Thread(target=score, args=(i,)) for i in range(4)]
    completing = [threading.Thread(target=complete, args=(i,)) for i in range(24)]
    for thread in scoring + completing:
        thread.start()
    for thread in completing:
        thread.join()
    ends.set()
    for thread in scoring:
        thread.join()
    assert set(statuses) == {200} and len(statuses) >= 24 + 8


def test_a_prompt_without_new_tokens_gives_its_blocks_back_at_once(serve):
    prompts = [f"{i}" + " a dog and a cat" * 60 for i in range(20)]  # all together have no room
    status, answer = serve("--cache-bytes", "1MiB").post("/v1/completions", prompt=prompts, max_tokens=0, echo=True,
                                                          logprobs=1)
    assert status == 200 and len(answer["choices"]) == 20


def test_a_key_is_not_told_what_another_has_sent(serve, tmp_path):
    (tmp_path / "keys").write_text("one\ntwo\n")
    server = serve("--keys", str(tmp_path / "keys"))

    def cached(key):
        body = {"prompt": "Once upon a time there was a little dog." * 10, "max_tokens": 2}
        status, _, text = server.request("POST", "/v1/completions", body, {"Authorization": f"Bearer {key}"})
        assert status == 200
        return json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]

    assert cached("one") == 0
    assert cached("one") >= 32
    assert cached("two") == 0
    server.process.send_signal(1)  # SIGHUP: a key stays who it is
    assert cached("one") >= 32 and cached("two") >= 32


def begin_wide(server, n_streams, **more):
    """Streams that pause, since nobody reads them: each of eight choices with their log probabilities."""
    wide = {**LONG, "logprobs": 5, "n": 8, "prompt": "A dog", **more}
    streams = [begin(server, {**wide, "prompt": f"A dog {i}"}, 8192) for i in range(n_streams)]
    until(lambda: server.metric("qinfer_connections_slow") >= 2)
    return streams


@pytest.mark.parametrize("sips", [False, True], ids=["reads nothing", "reads a byte now and then"])
def test_clients_that_do_not_read_end_when_others_wait(serve, sips):
    server = serve("--slow-s", "2", "--cache-bytes", "1GiB")
    streams = begin_wide(server, 6)
    ends = threading.Event()

    def sip():
        while not ends.wait(0.5):
            for stream in streams:
                stream.recv(1)

    sipping = threading.Thread(target=sip)
    if sips:
        sipping.start()
    begun = time.monotonic()
    assert server.post("/v1/completions", prompt="Once upon a time", max_tokens=5)[0] == 200
    assert time.monotonic() - begun < 8
    ends.set()
    if sips:
        sipping.join()
    for stream in streams:
        stream.close()
    until(lambda: is_idle(server))


def test_a_client_that_does_not_read_may_rest_while_nobody_waits(serve):
    server = serve("--slow-s", "0", "--max-running", "4")
    [stream] = [begin(server, {**LONG, "logprobs": 5, "n": 8}, 8192)]  # four of its choices wait
    until(lambda: server.metric("qinfer_connections_slow") == 1)
    time.sleep(1)
    assert to_the_end(stream).count(b'"finish_reason":"') == 8


def test_who_does_not_read_loses_nothing_where_requests_are_parked(serve, tmp_path):
    server = serve("--slow-s", "30", "--cache-bytes", "3MiB", "--park", str(tmp_path))
    streams = begin_wide(server, 2)
    begun = time.monotonic()
    asked = {"prompt": "Once upon a time " * 30, "max_tokens": 20}
    assert server.post("/v1/completions", **asked)[0] == 200
    assert time.monotonic() - begun < 15 and server.metric("qinfer_requests_parked") > 0
    answers = []
    readers = [threading.Thread(target=lambda stream=stream: answers.append(to_the_end(stream))) for stream in streams]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [answer.count(b'"finish_reason":"') for answer in answers] == [8, 8]


def test_a_context_can_be_shorter_than_the_models(serve):
    server = serve("--context", "100")
    assert json.loads(server.request("GET", "/v1/models")[2])["data"][0]["max_model_len"] == 100
    status, answer = server.post("/v1/completions", prompt=" a dog" * 40, max_tokens=90)
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"
    assert "context length is 100 tokens" in answer["error"]["message"]
    whole = serve("--context", "100000")  # no more than the model takes
    assert json.loads(whole.request("GET", "/tokenizer_info")[2])["model_max_length"] == 512
