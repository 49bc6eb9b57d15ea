"""Who may use a server that has no keys: programs of this machine, and no page of the web; and pages that are let in."""

import http.client
import json
import re
import subprocess

import pytest

ASKED = json.dumps({"prompt": "Once upon a time", "max_tokens": 2})


def get(server, host):
    line = b"" if host is None else b"Host: " + host.encode("latin-1") + b"\r\n"
    received, _ = server.raw(b"GET /v1/models HTTP/1.%d\r\n" % (host is not None) + line + b"Connection: close\r\n\r\n")
    return int(received.split(b" ", 2)[1]), received


def post(server, **fields):
    """Status, fields and body of the answer to a request with these fields; of names _ is -."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    connection.request("POST", "/v1/completions", ASKED, {"Host": f"localhost:{server.port}", **headers})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, response.headers, text


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "localhost.", "app.localhost:8080", "127.0.0.1", "127.9.9.9:1",
                                  "[::1]", "[::1]:8080", "192.168.1.5:8080", "a", "", None])
def test_hosts_that_are_known(server, host):
    assert get(server, host)[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
                                  "notlocalhost", "localhost@evil.example", "localhost:", "localhost:80:80", "localhost:8x", "[::1", "[::1]x",
                                  "::1", "[localhost", "127.0.0.1,evil.example", ".", ":80", "[]", "1.2.3", "b", "xn--e1a",
                                  "\xe9", "x" * 5000])
def test_hosts_that_are_not(server, host):
    status, received = get(server, host)
    assert status == 403 and b"--allowed-host" in received and b"host_not_allowed" in received
    assert len(received) < 2000


def test_all_routes_ask_for_the_host(server):
    for request in [b"GET / ", b"GET /health ", b"POST /tokenize ", b"GET /nothing ", b"OPTIONS * ", b"HEAD / "]:
        received, _ = server.raw(request + b"HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 403 "), request
    head = b"POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 100\r\n\r\n"
    received, closed = server.raw(head)  # the body is not waited for
    assert closed and b'"type":"permission_error"' in received.replace(b" ", b"")


def test_a_connection_goes_on_after_what_was_refused_without_a_body(server):
    refused, asked = b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    received, closed = server.raw(refused + asked + b"\r\n" + refused + asked + b"Connection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", received) == [b"403", b"200"] * 2 and closed


def test_hosts_are_not_asked_for_where_there_are_keys_or_other_machines(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    assert get(serve("--keys", str(keys)), "evil.example")[0] == 401
    assert get(serve("--allowed-host", "*"), "evil.example")[0] == 200
    named = serve("--allowed-host", "Models.Example.", "--allowed-host", "b")
    assert [get(named, host)[0] for host in ["models.example:80", "b", "MODELS.example.", "c"]] == [200, 200, 200, 403]


def test_a_server_for_other_machines_does_not_ask_for_the_host(request):
    program, model = request.config.getoption("--server"), request.config.getoption("--models") + "/tiny-stories"
    process = subprocess.Popen([program, model, "--host", "0.0.0.0", "--port", "0"], stderr=subprocess.PIPE, text=True)
    port = int(process.stderr.readline().rsplit(":", 1)[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/v1/models", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 200
    connection.close()
    process.terminate()
    assert process.wait(20) == 0
    process.stderr.close()


def test_pages_of_others_do_nothing(server):
    own = f"http://localhost:{server.port}"
    for fields in [{}, {"Origin": own}, {"Origin": own.replace("localhost", "LOCALHOST")}, {"Sec_Fetch_Site": "none"},
                   {"Origin": "https://proxy.example", "Sec_Fetch_Site": "same-origin"}]:
        assert post(server, **fields)[0] == 200, fields
    for fields in [{"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
                   {"Origin": own + ".evil.example"}, {"Origin": own + "/"}, {"Origin": "evil" + own},
                   {"Origin": own, "Sec_Fetch_Site": "same-site"}, {"Sec_Fetch_Site": "cross-site"},
                   {"Origin": "chrome-extension://abc"}]:
        status, answered, text = post(server, **fields, Content_Type="text/plain")
        assert status == 403 and b"--allow-origin" in text and b"origin_not_allowed" in text, fields
        assert not [name for name in answered if name.lower().startswith("access-control")]
    status, answered, _ = server.request("GET", "/v1/models", headers={"Origin": "https://evil.example"})
    assert status == 200 and "Access-Control-Allow-Origin" not in answered  # which the page cannot read
    status, _, _ = server.request("OPTIONS", "/v1/completions", headers={
        "Origin": "https://evil.example", "Access-Control-Request-Method": "POST"})
    assert status == 405


def preflight(server, origin, fields="authorization,content-type,x-stainless-os"):
    headers = {"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": fields}
    return server.request("OPTIONS", "/v1/completions", headers=headers)


@pytest.mark.parametrize("with_keys", [False, True])
def test_pages_that_are_let_in(serve, tmp_path, with_keys):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--allow-origin", "https://App.example", "--allow-origin", "http://localhost:3000",
                   *(["--keys", str(keys)] if with_keys else []))
    known = {"Authorization": "Bearer secret"}
    for origin in ["https://app.example", "http://localhost:3000"]:
        status, answered, text = preflight(server, origin)
        assert status == 200 and text == b"" and answered["Access-Control-Allow-Origin"] == origin
        assert answered["Access-Control-Allow-Headers"] == "authorization,content-type,x-stainless-os"
        assert "POST" in answered["Access-Control-Allow-Methods"] and answered["Vary"] == "Origin"
        status, answered, _ = post(server, Origin=origin, Sec_Fetch_Site="cross-site", **known)
        assert status == 200 and answered["Access-Control-Allow-Origin"] == origin and answered["Vary"] == "Origin"
    body = json.dumps({"prompt": "a", "max_tokens": 2, "stream": True})
    fields = server.request("POST", "/v1/completions", body, {"Origin": "https://app.example", **known})[1]
    assert fields["Content-Type"] == "text/event-stream"
    assert fields["Access-Control-Allow-Origin"] == "https://app.example"
    fields = server.request("POST", "/v1/completions", "{", {"Origin": "https://app.example", **known})[1]
    assert fields["Access-Control-Allow-Origin"] == "https://app.example"  # of an error, which the page reads
    status, answered, _ = server.request("GET", "/v1/models", headers={"Origin": "https://app.example"})
    assert status == (401 if with_keys else 200) and answered["Access-Control-Allow-Origin"] == "https://app.example"
    status, answered, _ = preflight(server, "https://evil.example")
    assert status == (401 if with_keys else 405) and "Access-Control-Allow-Origin" not in answered
    assert post(server, Origin="https://evil.example", **known)[0] == (200 if with_keys else 403)


def test_all_pages_may_be_let_in(serve):
    server = serve("--allow-origin", "*")
    for origin in ["https://any.example", "null"]:
        assert preflight(server, origin)[1]["Access-Control-Allow-Origin"] == "*"
        status, answered, _ = post(server, Origin=origin)
        assert status == 200 and answered["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Origin" not in post(server)[1]
    assert get(server, "evil.example")[0] == 403


def test_fields_of_an_answer_are_those_of_its_request(serve):
    server = serve("--allow-origin", "https://app.example")
    one = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
    received, _ = server.raw(one + b"Origin: https://app.example\r\n\r\n" + one + b"\r\n" + b"GET / HTTP/9\r\n\r\n")
    answers = re.split(rb"HTTP/1\.1 (?=\d)", received)[1:]
    assert [b"Access-Control-Allow-Origin" in answer for answer in answers] == [True, False, False]


@pytest.mark.parametrize("option, value, why", [
    ("--allowed-host", "a:80", "not a name without a port"), ("--allowed-host", "http://a", "not a name"),
    ("--allowed-host", "", "not a name"), ("--allow-origin", "example.com", "not an origin"),
    ("--allow-origin", "https://example.com/", "not an origin"), ("--allow-origin", "https://", "not an origin"),
    ("--allow-origin", "https://a\tb", "not an origin"), ("--allow-origin", "https://a,https://b", "not an origin"),
])
def test_options_that_are_wrong_are_named(request, option, value, why):
    program, model = request.config.getoption("--server"), request.config.getoption("--models") + "/tiny-stories"
    ended = subprocess.run([program, model, "--port", "0", option, value], capture_output=True, text=True, timeout=20)
    assert ended.returncode == 1 and f"{option} {value}: {why}" in ended.stderr
