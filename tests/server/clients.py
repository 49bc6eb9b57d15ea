"""What tests of the server have in common: requests that last, what comes for them, and a model that ranks texts."""

import json
import pathlib
import re
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


class Wire:
    """A connection on which bytes are sent as they are, and answers are read one by one."""

    def __init__(self, server, timeout=60):
        self.connection, self.received = server.open(timeout), b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def send(self, data):
        """False: the other end has closed before it was all sent."""
        try:
            self.connection.sendall(data)
            return True
        except OSError:
            return False

    def ask(self, method, path, data=b""):
        """The answer to a request as it should be."""
        head = b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n"
        self.send(head % (method.encode(), path.encode(), len(data)) + data)
        return self.answer()

    def answer(self):
        """Status, head and body of the next one; None: the connection has ended between two answers."""
        head = self._until(b"\r\n\r\n")
        if head is None:
            return None
        status = int(re.match(rb"HTTP/1\.1 (\d{3}) ", head)[1])
        if status == 100:
            return status, head, b""
        if b"\r\nTransfer-Encoding: chunked\r\n" in head:
            return status, head, b"".join(iter(self._chunk, b""))
        return status, head, self._exactly(int(re.search(rb"\r\nContent-Length: (\d+)\r\n", head)[1]))

    def has_ended(self):
        """Whether the other end closes now, without another byte."""
        return not self.received and not self._more()

    def _more(self):
        try:
            piece = self.connection.recv(65536)
        except ConnectionError:
            piece = b""
        self.received += piece
        return piece

    def _until(self, end):
        while end not in self.received:
            if not self._more():
                assert not self.received, self.received[:200]
                return None
        found, self.received = self.received.split(end, 1)
        return found + end

    def _exactly(self, n):
        while len(self.received) < n:
            assert self._more(), "an answer is cut"
        found, self.received = self.received[:n], self.received[n:]
        return found

    def _chunk(self):
        data = self._exactly(int(self._until(b"\r\n"), 16))
        assert self._exactly(2) == b"\r\n"
        return data


def write_reranker(models, folder):
    """The small model of stories in a folder, told to compare "Yes" with "No"."""
    stories = pathlib.Path(models).resolve() / "tiny-stories"
    for file in stories.iterdir():
        (folder / file.name).symlink_to(file)
    vocabulary = json.loads((stories / "tokenizer.json").read_text())["model"]["vocab"]
    (folder / "1_LogitScore").mkdir()
    score = {"true_token_id": vocabulary["Yes"], "false_token_id": vocabulary["No"]}
    (folder / "1_LogitScore" / "config.json").write_text(json.dumps(score))
    modules = [{"path": "", "type": "Transformer"}, {"path": "1_LogitScore", "type": "LogitScore"}]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    return str(folder)
