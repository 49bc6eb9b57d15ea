"""What happens to a pipeline where a stage is lost or silent, where bytes are damaged or hostile, and where it has no room to
save."""

import contextlib
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from piping import KEY, SAMPLER, piped, serve

import qinfer
from qinfer.stages import BrokenConnectionError, Pipeline, StageServer, _frames
from qinfer.stages._chain import Chain


# ---- Losses
@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize("sampler", [SAMPLER, {"temperature": 0.9, "seed": 4, "mirostat": 2}])
def test_a_session_goes_on_from_what_was_saved(model, path, tmp_path, monkeypatch, lost, sampler):
    """And not from its beginning; where one stage has lost a file, from the one before."""
    whole = qinfer.Session(model)
    whole.set_sampler(**sampler)
    whole.append("The cat")
    whole.generate(60)
    evaluated, stepped = [], Chain._evaluated

    def counted(self, steps):
        evaluated.append(sum(len(frame.tokens) for frame, _ in steps))
        return stepped(self, steps)

    monkeypatch.setattr(Chain, "_evaluated", counted)
    servers = [None, None]

    def start(at):
        servers[at] = serve(path, (range(3), range(3, 6))[at], tmp_path)

    start(0), start(1)
    head = qinfer.Model(path, weights=False)
    with Pipeline(head, lambda: [one.address for one in servers], KEY, patience=10, save_every=8) as pipeline:
        session = pipeline.session(**sampler)
        session.append("The cat")
        session.generate(20)
        saved = list(session._saved)
        assert len(saved) == 2
        for n_drawn, kept in ((40, saved[1]), (60, None)):
            if kept is None:  # the newest file of one stage is gone
                saved = list(session._saved)
                newest, kept = max(tmp_path.glob(f"*-{3 * lost}-*.session"), key=lambda p: int(p.stem.rpartition("-")[2])), saved[0]
                newest.unlink()
            servers[lost].close()
            start(lost)
            evaluated.clear()
            before = len(session)
            session.generate(n_drawn - (before - len(head.tokenize("The cat"))))
            assert session.tokens == whole.tokens[: len(session)]
            assert sum(evaluated) <= 2 * (len(session) - kept)
        session.close()
    for server in servers:
        server.close()
    assert session.tokens == whole.tokens


def test_files_of_a_session_that_was_closed_after_a_loss(path, tmp_path):
    """They go once there is a stage again."""
    model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    servers = []

    def start():
        servers.append(StageServer(qinfer.KvCache(model, budget_blocks=8), KEY, snapshots=tmp_path))
        threading.Thread(target=servers[-1].serve, daemon=True).start()

    start()
    head = qinfer.Model(path, weights=False)
    with Pipeline(head, lambda: [servers[-1].address], KEY, patience=10, save_every=4) as pipeline:
        session, other = pipeline.session(), pipeline.session()
        for one in (session, other):
            one.append("The cat")
            one.draw()
        session.generate(20)
        servers[0].close()
        while pipeline._link.broken is None:
            time.sleep(0.01)
        session.close()
        assert len(list(tmp_path.iterdir())) == 2
        start()
        other.draw()
        assert list(tmp_path.iterdir()) == []
    servers[-1].close()


def test_waiting_for_a_lost_stage_can_be_cancelled(path):
    servers = []

    def addresses():
        return [server.address for server in servers]

    part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    servers.append(StageServer(qinfer.KvCache(part, budget_blocks=8), KEY))
    threading.Thread(target=servers[0].serve, daemon=True).start()
    with Pipeline(qinfer.Model(path, weights=False), addresses, KEY, patience=60) as pipeline:
        session = pipeline.session()
        session.append("The cat")
        session.draw()
        servers[0].close()
        cancel = qinfer.Cancel()
        threading.Timer(0.3, cancel.request).start()
        begun = time.monotonic()
        with pytest.raises(qinfer.CancelledError):
            session.generate(cancel=cancel)
        assert time.monotonic() - begun < 8


@pytest.mark.parametrize(
    "frames",
    [
        [_frames.Frame(_frames.Kind.TRUNCATE, 1, 2, json={"evaluated": -5})],
        [_frames.Frame(_frames.Kind.OPEN, 2, json={"max_tokens": float("inf")})],
        [_frames.Frame(_frames.Kind.STEP, 1, 1 << 30, _frames.DRAW)],
        [_frames.Frame(_frames.Kind.TRUNCATE, 7, 2), _frames.Frame(_frames.Kind.SAVE, 7, 2)],
    ],
)
def test_whatever_comes_ends_its_session_alone(path, frames):
    """From somebody who has the key."""
    part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    server = StageServer(qinfer.KvCache(part, budget_blocks=8), KEY)
    threading.Thread(target=server.serve, daemon=True).start()
    connection = _frames.Connection.open(server.address, KEY)
    connection.send(_frames.Frame(_frames.Kind.ROUTE, json={"next": []}))
    connection.receive()
    connection.send(_frames.Frame(_frames.Kind.OPEN, 1))
    for frame in frames:
        connection.send(frame)
        answer = connection.receive()
        assert (answer.kind, answer.session) == (_frames.Kind.ERROR, frame.session)
    connection.send(_frames.Frame(_frames.Kind.OPEN, 3))
    connection.send(_frames.Frame(_frames.Kind.STEP, 3, 0, _frames.DRAW, b"\5\0\0\0"))
    assert connection.receive().kind == _frames.Kind.DRAWN
    connection.close()
    server.close()


# ---- Silence
def test_a_stage_that_is_silent_is_given_up(path, tmp_path, monkeypatch):
    """A process that is stopped closes no connection, as little as a machine without power."""
    (tmp_path / "key").write_bytes(KEY)
    quick = "import runpy, qinfer.stages._frames as f; f.BEAT_S = 0.1; runpy.run_module('qinfer.stages', run_name='__main__')"
    command = [sys.executable, "-c", quick, path, "--layers", "0:6", "--key-file", tmp_path / "key", "--threads", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        host, port = process.stdout.readline().split()[-1].rsplit(":", 1)
        monkeypatch.setattr(_frames, "SILENCE_S", 1.5)
        with Pipeline(qinfer.Model(path, weights=False), [(host, int(port))], KEY) as pipeline:
            session = pipeline.session()
            session.append("The cat")
            session.draw()
            time.sleep(2.5)  # it says that it is there
            session.draw()
            process.send_signal(signal.SIGSTOP)
            while pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.01)
            begun = time.monotonic()
            with pytest.raises(BrokenConnectionError, match="silent"):
                session.draw()
            assert 1 < time.monotonic() - begun < 10
    finally:
        process.kill()
        process.wait()


def test_a_head_that_is_silent_is_given_up(path, monkeypatch):
    monkeypatch.setattr(_frames, "SILENCE_S", 0.5)
    model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(6))
    server = StageServer(qinfer.KvCache(model, budget_blocks=8), KEY)
    threading.Thread(target=server.serve, daemon=True).start()
    own = socket.create_connection(server.address)
    head = _frames.Connection(own, KEY, is_server=False)
    head._closed.set()  # it says nothing, and waits for longer
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", 9, 0))
    with pytest.raises(BrokenConnectionError, match="left"):
        head.receive()
    server.close()


# ---- Networks
@contextlib.contextmanager
def relay(address, change):
    """Where it listens: what comes goes on to the address as change(bytes) has it, a list of pieces."""
    listener, open_ones = socket.create_server(("127.0.0.1", 0)), []

    def passed(source, target, pieces_of):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                for piece in pieces_of(data):
                    target.sendall(piece)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def accepted():
        with contextlib.suppress(OSError):
            while True:
                near, far = listener.accept()[0], socket.create_connection(address)
                open_ones.extend((near, far))
                for one in (near, far):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for ends in ((near, far, change), (far, near, lambda data: [data])):
                    threading.Thread(target=passed, args=ends, daemon=True).start()

    threading.Thread(target=accepted, daemon=True).start()
    yield listener.getsockname()
    for one in (listener, *open_ones):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        one.close()


@pytest.mark.parametrize("damaged", [None, 3, 4000, 20_000, 50_000])
def test_bytes_that_come_in_pieces_or_damaged(model, path, damaged):
    """In pieces of some bytes, and with one bit of them turned over, which may be the connection's beginning, a header or
    hidden states: the same tokens."""
    expected = qinfer.Session(model)
    expected.set_sampler(**SAMPLER)
    expected.append("The cat")
    expected.generate(120)
    seen, damages = 0, []

    def change(data):
        nonlocal seen
        if damaged is not None and not damages and seen <= damaged < seen + len(data):
            damages.append(damaged)
            data = bytearray(data)
            data[damaged - seen] ^= 16
        seen += len(data)
        return [data[at : at + 191] for at in range(0, len(data), 191)]

    servers = []
    for layers in (range(3), range(3, 6)):
        part = qinfer.Model(path, qinfer.Runtime(threads=1), layers=layers)
        servers.append(StageServer(qinfer.KvCache(part, budget_blocks=64), KEY))
        threading.Thread(target=servers[-1].serve, daemon=True).start()
    with relay(servers[1].address, change) as second:
        head, addresses = qinfer.Model(path, weights=False), [servers[0].address, second]
        if damaged == 3:  # before there is a pipeline
            with pytest.raises(BrokenConnectionError):
                Pipeline(head, addresses, KEY)
        with Pipeline(head, addresses, KEY, patience=10) as pipeline, pipeline.session(**SAMPLER) as session:
            session.append("The cat")
            session.generate(120)
            assert session.tokens == expected.tokens
    assert damages == ([] if damaged is None else [damaged])
    for server in servers:
        server.close()


# ---- No room to save
def test_a_session_goes_on_where_it_cannot_be_saved(model, path, tmp_path, monkeypatch):
    whole = qinfer.Session(model)
    whole.set_sampler(**SAMPLER)
    whole.append("The cat")
    whole.generate(40)
    folders = tmp_path / "0", tmp_path / "1"
    tried = []

    def fails(_, to):
        tried.append(to)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(qinfer.Session, "save", fails)
    with piped(path, 3, 3, folders=folders, patience=10, save_every=8) as pipeline, pipeline.session(**SAMPLER) as session:
        session.append("The cat")
        session.generate(40)
        assert session.tokens == whole.tokens and len(tried) == 5
        assert session._saved == []
