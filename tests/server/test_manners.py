"""What a server does with clients that leave, do not read, send what they should not or are too many, and with signals."""

import json
import os
import re
import resource
import socket
import struct
import subprocess
import threading
import time

import pytest

from clients import all_of, begin, is_idle, LONG, read_all, run_program, to_the_end, until


def test_requests_may_follow_each_other_at_once(server):
    one = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    received, closed = server.raw(one * 5 + b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + one)
    assert received.count(b"HTTP/1.1 200") == 6 and closed


def test_bodies_come_in_chunks_and_after_a_hundred(server):
    body = b'6\r\n{"prom\r\n9;x=y\r\npt": "x"}\r\n0\r\nX: y\r\n\r\n'
    head = b"POST /tokenize HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    received, _ = server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert received.startswith(b"HTTP/1.1 200")
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head + b"Content-Length: 15\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"prompt": "x"}')
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("begin", [b"5;a=", b"5\r\nhello\r\n0\r\nX: "], ids=["extension", "trailer"])
def test_lines_of_a_chunked_body_have_a_bound(server, begin):
    head = b"POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    received, closed = server.raw(head + begin + b"a" * 100_000)
    assert closed and (received == b"" or received.startswith(b"HTTP/1.1 400"))
    assert server.request("GET", "/health")[0] == 200


def test_keys(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("# two\nsecret\nanother\n")
    server = serve("--keys", str(keys))
    assert server.request("GET", "/health")[0] == 200
    for given, status in [(None, 401), ("Bearer secre", 401), ("Bearer secrets", 401), ("secret", 401), ("Bearer ", 401),
                          ("Bearer # two", 401), ("Bearer secret", 200), ("Bearer another", 200)]:
        headers = {} if given is None else {"Authorization": given}
        assert server.request("GET", "/v1/models", headers=headers)[0] == status, given
    assert server.request("GET", "/v1/models", headers={"x-api-key": "secret"})[0] == 200
    keys.write_text("third\n")
    server.process.send_signal(1)  # SIGHUP
    until(lambda: server.request("GET", "/v1/models", headers={"Authorization": "Bearer third"})[0] == 200)
    assert server.request("GET", "/v1/models", headers={"Authorization": "Bearer secret"})[0] == 401


@pytest.mark.parametrize("option", ["--keys", "--keep", "--park"])
def test_an_empty_name_is_none(request, option):
    program, models = request.config.getoption("--server"), request.config.getoption("--models")
    ended = subprocess.run([program, f"{models}/tiny-stories", "--port", "0", option, ""], capture_output=True,
                           text=True, timeout=20)
    assert ended.returncode == 2 and f"{option}: is empty" in ended.stderr


def test_who_has_no_key_sends_no_body(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys))
    head = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n"
    for length in [b"Content-Length: 30000000\r\n", b"Content-Length: 9\r\nExpect: 100-continue\r\n",
                   b"Transfer-Encoding: chunked\r\n"]:
        received, closed = server.raw(head + length + b"\r\n")
        assert closed and received.startswith(b"HTTP/1.1 401") and b"invalid_api_key" in received
    # A trailer is no head.
    late = b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nAuthorization: Bearer secret\r\n\r\n"
    assert server.raw(head + late)[0].startswith(b"HTTP/1.1 401")
    known = b"Authorization: Bearer secret\r\nExpect: 100-Continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    received, closed = server.raw(head + known)
    assert closed and received.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400")


def crowded(serve, *options):
    """A server, and a request that takes it minutes: a thousand choices, one after the other."""
    server = serve("--max-running", "1", "--max-waiting", "1024", *options)
    return server, {**LONG, "prompt": [f"Once upon a time {i}" for i in range(10)], "n": 100}


def test_a_client_that_leaves_ends_its_request(serve):
    for _ in range(2):
        server, body = crowded(serve)
        connection = begin(server, body)
        reader = threading.Thread(target=read_all, args=(connection,))  # of one who does not read nothing is kept long
        reader.start()
        until(lambda: not is_idle(server))
        connection.shutdown(socket.SHUT_RDWR)
        reader.join()
        connection.close()
        until(lambda: is_idle(server), 5)
        until(lambda: server.metric("qinfer_kv_cache_usage_perc") == 0, 5)
        assert server.metric("qinfer_generation_rows_total") < 50_000  # of 300,000 and more


def test_one_that_leaves_before_its_answer_ends_it_too(serve):
    server, body = crowded(serve)
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    data = json.dumps({**body, "stream": False}).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    until(lambda: server.metric("qinfer_num_requests_running") == 1)
    connection.close()
    until(lambda: is_idle(server), 5)


@pytest.mark.parametrize("more", [b"", b"GET /health HTTP/1.1\r\n"], ids=["", "and has sent more"])
@pytest.mark.parametrize("is_reset", [False, True], ids=["closed", "reset"])
def test_one_is_missed_however_it_has_left(serve, more, is_reset):
    server, body = crowded(serve)
    connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
    data = json.dumps({**body, "stream": False}).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    until(lambda: server.metric("qinfer_num_requests_running") == 1)
    connection.sendall(more)
    if is_reset:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    time.sleep(0.1)
    connection.close()
    until(lambda: is_idle(server), 5)


def test_too_many_are_told_when_to_come_again(serve):
    server, body = crowded(serve)
    stream = begin(server, body)
    for _ in range(3):
        status, fields, text = server.request("POST", "/v1/completions", {**body, "stream": False})
        assert status == 429 and b"waiting" in text
        assert int(fields["Retry-After"]) > 5
    assert not is_idle(server)  # what was refused in part is gone, and no other
    stream.close()
    until(lambda: server.metric("qinfer_num_requests_waiting") == 0, 5)
    assert server.post("/v1/completions", prompt="Once upon a time", max_tokens=2)[0] == 200


def test_nothing_of_what_is_refused_in_part_is_given(serve):
    server = serve("--max-running", "4", "--max-waiting", "100")
    body = {"prompt": "a", "n": 104, "max_tokens": 4, "stream": True}
    for _ in range(100):
        status, _, text = server.request("POST", "/v1/completions", body)
        if status == 200:  # it came when some had begun
            assert text.endswith(b"data: [DONE]\n\n") and b"HTTP/1.1" not in text
        else:
            assert status == 429 and json.loads(text)["error"]["type"] == "overloaded_error"


def test_a_stream_that_began_with_comments_is_refused_within(serve):
    server = serve("--keep-alive-s", "1", "--cache-bytes", "60MiB")  # which its prompts fill, one after the other
    body = {"prompt": [f"{i}" + " a dog and a cat" * 60 for i in range(16)], "n": 8, "echo": True, "logprobs": 1,
            "max_tokens": 1, "stream": True}
    status, _, text = server.request("POST", "/v1/completions", body)
    assert status == 200 and text.startswith(b": still here") and b"HTTP/1.1" not in text
    assert text.endswith(b"data: [DONE]\n\n") and b"overloaded_error" in text


def test_what_the_cache_never_holds_is_refused_for_good(serve):
    status, answer = serve("--cache-bytes", "200KiB").post("/v1/completions", **{**LONG, "stream": False})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded"


def test_who_writes_slowly_is_not_waited_for(serve):
    server = serve("--head-s", "1", "--body-s", "1")
    head = b"POST /tokenize HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n"
    for data in [b"", b"GET /he", head, head + b"\r\n", head + b"\r\n{"]:
        begun = time.monotonic()
        received, closed = server.raw(data)
        assert closed and received == b""
        assert 0.5 < time.monotonic() - begun < 5
    until(lambda: server.metric("qinfer_connections") == 1)


def test_a_head_that_comes_bit_by_bit_has_no_more_time(serve):
    server = serve("--head-s", "1")
    for before in [b"", b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"]:  # the first request, and a later one
        with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
            connection.sendall(before)
            if before:
                assert connection.recv(1000).endswith(b"ok\n")
            begun = time.monotonic()
            with pytest.raises(OSError):
                while time.monotonic() - begun < 10:
                    connection.sendall(b"G")
                    time.sleep(0.1)
            assert 0.5 < time.monotonic() - begun < 5


def test_connections_have_a_bound_and_resting_ones_cost_nothing(serve):
    server = serve("--max-connections", "50")
    resting = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(50)]
    status, _, text = server.request("GET", "/health")
    assert status == 503 and b"all 50 connections are taken" in text
    many = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(40)]
    told = [all_of(connection) for connection in many]
    assert any(answer.startswith(b"HTTP/1.1 503") for answer in told) and b"" in told
    for connection in resting + many:
        connection.close()
    until(lambda: _is_healthy(server))  # once the server has seen them leave
    until(lambda: server.metric("qinfer_connections") == 1)


def test_more_clients_than_files_take_no_time(serve):
    server = serve()
    resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (40, 40))
    many = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(60)]
    time.sleep(0.2)
    begun = processor_seconds(server)
    time.sleep(1)
    assert processor_seconds(server) - begun < 0.1
    for connection in many:
        connection.close()
    until(lambda: _is_healthy(server))


def processor_seconds(server):
    with open(f"/proc/{server.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _is_healthy(server):
    try:
        return server.request("GET", "/health")[0] == 200
    except OSError:
        return False


def test_a_stream_that_waits_has_comments(serve):
    server, body = crowded(serve, "--keep-alive-s", "1", "--cache-bytes", "1GiB")
    crowd = begin(server, body)
    threading.Thread(target=read_all, args=(crowd,)).start()
    stream = begin(server, {**LONG, "max_tokens": 2})
    received = b""
    while b": still here" not in received:
        received += stream.recv(65536)
    assert b": still here\n\n" in received and b"data:" not in received
    stream.close()
    crowd.shutdown(socket.SHUT_RDWR)
    until(lambda: server.metric("qinfer_connections") == 1)


def test_a_start_that_fails_says_why(serve, request):
    server = serve()
    model = f"{request.config.getoption('--models')}/tiny-stories"
    taken = run_program(request, model, "--port", str(server.port))
    assert taken.returncode == 1
    assert re.fullmatch(r"qinfer-server: cannot listen at 127\.0\.0\.1, port \d+: Address already in use\n", taken.stderr)
    missing = run_program(request, "/nothing/here", "--port", "0")
    assert missing.returncode == 1 and "/nothing/here" in missing.stderr
    assert run_program(request, model, "--no-such-option").returncode == 2
    assert run_program(request).returncode == 2
    assert run_program(request, "--help").returncode == 0
    assert run_program(request, "--version").stdout.startswith("0.")


def test_a_client_that_does_not_read_pauses_its_own_request_alone(serve):
    server = serve()
    wide = {**LONG, "logprobs": 5, "n": 8}
    stream = begin(server, wide, 8192)
    until(lambda: server.metric("qinfer_connections_slow") == 1)
    time.sleep(0.2)
    rows = server.metric("qinfer_generation_rows_total")
    time.sleep(0.2)
    assert server.metric("qinfer_generation_rows_total") == rows
    assert server.metric("vllm:num_requests_running") > 0
    assert server.post("/v1/completions", prompt="Once upon a time", max_tokens=5)[0] == 200
    assert to_the_end(stream).count(b'"finish_reason":"') == 8
    until(lambda: server.metric("vllm:num_requests_running") == 0)
    assert server.metric("qinfer_connections_slow") == 0
    # One that leaves while it is paused.
    stream = begin(server, wide, 8192)
    until(lambda: server.metric("qinfer_connections_slow") == 1)
    stream.close()
    until(lambda: server.metric("vllm:num_requests_running") == 0)
    assert server.metric("qinfer_connections_slow") == 0


def test_sigterm_lets_requests_end(serve):
    server = serve("--drain-s", "30")
    stream = begin(server, {**LONG, "max_tokens": 200})
    resting = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    server.process.send_signal(15)
    assert resting.recv(1) == b""
    received = b""
    while piece := stream.recv(65536):
        received += piece
    assert b"data: [DONE]" in received
    assert server.process.wait(20) == 0


def test_a_drain_has_an_end(serve):
    server, body = crowded(serve, "--drain-s", "1")
    stream = begin(server, body)
    server.process.send_signal(15)
    begun = time.monotonic()
    assert server.process.wait(20) == 0
    assert 0.9 < time.monotonic() - begun < 10
    received = b""
    try:
        while piece := stream.recv(65536):
            received += piece
    except OSError:
        pass
    assert b"[DONE]" not in received
    stream.close()


def ask_for_many_embeddings(server, n_clients):
    """Connections that wait for what takes a minute each: texts that differ from their beginning on."""
    connections = []
    for client in range(n_clients):
        data = json.dumps({"input": [f"{client} {i}" + " a dog and a cat" * 60 for i in range(2000)]}).encode()
        connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        head = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
        connections[-1].sendall(head % len(data) + data)
    time.sleep(0.5)
    return connections


def test_what_is_evaluated_for_a_client_that_leaves_ends_too(serve):
    server = serve()
    for connection in ask_for_many_embeddings(server, 4):
        connection.close()
    begun = time.monotonic()
    assert server.post("/v1/completions", prompt="Once upon a time", max_tokens=2)[0] == 200
    assert time.monotonic() - begun < 5


def test_a_drain_ends_what_is_prepared(serve):
    server = serve("--drain-s", "0")
    connections = ask_for_many_embeddings(server, 4)
    server.process.send_signal(15)
    assert server.process.wait(10) == 0
    for connection in connections:
        connection.close()


def test_requests_are_parked_where_the_cache_is_small(serve, tmp_path):
    server = serve("--cache-bytes", "3MiB", "--park", str(tmp_path))
    asked = {**LONG, "stream": False, "seed": 3, "max_tokens": 300}
    alone = server.post("/v1/completions", **asked)[1]["choices"][0]["text"]
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.post("/v1/completions", **asked)))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [status for status, _ in answers] == [200] * 6
    assert {answer["choices"][0]["text"] for _, answer in answers} == {alone}


def test_what_fails_once_it_was_accepted_is_an_error_of_the_server(serve, tmp_path):
    folder = tmp_path / "parked"
    folder.mkdir()
    server = serve("--cache-bytes", "1MiB", "--park", str(folder))
    folder.rmdir()
    answers = []
    asked = {**LONG, "stream": False}
    threads = [threading.Thread(target=lambda: answers.append(server.post("/v1/completions", **asked)))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {status for status, _ in answers} == {200, 500}
    for status, answer in answers:
        assert answer["error"]["type"] == "server_error" if status == 500 else answer["choices"]
