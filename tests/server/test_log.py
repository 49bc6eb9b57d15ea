"""Lines of JSON on stderr: one for each request, none with what was asked, answered or kept secret."""

import json
import signal
import socket
import subprocess
import threading
import time

import pytest

LINE = {"id", "method", "path", "status", "ms", "stream", "left", "key"}
DRAWN = {"queue_ms", "first_token_ms", "prompt_tokens", "cached_tokens", "completion_tokens", "finish"}


def ended(server):
    """The lines after those of its start, once it has ended with status 0."""
    server.process.send_signal(signal.SIGTERM)
    _, text = server.process.communicate(timeout=60)
    assert server.process.returncode == 0
    return [json.loads(line) for line in text.split("\n")[:-1]]


def requests_of(lines):
    return [line for line in lines if line["event"] == "request"]


def test_a_request_is_a_line(serve):
    server = serve("--log", "info")
    assert [json.loads(line)["event"] for line in [*server.said, server.last_line]] == ["start", "ready"]
    assert server.post("/v1/completions", prompt="Once upon a SECRET", max_tokens=7, seed=1)[0] == 200
    server.events("/v1/completions", prompt="Once upon a SECRET", max_tokens=5, seed=1, n=2)
    assert server.post("/v1/embeddings", input=["a dog", "a cat"])[0] == 200
    assert server.request("GET", "/health")[0] == 200
    assert server.request("GET", "/nothing?secret=SECRET")[0] == 404
    assert server.post("/v1/completions", prompt=5)[0] == 400
    lines = ended(server)
    assert [line["event"] for line in lines] == ["request"] * 5 + ["drain", "end"]
    whole, stream, embedded, missing, wrong = requests_of(lines)
    for line in lines:
        assert line["level"] == "info" and time.strptime(line["time"][:19], "%Y-%m-%dT%H:%M:%S")
        assert line["time"].endswith("Z") and "SECRET" not in json.dumps(line)
    for line in [whole, stream]:
        assert line.keys() == {"time", "level", "event"} | LINE | DRAWN
        assert line["status"] == 200 and line["key"] is None and not line["left"] and line["finish"] in ["length", "stop"]
        assert 0 <= line["queue_ms"] <= line["first_token_ms"] <= line["ms"] + 0.001
    assert (whole["completion_tokens"], stream["completion_tokens"]) == (7, 10)
    assert (whole["stream"], stream["stream"]) == (False, True)
    assert whole["prompt_tokens"] > 3 and embedded["prompt_tokens"] >= 4 and embedded["completion_tokens"] == 0
    assert missing.keys() == wrong.keys() == {"time", "level", "event"} | LINE
    assert (missing["path"], missing["status"], wrong["status"]) == ("/nothing", 404, 400)
    assert len({line["id"] for line in requests_of(lines)}) == 5


def test_levels(serve, tmp_path):
    server = serve("--log", "debug")
    server.request("GET", "/health")
    assert [line["level"] for line in requests_of(ended(server))] == ["debug"]
    for level in ["off", "error"]:
        server = serve("--log", level)
        server.request("GET", "/nothing")
        assert ended(server) == []
    folder = tmp_path / "parked"
    folder.mkdir()
    server = serve("--log", "error", "--cache-bytes", "1MiB", "--park", str(folder))
    folder.rmdir()
    body = {"prompt": "Once upon a time", "max_tokens": 400, "temperature": 0.9, "logit_bias": {"2": -100}}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.post("/v1/completions", **body))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    failed = [answer for status, answer in answers if status == 500]
    assert failed and "parked" in json.dumps(failed)
    assert str(tmp_path) not in json.dumps(failed)  # nor is a client told where folders are
    lines = ended(server)
    assert len(lines) == len(failed) and {line["level"] for line in lines} == {"error"}
    assert {line["finish"] for line in lines} == {"error"}


def test_keys_are_told_apart_and_not_told(serve, tmp_path):
    (tmp_path / "keys").write_text("first-key\nsecond-key\n")
    server = serve("--log", "info", "--keys", str(tmp_path / "keys"))
    for key in ["first-key", "second-key", "first-key", "wrong-key"]:
        server.request("GET", "/v1/models", headers={"Authorization": f"Bearer {key}"})
    (tmp_path / "keys").write_text("")
    server.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    lines = ended(server)
    keys = [line["key"] for line in requests_of(lines)]
    assert keys[0] == keys[2] != keys[1] and keys[3] is None and len(keys[0]) == 8
    assert "-key" not in json.dumps(lines)
    assert "reload" in [line["event"] for line in lines]
    assert any(line["event"] == "message" and "has no key" in line["message"] for line in lines)


def test_ids_are_those_of_clients_where_they_can_be(serve):
    server = serve("--log", "info")
    given = {"abc-1.2:3": True, "a" * 128: True, "a" * 129: False, "a b": False, 'a"b': False, "a\\b": False, "": False,
             "\xe4": False}
    ids = []
    for asked, is_taken in given.items():
        _, fields, _ = server.request("GET", "/v1/models", headers={"X-Request-Id": asked})
        assert (fields["X-Request-Id"] == asked) == is_taken, asked
        ids.append(fields["X-Request-Id"])
    status, fields, _ = server.request("POST", "/v1/completions", {"prompt": "a", "max_tokens": 1, "stream": True},
                                       {"X-Request-Id": "stream-1"})
    assert status == 200 and fields["X-Request-Id"] == "stream-1"
    received, _ = server.raw(b"GET /health\r\n\r\n")
    assert b"\r\nX-Request-Id: " in received  # of what is no request, too
    lines = requests_of(ended(server))
    assert [line["id"] for line in lines[:-1]] == [*ids, "stream-1"]
    assert lines[-1]["status"] == 400 and lines[-1]["path"] == ""


@pytest.mark.parametrize("path", [b'/"}\\', b"/\xff\xfe", b"/\xed\xa0\x80", b"/%00%0a", b"/a\xc2\x85b", b"/" + b"a" * 9000])
def test_hostile_paths_are_texts(serve, path):
    server = serve("--log", "info")
    received, _ = server.raw(b"GET " + path + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 4")
    [line] = requests_of(ended(server))
    assert line["path"].startswith("/") or line["path"] == ""


def test_a_client_that_leaves_is_told_of(serve):
    server = serve("--log", "info")
    body = json.dumps({"prompt": "Once", "max_tokens": 400, "n": 8, "stream": True, "logit_bias": {"2": -100}}).encode()
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    connection.close()
    time.sleep(0.5)
    [line] = requests_of(ended(server))
    assert line["left"] and line["status"] == 200 and line["finish"] is None


def test_contents_where_they_are_asked_for(serve):
    server = serve("--log", "info", "--log-contents")
    _, answer = server.post("/v1/completions", prompt="Once upon a time", max_tokens=5, seed=1)
    server.post("/v1/completions", prompt="a" * 200_000)
    first, second = requests_of(ended(server))
    assert json.loads(first["request"])["prompt"] == "Once upon a time" and json.loads(first["answer"]) == answer
    assert len(second["request"]) == 64 << 10


def test_a_stderr_that_nobody_reads_stops_nothing(serve):
    server = serve("--log", "info")
    connection = server.connect()
    for _ in range(300):
        connection.request("GET", "/" + "a" * 8000)
        assert connection.getresponse().read()
    connection.close()
    assert server.request("GET", "/health")[0] == 200
    lost = []
    reader = threading.Thread(target=lambda: lost.extend(json.loads(line).get("lost", 0) for line in server.process.stderr))
    reader.start()
    time.sleep(0.5)
    assert server.request("GET", "/nothing")[0] == 404
    assert server.end() == 0
    reader.join()
    assert sum(lost) > 0 and len(lost) + sum(lost) == 300 + 3


def test_a_stderr_that_nobody_reads_does_not_keep_it_from_ending(serve):
    server = serve("--log", "info")
    connection = server.connect()
    for _ in range(100):
        connection.request("GET", "/" + "a" * 8000)
        connection.getresponse().read()
    connection.close()
    begun = time.monotonic()
    assert server.end() == 0 and time.monotonic() - begun < 10


def test_a_start_that_fails_is_a_line(request):
    program = request.config.getoption("--server")
    made = subprocess.run([program, "/nothing/here", "--port", "0", "--log", "info"], capture_output=True, text=True,
                          timeout=30)
    lines = [json.loads(line) for line in made.stderr.splitlines()]
    assert made.returncode == 1 and [line["event"] for line in lines] == ["start", "end"]
    assert lines[1]["level"] == "error" and "/nothing/here" in lines[1]["message"]
    assert subprocess.run([program, "x", "--log", "loud"], capture_output=True, timeout=30).returncode == 2
