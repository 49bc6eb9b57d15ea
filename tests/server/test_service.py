"""What the service manager is told, over a socket as systemd's, and how signals end the server."""

import re
import signal
import socket
import time

import pytest

from conftest import Server
from test_manners import LONG, begin, crowded, read_all, until


@pytest.fixture(params=["path", "abstract"])
def manager(request, tmp_path, monkeypatch):
    """A socket that has what the server tells, and the name that it is given by."""
    name = str(tmp_path / "notify") if request.param == "path" else f"@qinfer-test-{tmp_path.name}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as made:
        made.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        made.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield made


def told(manager):
    return dict(line.split("=", 1) for line in manager.recv(4096).decode().splitlines())


def test_the_manager_is_told(serve, manager):
    server = serve()
    assert told(manager) == {"READY": "1", "STATUS": f"Serving at http://127.0.0.1:{server.port}"}
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    server.process.send_signal(signal.SIGHUP)
    reloading = told(manager)
    assert reloading.pop("RELOADING") == "1"
    assert before <= int(reloading.pop("MONOTONIC_USEC")) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
    assert reloading == {} and told(manager) == {"READY": "1"}
    server.process.send_signal(signal.SIGTERM)
    assert told(manager) == {"STOPPING": "1", "STATUS": "Requests have 30 s to end"}
    assert server.process.wait(20) == 0
    manager.settimeout(0.1)
    with pytest.raises(TimeoutError):
        manager.recv(1)


def test_ready_is_told_after_the_model_is_loaded(request, manager, tmp_path):
    with pytest.raises(AssertionError, match="the server has ended"):
        Server(request.config.getoption("--server"), str(tmp_path / "no-model"))
    manager.settimeout(0.1)
    with pytest.raises(TimeoutError):
        manager.recv(1)


@pytest.mark.parametrize("name, why", [("relative", "not a path"), ("/" + "x" * 200, "not a path"), ("@", "refused"),
                                       ("/nothing/here", "No such file")])
def test_a_manager_that_is_not_there_changes_nothing(serve, monkeypatch, name, why):
    monkeypatch.setenv("NOTIFY_SOCKET", name)
    server = serve()
    assert len(server.said) == 1 and f"NOTIFY_SOCKET={name}: " in server.said[0] and why in server.said[0]
    assert server.request("GET", "/health")[0] == 200


@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(serve, first, second):
    server, body = crowded(serve, "--drain-s", "60")
    stream = begin(server, body)
    server.process.send_signal(first)
    until(lambda: is_closed(server))
    assert server.process.poll() is None and stream.recv(1) != b""  # it goes on
    begun = time.monotonic()
    server.process.send_signal(second)
    assert server.process.wait(20) == 0
    assert time.monotonic() - begun < 5
    read_all(stream)
    stream.close()


def is_closed(server):
    try:
        server.open(timeout=5).close()
        return False
    except OSError:
        return True


def test_files_are_read_again_while_it_ends(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys), "--drain-s", "60")
    connection = server.open()
    connection.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret\r\nContent-Length: 2\r\n"
                       b"Expect: 100-continue\r\n\r\n")
    assert re.match(rb"HTTP/1.1 100", connection.recv(100))
    keys.unlink()
    server.process.send_signal(signal.SIGHUP)
    assert "cannot be read; the keys are those of before" in server.stderr_line()
    server.process.send_signal(signal.SIGTERM)
    assert connection.recv(100) == b""  # of a body that is not there nothing is waited for
    assert server.process.wait(20) == 0
    connection.close()
