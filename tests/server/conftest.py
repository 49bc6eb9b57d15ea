"""Servers for the tests: each is a process at a port of its own, which must end with status 0 when it is told to."""

import http.client
import json
import re
import signal
import socket
import ssl
import subprocess

import pytest


def pytest_addoption(parser):
    parser.addoption("--server", required=True)
    parser.addoption("--models", required=True)
    parser.addoption("--without-tls", action="store_true")


def pytest_ignore_collect(collection_path, config):
    return config.getoption("--without-tls") and collection_path.name == "test_tls.py" or None


def trusting():
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class Server:
    def __init__(self, program, model, *options, threads=1):
        command = [program, model, "--port", "0", "--threads", str(threads), "--allowed-host", "a", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.said = []  # before it listens
        ready = r'(?:qinfer-server: |.*"event":"ready","url":")http(s?)://127\.0\.0\.1:(\d+)(?:\n|".*\n)'
        while not (found := re.fullmatch(ready, self.stderr_line())):
            self.said.append(self.last_line)
        self.is_tls, self.port = bool(found[1]), int(found[2])

    def stderr_line(self):
        self.last_line = self.process.stderr.readline()
        assert self.last_line, "the server has ended"
        return self.last_line

    def open(self, timeout=60, receive_buffer=None):
        """A connection, on which TLS is spoken if the server does. Who it is is not looked at."""
        connection = socket.socket()
        if receive_buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        connection.settimeout(timeout)
        connection.connect(("127.0.0.1", self.port))
        return trusting().wrap_socket(connection, suppress_ragged_eofs=False) if self.is_tls else connection

    def connect(self):
        if self.is_tls:
            return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=trusting())
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def raw(self, data, timeout=10):
        """What comes for these bytes until the server closes, or nothing has come for a while; whether it has closed."""
        with self.open(timeout) as connection:
            received = b""
            try:
                connection.sendall(data)
                while piece := connection.recv(65536):
                    received += piece
            except TimeoutError:
                return received, False
            except OSError:
                pass
            return received, True

    def request(self, method, path, body=None, headers={}):
        """Status, fields and body."""
        connection = self.connect()
        data = json.dumps(body) if isinstance(body, (dict, list)) else body
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        return response.status, response.headers, text

    def post(self, path, **body):
        status, _, text = self.request("POST", path, body)
        return status, json.loads(text)

    def events(self, path, **body):
        status, fields, text = self.request("POST", path, {**body, "stream": True})
        assert status == 200 and fields["Content-Type"] == "text/event-stream", text
        events = [line.removeprefix("data: ") for line in text.decode().split("\n\n") if line]
        assert events[-1] == "[DONE]"
        return [json.loads(event) for event in events[:-1]]

    def named_events(self, path, body):
        """Of a stream whose events say their type by name, too."""
        status, fields, text = self.request("POST", path, {**body, "stream": True})
        assert status == 200 and fields["Content-Type"] == "text/event-stream", text
        events = []
        for event in text.decode().split("\n\n")[:-1]:
            name, data = event.split("\n")
            events.append(json.loads(data.removeprefix("data: ")))
            assert name == "event: " + events[-1]["type"]
        return events

    def metric(self, name):
        _, _, text = self.request("GET", "/metrics")
        return float(re.search(rf"^{re.escape(name)}\{{[^}}]*\}} (\S+)$", text.decode(), re.M)[1])

    def end(self, signal_number=signal.SIGTERM):
        self.process.send_signal(signal_number)
        return self.process.wait(60)


@pytest.fixture
def serve(request):
    servers = []

    def start(*options, model="tiny-stories"):
        path = f"{request.config.getoption('--models')}/{model}"
        servers.append(Server(request.config.getoption("--server"), path, *options))
        return servers[-1]

    yield start
    for server in servers:
        if server.process.poll() is None:
            assert server.end() == 0
        server.process.stderr.close()


def running(request, model):
    made = Server(request.config.getoption("--server"), f"{request.config.getoption('--models')}/{model}")
    yield made
    assert made.end() == 0
    made.process.stderr.close()


@pytest.fixture(scope="module")
def server(request):
    yield from running(request, "tiny-stories")


@pytest.fixture(scope="module")
def chat(request):
    yield from running(request, "tiny-chat")
