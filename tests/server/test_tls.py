"""HTTPS: what the server answers is what it answers without TLS; here is what TLS adds, and what could differ."""

import contextlib
import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import threading
import time

import pytest

from conftest import Server, trusting
from test_manners import LONG, begin, crowded, is_idle, read_all, until


EC = ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"]


def make_certificate(folder, name, *options, kind=EC):
    certificate, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-nodes", "-newkey", *kind, "-days", "2", "-subj", f"/CN={name}",
                    "-keyout", key, "-out", certificate, *options], check=True, capture_output=True)
    key.chmod(0o600)
    return certificate, key


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return make_certificate(tmp_path_factory.mktemp("tls"), "localhost", "-addext", "subjectAltName=IP:127.0.0.1")


@pytest.fixture(scope="module")
def secure(request, files):
    program, models = request.config.getoption("--server"), request.config.getoption("--models")
    made = Server(program, f"{models}/tiny-stories", *options(files))
    assert made.is_tls and made.said == []
    yield made
    assert made.end() == 0
    made.process.stderr.close()


def options(files):
    return ["--tls-cert", str(files[0]), "--tls-key", str(files[1])]


def test_a_certificate_that_is_known_is_trusted(secure, files):
    context = ssl.create_default_context(cafile=files[0])
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as connection:
        with context.wrap_socket(connection, server_hostname="127.0.0.1") as spoken:
            assert spoken.version() == "TLSv1.3"
            spoken.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert spoken.recv(100).startswith(b"HTTP/1.1 200")


def test_answers_and_streams(secure):
    asked = {"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0}
    text = secure.post("/v1/completions", **asked)[1]["choices"][0]["text"]
    events = secure.events("/v1/completions", **asked)
    assert len(events) > 20 and "".join(event["choices"][0]["text"] for event in events) == text


def test_a_connection_is_used_again(secure):
    connection = secure.connect()
    for _ in range(3):
        connection.request("GET", "/health")
        assert connection.getresponse().read() == b"ok\n"
    assert secure.metric("qinfer_connections") == 2
    connection.close()
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    received, closed = secure.raw(one * 100 + b"GET / HTTP/1.0\r\n\r\n")
    assert received.count(b"HTTP/1.1 200") == 101 and closed


def test_a_request_may_come_in_many_records(secure):
    with secure.open() as connection:
        for byte in b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 15\r\n\r\n" + b'{"prompt": "x"}':
            connection.send(bytes([byte]))
        assert connection.recv(100).startswith(b"HTTP/1.1 200")


def test_the_end_is_said(secure):
    with secure.open() as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        received = b""
        while piece := connection.recv(65536):  # a ragged end would be an error
            received += piece
        assert received.endswith(b"ok\n")


def test_large_bodies(secure):
    data = json.dumps({"prompt": "a " * (1 << 20)}).encode()
    status, _, text = secure.request("POST", "/tokenize", data)
    assert status == 200 and json.loads(text)["count"] > 1 << 20
    head = b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    received, closed = secure.raw(head + (b"100000\r\n" + b" " * (1 << 20) + b"\r\n") * 40)
    assert closed and (received == b"" or received.startswith(b"HTTP/1.1 413"))
    assert secure.request("GET", "/health")[0] == 200


def leave(connection, how):
    if how == "says so":
        with pytest.raises(OSError):  # an answer that is cut ends without a word
            connection.unwrap()
    elif how == "is reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.mark.parametrize("how", ["says so", "closes", "is reset"])
def test_a_client_that_leaves_ends_its_request(serve, files, how):
    server, body = crowded(serve, *options(files))
    connection = server.open()
    data = json.dumps({**body, "stream": False}).encode()
    connection.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
    until(lambda: server.metric("qinfer_num_requests_running") == 1)
    leave(connection, how)
    until(lambda: is_idle(server), 5)
    stream = begin(server, body)
    reader = threading.Thread(target=read_all, args=(stream,))
    reader.start()
    until(lambda: not is_idle(server))
    socket.socket.shutdown(stream, socket.SHUT_RDWR)
    reader.join()
    stream.close()
    until(lambda: is_idle(server), 5)


def test_a_client_that_does_not_read_pauses_its_own_request_alone(serve, files):
    server = serve(*options(files))
    stream = begin(server, {**LONG, "logprobs": 5, "n": 8}, 8192)
    until(lambda: server.metric("qinfer_connections_slow") == 1)
    time.sleep(0.2)
    rows = server.metric("qinfer_generation_rows_total")
    time.sleep(0.2)
    assert server.metric("qinfer_generation_rows_total") == rows
    assert server.post("/v1/completions", prompt="Once upon a time", max_tokens=5)[0] == 200
    received = b""
    while not received.endswith(b"\r\n0\r\n\r\n"):
        received += stream.recv(65536)
    assert received.count(b'"finish_reason":"') == 8
    stream.close()


def test_a_handshake_has_the_time_of_a_head(serve, files):
    server = serve("--head-s", "1", "--max-connections", "40", *options(files))
    hello = client_hello()
    half = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(39)]
    for number, connection in enumerate(half):
        connection.sendall(hello[: number * len(hello) // 38])
    begun = time.monotonic()
    assert server.request("GET", "/health")[0] == 200  # meanwhile
    for connection in half:
        connection.settimeout(10)
        read_all(connection)
        connection.close()
    assert 0.5 < time.monotonic() - begun < 5
    until(lambda: server.metric("qinfer_connections") == 1)


def client_hello():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        trusting().wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def test_connections_beyond_the_bound_are_told_so(serve, files):
    server = serve("--max-connections", "5", "--head-s", "2", *options(files))
    resting = [server.open() for _ in range(5)]
    status, _, text = server.request("GET", "/health")
    assert status == 503 and b"all 5 connections are taken" in text
    silent = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    assert silent.recv(1) == b""
    for connection in resting + [silent]:
        connection.close()


def plain(server, data):
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(data)
        received = b""
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            pass
        return received


def test_http_to_this_port_is_told_so(secure):
    for request in [b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"POST /v1/completions HTTP/1.1\r\n" + b"x" * 70000]:
        received = plain(secure, request)
        assert received.startswith(b"HTTP/1.1 400 Bad Request\r\n") and b"HTTPS is spoken here" in received
        assert b"\r\nConnection: close\r\n" in received


@pytest.mark.parametrize("data", [b"\n", b"\x00" * 100, b"SSH-2.0-x\r\n", b"\x16\x03\x01\xff\xff" + b"\xff" * 70000,
                                  b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00", b"\x15\x03\x01\x00\x02\x02\x28"],
                         ids=["line", "zeros", "ssh", "large record", "short hello", "alert"])
def test_what_is_no_handshake_ends_the_connection(secure, data):
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as connection:
        with contextlib.suppress(OSError):  # it may have ended already
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        begun = time.monotonic()
        read_all(connection)
        assert time.monotonic() - begun < 5
    assert secure.request("GET", "/health")[0] == 200


def test_damage_to_a_record_ends_the_connection(secure):
    with secure.open() as connection:
        descriptor = socket.socket(fileno=os.dup(connection.fileno()))
        descriptor.sendall(b"\x17\x03\x03\x00\x20" + b"\xaa" * 32)
        with pytest.raises((ssl.SSLError, ConnectionResetError)):
            while connection.recv(100):
                pass
        descriptor.close()
    assert secure.request("GET", "/health")[0] == 200


def test_old_versions_are_not_spoken(secure):
    context = trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as connection:
        assert context.wrap_socket(connection).version() == "TLSv1.2"
    asked = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{secure.port}", "-tls1_1", "-cipher",
                            "ALL:@SECLEVEL=0"], input=b"", capture_output=True, timeout=20)
    assert asked.returncode != 0 and b"alert protocol version" in asked.stderr


def test_nothing_is_negotiated_again(secure):
    asked = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{secure.port}", "-tls1_2"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    time.sleep(0.5)
    asked.stdin.write(b"R\n")
    asked.stdin.flush()
    output, _ = asked.communicate(timeout=20)
    assert b"RENEGOTIATING" in output and b"no renegotiation" in output


def test_only_http_1_is_spoken(secure):
    for offered, chosen in [(["h2", "http/1.1"], "http/1.1"), (["http/1.1"], "http/1.1"), ([], None)]:
        context = trusting()
        if offered:
            context.set_alpn_protocols(offered)
        with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as connection:
            assert context.wrap_socket(connection).selected_alpn_protocol() == chosen
    context = trusting()
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", secure.port), timeout=10) as connection:
        with pytest.raises(ssl.SSLError, match="(?i)no application protocol"):
            context.wrap_socket(connection)


def certificate_of(server):
    with server.open() as connection:
        return connection.getpeercert(binary_form=True)


def replace(files, others):
    for path, other in zip(files, others):
        path.write_bytes(other.read_bytes())


def test_a_new_certificate_while_connections_stay(serve, tmp_path):
    files, others = make_certificate(tmp_path, "first"), make_certificate(tmp_path, "second")
    server = serve(*options(files))
    before = certificate_of(server)
    stream, resting = begin(server, {**LONG, "max_tokens": 100}), server.connect()
    resting.request("GET", "/health")
    assert resting.getresponse().read() == b"ok\n"
    replace(files, others)
    server.process.send_signal(signal.SIGHUP)
    until(lambda: certificate_of(server) != before)
    resting.request("GET", "/health")
    assert resting.getresponse().read() == b"ok\n"
    resting.close()
    received = b""
    while not received.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
        received += stream.recv(65536)
    stream.close()


def test_a_bad_certificate_leaves_the_old_one(serve, tmp_path):
    files, others = make_certificate(tmp_path, "first"), make_certificate(tmp_path, "second")
    server = serve(*options(files))
    before = certificate_of(server)
    files[0].write_bytes(others[0].read_bytes())
    server.process.send_signal(signal.SIGHUP)
    line = f"qinfer-server: {files[1]}: is not the key of the certificate in {files[0]}; the certificate is that of before\n"
    assert server.stderr_line() == line
    assert certificate_of(server) == before
    files[1].unlink()
    server.process.send_signal(signal.SIGHUP)
    assert "cannot be read: No such file" in server.stderr_line()
    assert certificate_of(server) == before


def test_a_chain_is_given_whole(serve, tmp_path):
    files, other = make_certificate(tmp_path, "first"), make_certificate(tmp_path, "second")
    files[0].write_bytes(files[0].read_bytes() + b"\nsome text\n" + other[0].read_bytes())
    server = serve(*options(files))
    shown = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-showcerts"], input=b"",
                           capture_output=True, timeout=20)
    assert shown.stdout.count(b"BEGIN CERTIFICATE") == 2


def test_a_key_that_all_may_read_is_warned_of(serve, tmp_path):
    files = make_certificate(tmp_path, "first")
    files[1].chmod(0o644)
    server = serve(*options(files))
    assert server.said == [f"qinfer-server: {files[1]}: all users of this machine can read this key: chmod o-r\n"]
    assert server.request("GET", "/health")[0] == 200


def test_files_that_are_none_are_named(request, tmp_path):
    program, model = request.config.getoption("--server"), request.config.getoption("--models") + "/tiny-stories"
    certificate, key = make_certificate(tmp_path, "first")
    other = make_certificate(tmp_path, "second")[1]
    weak = make_certificate(tmp_path, "weak", kind=["rsa:1024"])
    locked, broken, chain, large = [tmp_path / name for name in ["locked.key", "broken.pem", "chain.pem", "large.pem"]]
    subprocess.run(["openssl", "ec", "-in", key, "-aes128", "-passout", "pass:x", "-out", locked], check=True,
                   capture_output=True)
    pem = certificate.read_bytes()
    broken.write_bytes(pem[:100] + b"\n-----END CERTIFICATE-----\n")
    chain.write_bytes(pem + pem[:100])
    large.write_bytes(b"x" * (2 << 20))
    for files, said in [((tmp_path / "none", key), "none: cannot be read: No such file or directory"),
                        ((tmp_path, key), f"{tmp_path}: cannot be read: Is a directory"),
                        ((key, key), "first.key: does not begin with a certificate in PEM (no start line)"),
                        ((broken, key), "broken.pem: does not begin with a certificate in PEM"),
                        ((chain, key), "chain.pem: a certificate after the first cannot be read"),
                        ((large, key), "large.pem: is larger than 1 MiB"),
                        (weak, "weak.pem: the certificate is not used: ee key too small"),
                        ((certificate, tmp_path / "none"), "none: cannot be read: No such file or directory"),
                        ((certificate, certificate), "first.pem: holds no private key in PEM"),
                        ((certificate, locked), "locked.key: is encrypted"),
                        ((certificate, other), f"second.key: is not the key of the certificate in {certificate}")]:
        ended = subprocess.run([program, model, "--port", "0", *options(files)], capture_output=True, text=True, timeout=20)
        assert ended.returncode == 1 and ended.stderr.count("\n") == 1 and said in ended.stderr, ended.stderr
    for option in ["--tls-cert", "--tls-key"]:
        ended = subprocess.run([program, model, option, str(key)], capture_output=True, text=True, timeout=20)
        assert ended.returncode == 2 and "requires --tls-" in ended.stderr


def test_a_drain_says_the_end_unless_an_answer_is_cut(serve, files):
    server, body = crowded(serve, "--drain-s", "1", *options(files))
    resting, stream = server.open(), begin(server, body)
    server.process.send_signal(signal.SIGTERM)
    assert resting.recv(1) == b""
    with pytest.raises(OSError):  # ragged
        while stream.recv(65536):
            pass
    assert server.process.wait(20) == 0
    resting.close()
    stream.close()
