"""What the tests share: a server in the place of OpenAI's service."""

import contextlib
import os
import pathlib
import socket
import subprocess
import time
import urllib.request

import pytest

MODEL = pathlib.Path(__file__).resolve().parents[2] / "examples" / "models" / "tiny-chat"


@pytest.fixture(scope="session")
def service():
    pytest.importorskip("openai")
    program = os.environ.get("QINFER_SERVER")
    if not program:
        pytest.skip("machine: QINFER_SERVER does not name a qinfer-server")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    server = subprocess.Popen([program, str(MODEL), "--port", str(port), "--threads", "1"])
    try:
        for _ in range(300):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/models", timeout=5):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(60)
