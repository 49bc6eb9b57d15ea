"""The chat page as HTTP gives it; tests/server/page tries it in a browser."""

import base64
import hashlib
import pathlib
import re

FILE = pathlib.Path(__file__).parent / "../../server/page/index.html"


def test_the_page_and_its_policy(server):
    status, fields, page = server.request("GET", "/")
    assert status == 200 and fields["Content-Type"] == "text/html; charset=utf-8"
    assert fields["X-Content-Type-Options"] == "nosniff" and fields["Referrer-Policy"] == "no-referrer"
    assert page.startswith(b"<!doctype html>") and page.rstrip().endswith(b"</html>")
    assert page == FILE.read_bytes() and len(page) < 40_000

    def source(tag):
        texts = re.findall(rb"<%s>(.*?)</%s>" % (tag, tag), page, re.S)
        assert len(texts) == 1
        return "'sha256-" + base64.b64encode(hashlib.sha256(texts[0]).digest()).decode() + "'"

    policy = dict(part.split(" ", 1) for part in fields["Content-Security-Policy"].split("; "))
    assert policy == {
        "default-src": "'none'",
        "connect-src": "'self'",
        "img-src": "data:",
        "style-src": source(b"style"),
        "script-src": source(b"script"),
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
    }


def test_the_page_needs_nothing_from_elsewhere_and_makes_no_html_of_texts(server):
    page = server.request("GET", "/")[2].decode()
    assert not re.search(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=[\"'](?!data:)", page)
    assert not re.search(r"url\(|@import|innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", page)
    assert not re.search(r"<[^>]*\s(?:style|on[a-z]+)=[\"']", page.split("<script>")[0])  # the policy forbids them


def test_head_tags_and_methods(server):
    _, whole, page = server.request("GET", "/")
    status, fields, text = server.request("HEAD", "/")
    assert status == 200 and text == b"" and int(fields["Content-Length"]) == len(page)
    assert server.request("GET", "/?a=b")[0] == 200
    status, fields, _ = server.request("POST", "/", "{}")
    assert status == 405 and fields["Allow"] == "GET, HEAD"
    tag = whole["ETag"]
    connection = server.connect()
    for given, status in [(tag, 304), (f'"other", W/{tag}', 304), ("*", 304), ('"other"', 200), (tag.strip('"'), 200)]:
        connection.request("GET", "/", headers={"If-None-Match": given})
        response = connection.getresponse()
        assert response.status == status, given
        assert len(response.read()) == (0 if status == 304 else len(page))  # and the connection goes on
        assert response.headers["ETag"] == tag and "Content-Security-Policy" in response.headers


def test_the_page_is_open_and_can_be_left_out(serve, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("secret\n")
    server = serve("--keys", str(keys))
    assert server.request("GET", "/")[0] == 200
    assert server.request("GET", "/v1/models")[0] == 401
    server = serve("--no-page")
    assert server.request("GET", "/")[0] == 404
    server = serve("--no-page", "--keys", str(keys))
    assert server.request("GET", "/")[0] == 401
