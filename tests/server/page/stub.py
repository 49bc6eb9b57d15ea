"""A server for the page's tests that answers with whatever bytes a test wants, in pieces and at times of its choice."""

import http.server
import json
import os
import socket
import threading

PAGE = os.path.join(os.path.dirname(__file__), "../../../server/page/index.html")


def event(delta=None, finish=None, **more):
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return b"data: " + json.dumps({"choices": choices, **more}, ensure_ascii=False).encode() + b"\n\n"


def said(*pieces, prompt=10):
    """The events of an answer whose content comes in these pieces."""
    usage = {"prompt_tokens": prompt, "completion_tokens": len(pieces)}
    return b"".join(event({"content": piece}) for piece in pieces) + event({}, "stop") + event(usage=usage) + b"data: [DONE]\n\n"


class Reset(Exception):
    """Raised by an answer: the connection ends in the middle."""


class Stub:
    """`answers`: for each request for a chat the next one is taken: an iterable of bytes, which are a stream of events; or
    (status, fields, body). The last one is for all that follow."""

    def __init__(self, policy, key=None, context=4096):
        self.answers, self.asked, self.left = [], [], threading.Event()
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def give(self, status, fields, body):
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **fields, "Content-Length": len(body)}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(body)

            def is_refused(self):
                if key is None or self.headers["Authorization"] == f"Bearer {key}":
                    return False
                self.give(401, {}, b'{"error": {"message": "No or a wrong API key was given"}}')
                return True

            def do_GET(self):
                if self.path == "/":
                    with open(PAGE, "rb") as page:
                        return self.give(200, {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": policy}, page.read())
                if not self.is_refused():
                    models = {"data": [{"id": "a-model", "max_model_len": context}]}
                    self.give(200, {}, json.dumps(models).encode())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.is_refused():
                    return
                stub.asked.append(body)
                answer = stub.answers.pop(0) if len(stub.answers) > 1 else stub.answers[0]
                if isinstance(answer, tuple):
                    return self.give(*answer)
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                try:
                    for piece in answer() if callable(answer) else answer:
                        self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                    self.wfile.write(b"0\r\n\r\n")
                except Reset:
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    stub.left.set()

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}/"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
