"""Requests that are framed as no client should frame them, each as bytes: what must come back for them, and whether the
connection is open after that. Names are short, and say what is wrong, or that nothing is."""

import dataclasses

GET = b"GET /health HTTP/1.1\r\nHost: a\r\n"
POST = b"POST /tokenize HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BODY = b'{"prompt": "x"}'
ONE = GET + b"\r\n"
LENGTH = b"Content-Length: 15\r\n"


@dataclasses.dataclass
class Probe:
    data: bytes
    statuses: list  # of all answers, in their order
    stays: bool = False  # open, for another request
    is_half: bool = False  # the client sends nothing more after it, and can still read
    more: bytes = b""  # sent after the data, `times` times
    times: int = 0

    def __post_init__(self):
        self.statuses = [self.statuses] if isinstance(self.statuses, int) else self.statuses


def chunks(*pieces):
    return CHUNKED + b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


# Where a request ends: what two programs could read in two ways is refused, and the connection ends.
LENGTHS = {
    "length and chunked": Probe(POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "length 0 and chunked": Probe(POST + b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked and length": Probe(POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n", 400),
    "two lengths": Probe(POST + b"Content-Length: 4\r\nContent-Length: 0\r\n\r\nabcd", 400),
    "one length twice": Probe(POST + b"Content-Length: 4\r\nContent-Length: 4\r\n\r\nabcd", 400),
    "length +4": Probe(POST + b"Content-Length: +4\r\n\r\nabcd", 400),
    "length -1": Probe(POST + b"Content-Length: -1\r\n\r\nabcd", 400),
    "length 4,4": Probe(POST + b"Content-Length: 4,4\r\n\r\nabcd", 400),
    "length 4 4": Probe(POST + b"Content-Length: 4 4\r\n\r\nabcd", 400),
    "length 0x4": Probe(POST + b"Content-Length: 0x4\r\n\r\nabcd", 400),
    "length 4.0": Probe(POST + b"Content-Length: 4.0\r\n\r\nabcd", 400),
    "length NaN": Probe(POST + b"Content-Length: NaN\r\n\r\nabcd", 400),
    "no length": Probe(POST + b"Content-Length: \r\n\r\n", 400),
    "length after a vertical tab": Probe(POST + b"Content-Length: \x0b4\r\n\r\nabcd", 400),
    "length 2^33": Probe(POST + b"Content-Length: 8589934592\r\n\r\nabc", 413),
    "length 2^64": Probe(POST + b"Content-Length: 18446744073709551616\r\n\r\nabc", 413),
    "length of 23 digits": Probe(POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc", 413),
    "length of 9,000 digits": Probe(POST + b"Content-Length: " + b"9" * 9000 + b"\r\n\r\nabc", 413),
    "100 MB with a length": Probe(POST + b"Content-Length: 100000000\r\n\r\n", 413, more=b"a" * 1_000_000, times=100),
    "100 MB in chunks": Probe(CHUNKED, 413, more=b"f4240\r\n" + b"a" * 1_000_000 + b"\r\n", times=100),
    "chunked, gzip": Probe(POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", 400),
    "gzip, chunked": Probe(POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "xchunked": Probe(POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "chunked;q=1": Probe(POST + b"Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 400),
    "identity": Probe(POST + b"Transfer-Encoding: identity\r\n" + LENGTH + b"\r\n" + BODY, 400),
    "two encodings": Probe(POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n", 400),
    "chunked twice": Probe(POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "no encoding": Probe(POST + b"Transfer-Encoding: \r\n\r\n0\r\n\r\n", 400),
    "chunked before 1.1": Probe(b"POST /tokenize HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunk of -1": Probe(CHUNKED + b"-1\r\nabc\r\n0\r\n\r\n", 400),
    "chunk of +1": Probe(CHUNKED + b"+1\r\na\r\n0\r\n\r\n", 400),
    "chunk of 0x1": Probe(CHUNKED + b"0x1\r\na\r\n0\r\n\r\n", 400),
    "chunk of x": Probe(CHUNKED + b"x\r\na\r\n0\r\n\r\n", 400),
    "chunk without a size": Probe(CHUNKED + b"\r\na\r\n0\r\n\r\n", 400),
    "chunk of 2^68": Probe(CHUNKED + b"fffffffffffffffff\r\nab\r\n", 400),
    "chunk of 2^64 - 1": Probe(CHUNKED + b"ffffffffffffffff\r\nab\r\n", 413),
    "chunk of 64 MiB": Probe(CHUNKED + b"4000000\r\n", 413),
    "chunk longer than its size": Probe(CHUNKED + b"1\r\nabc\r\n0\r\n\r\n", 400),
    "chunk with a bare LF": Probe(CHUNKED + b"1;a\nX\r\n0\r\n\r\n", 400),
    "chunk that ends with LF": Probe(CHUNKED + b"1\r\na\n0\r\n\r\n", 400),
    "trailer that is none": Probe(CHUNKED + b"0\r\nX\r\n\r\n", 400),
    "extension without an end": Probe(CHUNKED + b"1;" + b"a" * 100_000, 400),
    "trailer without an end": Probe(chunks(BODY) + b"0\r\nX: " + b"a" * 100_000, 400),
    "trailer that frames": Probe(chunks(BODY) + b"0\r\nContent-Length: 5\r\n\r\n", 400),
}

HEADS = {
    "blank before a colon": Probe(GET + b"X : y\r\n\r\n", 400),
    "field without a name": Probe(GET + b": y\r\n\r\n", 400),
    "field without a colon": Probe(GET + b"X\r\n\r\n", 400),
    "name with a blank": Probe(GET + b"X Y: z\r\n\r\n", 400),
    "name with bytes above 127": Probe(GET + b"X\xff: z\r\n\r\n", 400),
    "bare LF": Probe(b"GET /health HTTP/1.1\nHost: a\n\n", 400),
    "bare LF at the end": Probe(GET + b"\n", 400),
    "bare CR": Probe(GET + b"X: a\rb\r\n\r\n", 400),
    "folded line": Probe(GET + b"X: y\r\n z\r\n\r\n", 400),
    "folded by a tab": Probe(GET + b"X: y\r\n\tz\r\n\r\n", 400),
    "folded first field": Probe(b"GET /health HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    "no Host": Probe(b"GET /health HTTP/1.1\r\n\r\n", 400),
    "two Hosts": Probe(GET + b"Host: b\r\n\r\n", 400),
    "one Host twice": Probe(GET + b"hOST: a\r\n\r\n", 400),
    "NUL in a value": Probe(GET + b"X: a\x00b\r\n\r\n", 400),
    "NUL in a name": Probe(GET + b"X\x00: ab\r\n\r\n", 400),
    "DEL in a value": Probe(GET + b"X: a\x7fb\r\n\r\n", 400),
    "two blanks": Probe(b"GET  /health HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "blank at the end": Probe(b"GET /health HTTP/1.1 \r\nHost: a\r\n\r\n", 400),
    "tabs for blanks": Probe(b"GET\t/health\tHTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "blank in the target": Probe(b"GET /hea lth HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "no target": Probe(b"GET HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "HTTP/0.9": Probe(b"GET /health\r\n\r\n", 400),
    "HTTP/0.9 with a Host": Probe(b"GET /health\r\nHost: a\r\n\r\n", 400),
    "HTTP/1.2": Probe(b"GET /health HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    "HTTP/1.10": Probe(b"GET /health HTTP/1.10\r\nHost: a\r\n\r\n", 505),
    "HTTP/2.0": Probe(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "http in small letters": Probe(b"GET /health http/1.1\r\nHost: a\r\n\r\n", 505),
    "whole URL": Probe(b"GET http://a/health HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "CONNECT": Probe(b"CONNECT a:80 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "method with a bracket": Probe(b"G(T /health HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "empty lines": Probe(b"\r\n\r\n", 400),
    "LF alone": Probe(b"\n", 400),
    "field of 64 KiB": Probe(GET + b"X: " + b"a" * 65536 + b"\r\n\r\n", 431),
    "line without an end": Probe(b"G" * 100_000, 431),
    "200 fields": Probe(GET + b"X: y\r\n" * 200 + b"\r\n", 431),
    "2,000 fields": Probe(GET + b"".join(b"X%d: y\r\n" % i for i in range(2000)) + b"\r\n", 431),
    "target of 64 KiB": Probe(b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 431),
    "another expectation": Probe(POST + b"Content-Length: 2\r\nExpect: cake\r\n\r\n{}", 417),
    "TLS that greets": Probe(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2, 400),
    "SSH": Probe(b"SSH-2.0-OpenSSH_9.2\r\n", [], is_half=True),
    "SMTP": Probe(b"EHLO a\r\nMAIL FROM:<a@a>\r\n\r\n", 400),
    "memcached": Probe(b"set a 0 0 1\r\nx\r\n\r\n", 400),
    "0xFF by the thousand": Probe(b"\xff" * 100_000, 431),
    "half a head": Probe(GET, [], is_half=True),
    "half a body": Probe(POST + LENGTH + b"\r\n{", [], is_half=True),
    "half a chunk": Probe(CHUNKED + b"f\r\n{", [], is_half=True),
    "no last chunk": Probe(chunks(BODY), [], is_half=True),
    "nothing": Probe(b"", [], is_half=True),
}

# Strange, and right. Of what is right the connection stays, unless the client will not have it.
STRANGE = {
    "two at once": Probe(ONE * 2, [200, 200], True),
    "100 at once": Probe(ONE * 100, [200] * 100, True),
    "what is no request, after one": Probe(ONE + b"GARBAGE\r\n\r\n", [200, 400]),
    "a request in a body": Probe(b"POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(ONE) + ONE, 405,
                                 True),
    "a body of GET": Probe(GET + LENGTH + b"\r\n" + BODY, 200, True),
    "a body in chunks of GET": Probe(GET + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, True),
    "nothing for a body": Probe(POST + b"\r\n", 400, True),
    "length with zeros before it": Probe(POST + b"Content-Length: 000000000000000000000000015\r\n\r\n" + BODY, 200, True),
    "length after a tab": Probe(POST + b"Content-Length:\t15 \r\n\r\n" + BODY, 200, True),
    "CHUNKED": Probe(POST + b"Transfer-Encoding: CHUNKED\r\n\r\nf\r\n" + BODY + b"\r\n0\r\n\r\n", 200, True),
    "size with zeros before it": Probe(CHUNKED + b"000000000000f\r\n" + BODY + b"\r\n0\r\n\r\n", 200, True),
    "a chunk for each byte": Probe(chunks(*(bytes([byte]) for byte in BODY + b" " * 5000)) + b"0\r\n\r\n", 200, True),
    "extensions": Probe(CHUNKED + b'f;a=b;c="d e"\r\n' + BODY + b"\r\n0;x\r\n\r\n", 200, True),
    "trailers that are no head": Probe(chunks(BODY) + b"0\r\nHost: b\r\nExpect: x\r\n\r\n", 200, True),
    "Upgrade": Probe(GET + b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 200, True),
    "Upgrade: h2c": Probe(GET + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\n\r\n", 200,
                          True),
    "expected of HTTP/1.0": Probe(
        b"POST /tokenize HTTP/1.0\r\nExpect: 100-continue\r\n" + LENGTH + b"\r\n" + BODY, 200),
    "HTTP/1.0 that is kept": Probe(b"GET /health HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200, True),
    "Connection: close and keep-alive": Probe(GET + b"Connection: keep-alive, close\r\n\r\n", 200),
    "empty Host": Probe(b"GET /health HTTP/1.1\r\nHost:\r\n\r\n", 200, True),
    "Host that is none": Probe(b"GET /health HTTP/1.1\r\nHost: [::1\r\n\r\n", 403, True),
    "Host with a user": Probe(b"GET /health HTTP/1.1\r\nHost: localhost@evil\r\n\r\n", 403, True),
    "Host with a port of words": Probe(b"GET /health HTTP/1.1\r\nHost: localhost:x\r\n\r\n", 403, True),
    "Host of 10,000 bytes": Probe(b"GET /health HTTP/1.1\r\nHost: " + b"a" * 10_000 + b"\r\n\r\n", 403, True),
    "method in small letters": Probe(b"get /health HTTP/1.1\r\nHost: a\r\n\r\n", 405, True),
    "method of 10,000 letters": Probe(b"A" * 10_000 + b" /health HTTP/1.1\r\nHost: a\r\n\r\n", 405, True),
    "TRACE": Probe(b"TRACE /health HTTP/1.1\r\nHost: a\r\n\r\n", 405, True),
    "OPTIONS of all": Probe(b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path that goes up": Probe(b"GET /v1/../health HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path that goes up, in percents": Probe(b"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path with a slash too many": Probe(b"GET //health HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path with bytes above 127": Probe(b"GET /\xff\xfe HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path in percents": Probe(b"GET /%68ealth HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "path with a fragment": Probe(b"GET /health#x HTTP/1.1\r\nHost: a\r\n\r\n", 404, True),
    "query of 10,000 marks": Probe(b"GET /health" + b"?" * 10_000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", 200, True),
    "100 continues": Probe(POST + LENGTH + b"Expect: 100-continue\r\n\r\n" + BODY, [100, 200], True),
    "who sends no more can read": Probe(ONE, 200, is_half=True),
    "key of 10,000 bytes": Probe(GET + b"Authorization: Bearer " + b"a" * 10_000 + b"\r\n\r\n", 200, True),
    "id of a request with quotes": Probe(GET + b'X-Request-Id: "\\\r\n\r\n', 200, True),
}

PROBES = {**LENGTHS, **HEADS, **STRANGE}
