"""Makes calls again and again in daemon threads, in the middle of which the interpreter ends: what test_exit.py runs.

ends.py ROOT SECONDS KIND...
"""

import asyncio
import itertools
import pathlib
import sys
import tempfile
import threading
import time

import piping
from host_files import DiskFile, MemoryFile

import qinfer

ROOT = pathlib.Path(sys.argv[1])
STORIES, CHAT = ROOT / "examples" / "models" / "tiny-stories", ROOT / "examples" / "models" / "tiny-chat"
LOG_ALL = 4
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


def stories(**options):
    return qinfer.Model(STORIES, qinfer.Runtime(threads=1), **options)


def prompted(**options):
    """A session that draws no end token, and its model."""
    model = stories()
    session = qinfer.Session(model, **options)
    session.append("Once upon a time")
    session.set_bias({token: float("-inf") for token in model.end_tokens})
    return session


def generate(**options):
    session = prompted()

    def work():
        session.truncate(3)
        session.generate(200, **options)

    return work


def hooked():
    session = prompted()
    session.set_logits_hook(lambda logits: None, lambda token: None)
    return lambda: (session.truncate(3), session.generate(200))


def slow(**options):
    """A session of a model that takes seconds for a long prompt."""
    return qinfer.Session(qinfer.Model(CHAT, qinfer.Runtime(threads=1, cpu_target="reference")), **options)


def evaluate(n_tokens=400):
    session = slow(embeddings=True)

    def work():
        session.truncate(0)
        session.append([5 + i % 50 for i in range(n_tokens)])
        session.evaluate()
        session.embedding()

    return work


def batches():
    cache = qinfer.KvCache(stories(), budget_blocks=64)
    sessions = [qinfer.Session(cache, max_tokens=64) for _ in range(4)]

    def work():
        for session in sessions:
            session.truncate(0)
            session.append(range(5, 45))
        qinfer.evaluate(sessions)

    return work


def logged():
    runtime = qinfer.Runtime(threads=1, log=lambda *_: None, log_level=LOG_ALL)
    return lambda: qinfer.Model(CHAT, runtime)


def from_disk(name, writing):
    if not (ROOT / name).is_file():
        raise FileNotFoundError(name)
    return DiskFile(ROOT / name)


def snapshots():
    session, file = prompted(), MemoryFile()
    session.generate(100)

    def work():
        file.truncate(0)
        session.save("a name", files=lambda *_: file)
        qinfer.Session.load(session.cache, "a name", files=lambda *_: file).close()

    return work


def kept():
    cache = qinfer.KvCache(stories(), budget_blocks=32, prefix=True)
    store = qinfer.KvStore(cache, tempfile.mkdtemp(), 1 << 20)
    session, tenants = qinfer.Session(cache), itertools.count()
    session.append([5 + i % 50 for i in range(200)])
    session.evaluate()

    def work():
        name = str(next(tenants))
        store.keep(session, tenant=name)
        store.fetch(session.tokens, tenant=name)

    return work


def grammars():
    model = stories()
    schema = {"type": "object", "properties": {f"member{i}": {"type": "string", "maxLength": i} for i in range(1, 40)}}
    return lambda: qinfer.Grammar.json_schema(model, schema)


def turns():
    model = qinfer.Model(CHAT, qinfer.Runtime(threads=1))
    return lambda: qinfer.Chat(model).send(MESSAGES[0]["content"])


def completions():
    client = qinfer.Client(qinfer.Model(CHAT, qinfer.Runtime(threads=1)))
    return lambda: client.chat.completions.create(messages=MESSAGES)


def chunks():
    client = qinfer.Client(qinfer.Model(CHAT, qinfer.Runtime(threads=1)))
    return lambda: list(client.chat.completions.create(messages=MESSAGES, stream=True))


def clients():
    """Each has an engine, whose thread it begins."""
    model = qinfer.Model(CHAT, qinfer.Runtime(threads=1))

    def work():
        client = qinfer.Client(model)
        client.responses.create(input="Hello", max_output_tokens=2)
        client.close()

    return work


def engines():
    engine = qinfer.AsyncEngine(stories(), budget_bytes=1 << 24)
    return lambda: asyncio.run(engine.generate("Once upon a time", 20))


def pipelines():
    """Conversations with a model in two stages, in this process."""
    stages = piping.piped(STORIES, 3, 3)
    pipeline = stages.__enter__()

    def work():
        with pipeline.session() as session:
            session.append("Once upon a time")
            list(session.stream(20))
        assert stages  # are there as long

    return work


def streams(n_tokens=200):
    session = prompted()
    return lambda: (session.truncate(3), list(session.stream(n_tokens)))


def loops():
    session = prompted()

    async def read():
        session.truncate(3)
        async for _ in session.astream(200):
            pass

    return lambda: asyncio.run(read())


def texts():
    model = qinfer.Model(CHAT, qinfer.Runtime(threads=1))

    def work():
        model.detokenize(model.tokenize("a b c " * 200))
        model.tokenize_chat(MESSAGES)
        model.render_chat(MESSAGES)
        qinfer.Session(model).close()
        qinfer.Cancel().request()
        qinfer.plan(CHAT)

    return work


KINDS = {
    "generate": generate,
    "on_text": lambda: generate(on_text=str),
    "on_token": lambda: generate(on_token=lambda *_: True, cancel=qinfer.Cancel()),
    "hook": hooked,
    "evaluate": evaluate,
    "batches": batches,
    "load": lambda: lambda: stories(lock=False),
    "progress": lambda: lambda: stories(progress=lambda *_: None),
    "log": logged,
    "files": lambda: lambda: qinfer.Model("examples/models/tiny-stories", files=from_disk),
    "snapshots": snapshots,
    "kept": kept,
    "grammars": grammars,
    "turns": turns,
    "completions": completions,
    "chunks": chunks,
    "clients": clients,
    "engines": engines,
    "pipelines": pipelines,
    "streams": streams,
    "short streams": lambda: streams(1),
    "loops": loops,
    "texts": texts,
}


def again(work, begun):
    begun.set()
    while True:
        work()


def main():
    for kind in sys.argv[3:]:
        begun = threading.Event()
        threading.Thread(target=again, args=(KINDS[kind](), begun), daemon=True).start()
        begun.wait()
    time.sleep(float(sys.argv[2]))


if __name__ == "__main__":
    main()
