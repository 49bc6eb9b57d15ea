"""What the tests of clients that behave badly have in common: requests that last, and what comes for them."""

import json
import subprocess
import time

LONG = {"prompt": "Once upon a time", "max_tokens": 400, "temperature": 0.9, "stream": True, "logit_bias": {"2": -100}}


def until(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def begin(server, body=LONG, receive_buffer=None):
    """A connection whose stream has begun."""
    connection = server.open(receive_buffer=receive_buffer)
    data = json.dumps(body).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    assert connection.recv(100).startswith(b"HTTP/1.1 200")
    return connection


def is_idle(server):
    return server.metric("qinfer_num_requests_waiting") == 0 == server.metric("qinfer_num_requests_running")


def read_all(connection):
    try:
        while connection.recv(65536):
            pass
    except OSError:
        pass


def all_of(connection):
    received = b""
    try:
        while piece := connection.recv(65536):
            received += piece
    except OSError:
        pass
    return received


def to_the_end(stream):
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        piece = stream.recv(65536)
        assert piece
        received += piece
    return received


def run_program(request, *arguments):
    command = [request.config.getoption("--server"), *arguments]
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30)
