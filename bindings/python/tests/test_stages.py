"""Pipelines of stages: the tokens of the whole model, and what strangers, damage and failures do to them."""

import contextlib
import json
import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib

import pytest

import qinfer
from qinfer.stages import BrokenConnectionError, Pipeline, StageError, StageServer, split
from qinfer.stages._frames import MAGIC, Connection, Frame, Kind

KEY = b"sixteen bytes or more"


@pytest.fixture(scope="module")
def head(path):
    return qinfer.Model(path, weights=False)


@contextlib.contextmanager
def serving(path, *cut, blocks=64, key=KEY):
    """Servers of stages with so many layers each, in this process."""
    servers, first = [], 0
    for n in cut:
        model = qinfer.Model(path, qinfer.Runtime(threads=1), layers=range(first, first + n))
        servers.append(StageServer(qinfer.KvCache(model, budget_blocks=blocks), key))
        threading.Thread(target=servers[-1].serve, daemon=True).start()
        first += n
    yield servers
    for server in servers:
        server.close()


def connect(head, servers, **how):
    return Pipeline(head, [server.address for server in servers], KEY, **how)


def alone(model, prompt, n, **sampler):
    session = qinfer.Session(qinfer.KvCache(model, budget_blocks=20))
    session.set_sampler(**sampler)
    session.append(prompt)
    return session.generate(n).text


def told(session, prompt, n):
    """What follows the prompt."""
    session.append(prompt)
    return session.generate(n).text


PROMPT = "Once upon a time there was a little girl. " * 5


@pytest.mark.parametrize("cut", [(6,), (1, 5), (2, 2, 2)])
def test_the_tokens_are_those_of_the_whole_model(model, head, path, cut):
    with serving(path, *cut) as servers, connect(head, servers, chunk=16) as pipeline:
        for seed in range(3):
            sampler = {"temperature": 0.9, "seed": seed}
            with pipeline.session(**sampler) as session:
                assert told(session, PROMPT, 40) == alone(model, PROMPT, 40, **sampler)
        with pipeline.session() as session:  # greedily, and it goes on
            first = told(session, "The cat", 10)
            assert first + told(session, model.tokenize(" and", special=False), 10) == continued(model, "The cat", " and", 10)


def continued(model, prompt, more, n):
    session = qinfer.Session(qinfer.KvCache(model, budget_blocks=20))
    session.append(prompt)
    first = session.generate(n).text
    session.append(model.tokenize(more, special=False))
    return first + session.generate(n).text


def test_sessions_at_once_do_not_notice_each_other(model, head, path):
    with serving(path, 3, 3) as servers, connect(head, servers) as pipeline:
        texts = {}

        def draw(seed):
            texts[seed] = told(pipeline.session(temperature=0.9, seed=seed), "The dog", 30)

        threads = [threading.Thread(target=draw, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for seed in range(8):
            assert texts[seed] == alone(model, "The dog", 30, temperature=0.9, seed=seed)


def test_a_session_that_fails_leaves_the_others(model, head, path):
    with serving(path, 3, 3, blocks=4) as servers, connect(head, servers) as pipeline:
        good = pipeline.session()
        good.append("The cat")
        good.draw()
        with pytest.raises(StageError, match=r"layers from 0 on: .*QINFER_E_KV_FULL"):
            told(pipeline.session(), PROMPT * 2, 5)
        with pytest.raises(qinfer.InvalidArgumentError, match="token 99999999 at index 1"):
            told(pipeline.session(), [1, 99999999], 5)
        with pytest.raises(StageError, match="temperature"):
            told(pipeline.session(temperature=-1), "The", 5)
        assert good.generate(max_tokens=8).text == alone(model, "The cat", 9)[len(qinfer_text(model, good, 1)) :]
        # What the failed ones had is free again.
        assert told(pipeline.session(max_tokens=64), "The dog", 20) == alone(model, "The dog", 20)


def qinfer_text(model, session, n):
    """Of the first n tokens that a session has drawn."""
    start = len(model.tokenize("The cat"))
    return model.detokenize(session.tokens[start : start + n])


def test_stages_that_do_not_fit_together_are_refused(head, path):
    with serving(path, 2, 4) as (first, second):
        for wrong in [[second], [first], [first, first], [second, first]]:
            with pytest.raises(ValueError, match="layer"):
                connect(head, wrong)
        with pytest.raises(BrokenConnectionError, match="another key"):
            Pipeline(head, [first.address, second.address], b"another key of sixteen")
        closed = socket.create_server(("127.0.0.1", 0))
        address = closed.getsockname()
        closed.close()
        with pytest.raises(BrokenConnectionError, match="no stage answers"):
            Pipeline(head, [first.address, address], KEY)
    with serving(path, 2) as (first,), serving(path, 2, 4, key=b"another key of sixteen") as (_, second):
        with pytest.raises(BrokenConnectionError, match="another key"):
            connect(head, [first, second])
        with pytest.raises(ValueError, match="16 or more"):
            StageServer(first.cache, b"short")


def hang_up(server, data):
    """Whether the server closes the connection after these bytes, within its time for proofs."""
    with socket.create_connection(server.address, timeout=8) as stranger:
        with contextlib.suppress(OSError):
            stranger.sendall(data)
            while stranger.recv(4096):
                pass
        return True


def test_strangers_are_hung_up_on(model, head, path):
    with serving(path, 6) as (server,):
        begun = time.monotonic()
        strangers = [threading.Thread(target=hang_up, args=(server, data)) for data in (
            b"", b"GET / HTTP/1.1\r\n\r\n" + bytes(64), MAGIC, MAGIC + bytes(64), os.urandom(200), bytes(1 << 16))]
        for thread in strangers:
            thread.start()
        with connect(head, [server]) as pipeline:  # meanwhile
            assert told(pipeline.session(), "The cat", 5) == alone(model, "The cat", 5)
        for thread in strangers:
            thread.join()
        assert time.monotonic() - begun < 8


HEADER = struct.Struct("<HHQIIIII")


def raw(kind, session=0, position=0, n_tokens=0, n_floats=0, n_bytes=0, body=b"", check=None):
    head = HEADER.pack(kind, 0, session, position, n_tokens, n_floats, n_bytes, 0)[:-4]
    found = zlib.crc32(body, zlib.crc32(head)) if check is None else check
    return head + found.to_bytes(4, "little") + body


@pytest.mark.parametrize(
    "frame",
    [
        bytes(36),
        b"\xff" * 36,
        raw(Kind.STEP, check=1),
        raw(Kind.STEP, n_tokens=0xFFFFFFFF),
        raw(Kind.STEP, n_floats=0xFFFFFFFF),
        raw(Kind.OPEN, n_bytes=0xFFFFFFFF),
        raw(Kind.OPEN, n_bytes=4, body=b"null"),
        raw(Kind.OPEN, n_bytes=3, body=b"{]}"),
        raw(Kind.OPEN, n_bytes=40000, body=b"[" * 40000),
        raw(Kind.DRAWN),
        raw(99),
    ],
)
def test_what_is_no_frame_ends_its_connection_alone(model, head, path, frame):
    with serving(path, 6) as (server,):
        connection = Connection.open(server.address, KEY)
        connection.send(Frame(Kind.ROUTE, json={"next": []}))
        assert connection.receive().kind == Kind.STAGES
        connection._socket.sendall(frame)
        connection._socket.settimeout(5)
        with pytest.raises(BrokenConnectionError):
            connection.receive()
        with connect(head, [server]) as pipeline:
            assert told(pipeline.session(), "The cat", 5) == alone(model, "The cat", 5)


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (Frame(Kind.STEP, 7), "no session 7"),
        (Frame(Kind.STEP, 1), "0 tokens"),
        (Frame(Kind.STEP, 1, position=3, tokens=b"\1\0\0\0"), "at position 3 do not follow"),
        (Frame(Kind.STEP, 1, tokens=b"\1\0\0\0", floats=bytes(8)), "2 floats come with 1 tokens"),
        (Frame(Kind.STEP, 1, tokens=b"\xff\xff\xff\xff"), "-1"),
        (Frame(Kind.OPEN, 1), "open already"),
        (Frame(Kind.OPEN, 2, json={"max_tokens": "many"}), "many"),
        (Frame(Kind.OPEN, 2, json={"sampler": {"warmth": 1}}), "warmth"),
        (Frame(Kind.OPEN, 2, json={"sampler": 3}), "no object"),
    ],
)
def test_a_wrong_frame_is_an_error_of_its_session(path, frame, why):
    with serving(path, 6) as (server,):
        connection = Connection.open(server.address, KEY)
        connection.send(Frame(Kind.ROUTE, json={"next": []}))
        connection.receive()
        connection.send(Frame(Kind.OPEN, 1))
        connection.send(frame)
        answer = connection.receive()
        assert answer.kind == Kind.ERROR and answer.session == frame.session
        assert why in answer.json["message"]
        connection.close()


def test_a_stage_that_ends_breaks_its_pipelines(head, path):
    with serving(path, 3, 3) as servers, connect(head, servers) as pipeline:
        session = pipeline.session()
        session.append("The cat")
        session.draw()
        threading.Timer(0.2, servers[1].close).start()
        with pytest.raises(BrokenConnectionError):
            for _ in range(100):
                session.draw()
                time.sleep(0.01)
        with pytest.raises(BrokenConnectionError):
            told(pipeline.session(), "The", 3)


class Replaceable:
    """Two stages, each of which can be lost and be there again, with what it has saved or without."""

    def __init__(self, path, folder):
        self.path, self.folder, self.servers = path, folder, [None, None]
        for at in range(2):
            self.replace(at)

    def replace(self, at):
        model = qinfer.Model(self.path, qinfer.Runtime(threads=1), layers=(range(2), range(2, 6))[at])
        cache = qinfer.KvCache(model, budget_blocks=64)
        self.servers[at] = StageServer(cache, KEY, snapshots=self.folder / str(at))
        threading.Thread(target=self.servers[at].serve, daemon=True).start()

    def lose(self, at, *, files):
        self.servers[at].close()
        for path in (self.folder / str(at)).glob("*"):
            if not files:
                path.unlink()
        self.replace(at)

    def addresses(self):
        return [server.address for server in self.servers]


@pytest.mark.parametrize("files", [True, False])
@pytest.mark.parametrize("save_every", [0, 8])
@pytest.mark.parametrize("at", [0, 1])
def test_after_a_loss_the_same_tokens_follow(model, head, path, tmp_path, at, save_every, files):
    stages = Replaceable(path, tmp_path)
    sampler = {"temperature": 0.9, "seed": 4, "repeat_penalty": 1.2}
    with Pipeline(head, stages.addresses, KEY, patience=10, save_every=save_every, chunk=16) as pipeline:
        drawn, resting = pipeline.session(**sampler), pipeline.session(**sampler)
        resting.append("The dog")
        resting.draw()
        drawn.append(PROMPT)
        for lost in (21, 22, 40):
            while len(drawn.tokens) < len(model.tokenize(PROMPT)) + lost:
                drawn.draw()
            stages.lose(at, files=files)
        for _ in range(20):
            drawn.draw()
        whole = qinfer.Session(qinfer.KvCache(model, budget_blocks=20))
        whole.set_sampler(**sampler)
        whole.append(PROMPT)
        for _ in range(60):
            whole.evaluate()
            whole.sample()
        assert drawn.tokens == whole.tokens
        resting.draw()
        assert resting.tokens[-2:] == [*two_of(model, sampler)]
        drawn.close(), resting.close()
        time.sleep(0.2)
        assert [list(folder.glob("*.session")) for folder in (tmp_path / "0", tmp_path / "1")] == [[], []]
    for server in stages.servers:
        server.close()


def two_of(model, sampler):
    session = qinfer.Session(qinfer.KvCache(model, budget_blocks=20))
    session.set_sampler(**sampler)
    session.append("The dog")
    for _ in range(2):
        session.evaluate()
        yield session.sample()


def test_a_stage_that_does_not_come_back_is_waited_for_for_a_while(head, path, tmp_path):
    stages = Replaceable(path, tmp_path)
    with Pipeline(head, stages.addresses, KEY, patience=1) as pipeline:
        session = pipeline.session()
        session.append("The cat")
        session.draw()
        for server in stages.servers:
            server.close()
        begun = time.monotonic()
        with pytest.raises(BrokenConnectionError):
            while True:
                session.draw()
        assert time.monotonic() - begun < 5
        stages.replace(0), stages.replace(1)
        session.draw()


def test_processes_are_stages(model, head, path, tmp_path):
    (tmp_path / "key").write_bytes(KEY + b"\n")
    command = [sys.executable, "-m", "qinfer.stages", path, "--key-file", tmp_path / "key", "--threads", "1"]
    processes = [
        subprocess.Popen([*command, "--layers", layers], stdout=subprocess.PIPE, text=True) for layers in ("0:4", "4:6")
    ]
    try:
        addresses = []
        for process in processes:
            found = re.search(r"at (\S+):(\d+)$", process.stdout.readline().strip())
            addresses.append((found[1], int(found[2])))
        with Pipeline(head, addresses, KEY) as pipeline:
            text = told(pipeline.session(temperature=0.7, seed=5), PROMPT, 60)
        assert text == alone(model, PROMPT, 60, temperature=0.7, seed=5)
    finally:
        for process in processes:
            process.terminate()
        assert [process.wait(20) for process in processes] == [0, 0]
    wrong = subprocess.run([*command, "--layers", "5:9"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 1 and "6 layers" in wrong.stderr


def test_models_are_split_so_that_stages_fit(path):
    whole = qinfer.plan(path, sessions=2, context=256)
    assert qinfer.plan(path, sessions=2, context=256, layers=range(6))["total"] == whole["total"]

    def taken(layers):
        planned = qinfer.plan(path, sessions=2, context=256, layers=layers)
        return planned["total"] + 2 * planned["per_session"]

    assert split(path, 1) == [range(6)]
    assert split(path, 6) == [range(at, at + 1) for at in range(6)]
    small, large = taken(range(2)), taken(range(2, 6))
    assert split(path, [small, large], sessions=2, context=256) == [range(2), range(2, 6)]
    with pytest.raises(ValueError, match="no cut fits: at best"):
        split(path, [small, large - 1], sessions=2, context=256)
    for wrong in (0, 7, [0, 1 << 30]):
        with pytest.raises(ValueError, match="of a model with 6 layers"):
            split(path, wrong)


def test_it_is_split_as_the_command_line_says(path):
    folder = pathlib.Path(os.environ.get("QINFER_LIBRARY", "")).resolve().parent
    programs = [program for program in (folder / "examples" / "cli" / "qinfer", folder.parent / "bin" / "qinfer") if program.exists()]
    if not programs:
        pytest.skip("the command is not next to the library")
    whole = qinfer.plan(path, sessions=3, context=128)["total"]
    for machines in (2, 3, 5, [whole, whole], [whole, 2 * whole, whole], [3 * whole, whole]):
        given = [str(machines)] if isinstance(machines, int) else list(map(str, machines))
        command = [programs[0], "plan", path, "--sessions", "3", "--context", "128", "--json", "--split", *given]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        expected = [range(one["first_layer"], one["first_layer"] + one["n_layers"]) for one in told["stages"]]
        assert split(path, machines, sessions=3, context=128) == expected
