"""Conversations that are kept in a folder go on in other caches and processes, with the same text."""

import os
import signal
import subprocess
import sys
import threading

import pytest

import qinfer

PLENTY = 1 << 30
BLOCK = 32


@pytest.fixture
def story(model, cases):
    """Tokens of some blocks."""
    tokens = model.tokenize(cases["prefix"]["text"] * cases["prefix"]["times"])
    assert len(tokens) > 2 * BLOCK
    return tokens


def full(tokens):
    """How many of them fill blocks."""
    return len(tokens) // BLOCK * BLOCK


def cache_of(model, **options):
    return qinfer.KvCache(model, **{"budget_blocks": 32, "prefix": True, **options})


def told(cache, tokens, n=12):
    """A session that has gone on after these tokens, and its text."""
    session = qinfer.Session(cache)
    session.append(tokens)
    return session, session.generate(n).text


def test_a_conversation_goes_on_in_another_cache(model, story, tmp_path):
    folder = tmp_path / "kept"
    with cache_of(model) as cache, qinfer.KvStore(cache, folder, PLENTY) as store:
        session, _ = told(cache, story)
        wanted = session.fork().generate(12).text
        tokens = session.tokens
        assert store.keep(session) == full(tokens[:-1])  # the last one is pending
        assert store.stats["n_files"] == store.stats["written"] == full(tokens[:-1]) // BLOCK
        assert 0 < store.stats["bytes"] <= PLENTY and store.stats["read"] == 0
    cache = cache_of(model)
    with qinfer.KvStore(cache, str(folder), PLENTY) as store:
        assert store.cache is cache
        found = store.fetch(tokens)
        assert found == full(tokens[:-1])
        assert store.stats == {
            "n_files": found // BLOCK, "bytes": store.stats["bytes"], "written": 0, "read": found // BLOCK,
            "removed": 0, "damaged": 0,
        }  # fmt: skip
        session, text = told(cache, tokens)
        assert text == wanted and session.metrics["cached_tokens"] == found
        assert store.fetch(iter(tokens)) == found and store.stats["read"] == found // BLOCK  # the cache has them
        assert store.fetch([]) == store.fetch([1]) == 0


def test_another_process_finds_it(model, story, root, cases, tmp_path):
    script = f"""
import qinfer
model = qinfer.Model({str(root / cases["model"])!r}, qinfer.Runtime(threads=1))
cache = qinfer.KvCache(model, budget_blocks=32, prefix=True)
session = qinfer.Session(cache)
session.append({story!r})
session.evaluate()
print(qinfer.KvStore(cache, {str(tmp_path)!r}, 1 << 30).keep(session))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == f"{full(story)}\n"
    assert qinfer.KvStore(cache_of(model), tmp_path, PLENTY).fetch([*story, 1]) == full(story)


def test_tenants_find_their_own(model, story, tmp_path):
    cache = cache_of(model)
    with qinfer.KvStore(cache, tmp_path, PLENTY) as store:
        assert store.keep(told(cache, story)[0], tenant="Zoë") >= full(story)
    for tenant, found in (("", 0), ("Zoe", 0), ("Zoë", full(story)), ("Zoë\n", 0)):
        with qinfer.KvStore(cache_of(model), tmp_path, PLENTY) as store:
            assert store.fetch([*story, 1], tenant=tenant) == found


def test_what_was_used_longest_ago_makes_room(model, story, tmp_path):
    cache = cache_of(model)
    session = told(cache, story, 1)[0]
    with qinfer.KvStore(cache, tmp_path, PLENTY) as store:
        store.keep(session)
        size = store.stats["bytes"] // store.stats["n_files"]
    with qinfer.KvStore(cache, tmp_path, size) as store:
        assert (store.stats["n_files"], store.stats["removed"]) == (1, full(story) // BLOCK - 1)
        assert store.keep(session) == BLOCK
    next(path for path in tmp_path.iterdir() if path.stat().st_size == size).write_bytes(b"damaged")
    with qinfer.KvStore(cache_of(model), tmp_path, PLENTY) as store:
        assert store.fetch(story) == 0 and store.stats["damaged"] == 1


def test_folders_and_caches_that_cannot_be(model, tmp_path):
    cache = cache_of(model)
    with qinfer.KvStore(cache, tmp_path / "kept", PLENTY):
        with pytest.raises(qinfer.StateError, match="in use"):
            qinfer.KvStore(cache, tmp_path / "kept", PLENTY)
    qinfer.KvStore(cache, tmp_path / "kept", PLENTY).close()
    with pytest.raises(qinfer.UnsupportedError, match="QINFER_CACHE_PREFIX"):
        qinfer.KvStore(cache_of(model, prefix=False), tmp_path / "kept", PLENTY)
    with pytest.raises(qinfer.NotFoundError, match="/a/b"):
        qinfer.KvStore(cache, tmp_path / "a" / "b", PLENTY)
    with pytest.raises(qinfer.IoError, match="/dev/null"):
        qinfer.KvStore(cache, "/dev/null", PLENTY)
    with pytest.raises(qinfer.InvalidArgumentError, match="max_bytes"):
        qinfer.KvStore(cache, tmp_path / "kept", 0)
    (tmp_path / "kept" / "secret").write_bytes(b"short")
    with pytest.raises(qinfer.FormatError, match="secret"):
        qinfer.KvStore(cache, tmp_path / "kept", PLENTY)


def test_sessions_that_a_store_does_not_keep(model, story, tmp_path):
    cache, other = cache_of(model), cache_of(model)
    store, cancel = qinfer.KvStore(cache, tmp_path / "kept", PLENTY), qinfer.Cancel()
    session = told(cache, story, 1)[0]
    with pytest.raises(qinfer.InvalidArgumentError, match="another cache"):
        store.keep(told(other, story, 1)[0])
    session.save(tmp_path / "snapshot")
    with pytest.raises(qinfer.UnsupportedError, match="snapshot"):
        store.keep(qinfer.Session.load(cache, tmp_path / "snapshot"))
    cancel.request()
    with pytest.raises(qinfer.CancelledError):
        store.keep(session, cancel=cancel)
    assert store.stats["n_files"] == 0 and store.keep(qinfer.Session(cache)) == 0
    cancel.reset()
    assert store.keep(session, cancel=cancel) == full(story)
    store.close()
    store = qinfer.KvStore(cache_of(model), tmp_path / "kept", PLENTY)
    cancel.request()
    with pytest.raises(qinfer.CancelledError):
        store.fetch(story, cancel=cancel)
    assert store.fetch(story) == full(story)


def test_wrong_values_are_errors(model, story, tmp_path):
    cache = cache_of(model)
    store, session = qinfer.KvStore(cache, tmp_path, PLENTY), told(cache, story, 1)[0]
    for other in (5, None, "text", model, session):
        with pytest.raises(TypeError, match="a KvCache is expected"):
            qinfer.KvStore(other, tmp_path / "other", PLENTY)
    for other in (5, None, "text", cache, store):
        with pytest.raises(TypeError, match="a Session is expected"):
            store.keep(other)
    for other in (5, None, b"bytes", session):
        for work in (lambda o=other: store.keep(session, tenant=o), lambda o=other: store.fetch(story, tenant=o)):
            with pytest.raises(TypeError, match="a str is expected"):
                work()
    for other in (5, "text", session):
        for work in (lambda o=other: store.keep(session, cancel=o), lambda o=other: store.fetch(story, cancel=o)):
            with pytest.raises(TypeError, match="a Cancel is expected"):
                work()
    with pytest.raises(TypeError, match="a path is expected"):
        qinfer.KvStore(cache, 5, PLENTY)
    for other in (1.5, "many", None):
        with pytest.raises(TypeError):
            qinfer.KvStore(cache, tmp_path / "other", other)
    for other in (5, None, ["a"], "ab", [1.5]):
        with pytest.raises(TypeError):
            store.fetch(other)
    for work in (
        lambda: store.keep(session, tenant="a\0b"),
        lambda: store.fetch(story, tenant="a\0b"),
        lambda: store.fetch([2**32 + 5]),
        lambda: qinfer.KvStore(cache, "a\0b", PLENTY),
        lambda: qinfer.KvStore(cache, tmp_path / "other", -1),
        lambda: qinfer.KvStore(cache, tmp_path / "other", 2**64),
    ):
        with pytest.raises(ValueError):
            work()
    with pytest.raises(qinfer.InvalidArgumentError):
        qinfer.KvStore(cache, None, PLENTY)
    assert not (tmp_path / "other").exists() and store.stats["n_files"] == 0
    assert store.fetch([-1] * 100 + [2**31 - 1] * 100) == store.fetch([1] * 5000) == 0


def test_closed_handles(model, story, tmp_path):
    cache = cache_of(model)
    store, session = qinfer.KvStore(cache, tmp_path, PLENTY), told(cache, story, 1)[0]
    cancel = qinfer.Cancel()
    cancel.close()
    for work in (lambda: store.keep(session, cancel=cancel), lambda: store.fetch(story, cancel=cancel)):
        with pytest.raises(ValueError, match="this Cancel is closed"):
            work()
    cache.close()
    assert store.keep(session) == full(story) and store.fetch(story) > 0  # it keeps the cache
    with pytest.raises(ValueError, match="this KvCache is closed"):
        qinfer.KvStore(cache, tmp_path / "other", PLENTY)
    session.close()
    with pytest.raises(ValueError, match="this Session is closed"):
        store.keep(session)
    store.close()
    store.close()
    for work in (lambda: store.fetch(story), lambda: store.stats, lambda: store.keep(qinfer.Session(cache_of(model)))):
        with pytest.raises(ValueError, match="this KvStore is closed"):
            work()
    qinfer.KvStore(cache_of(model), tmp_path, PLENTY)


def test_threads_use_a_store_that_is_closed(model, story, tmp_path):
    cache = cache_of(model, budget_blocks=64)
    for turn in range(5):
        store, begun = qinfer.KvStore(cache, tmp_path / str(turn), PLENTY), threading.Barrier(5)
        wrong = []

        def use(at, store=store, begun=begun, wrong=wrong):
            tokens = [*story[at:], *story]
            session = told(cache, tokens[:100], 1)[0]
            begun.wait()
            try:
                while True:
                    store.keep(session, tenant=str(at))
                    store.fetch(tokens, tenant=str(at))
                    assert store.stats["damaged"] == 0
            except ValueError as failure:
                if "this KvStore is closed" not in str(failure):
                    wrong.append(failure)
            except BaseException as failure:  # noqa: BLE001 - shown by the test
                wrong.append(failure)

        threads = [threading.Thread(target=use, args=(at,)) for at in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        threading.Event().wait(0.005 * turn)
        store.close()
        for thread in threads:
            thread.join()
        assert wrong == []
        qinfer.KvStore(cache, tmp_path / str(turn), PLENTY).close()  # nobody has the folder any more


def test_a_session_in_use_is_not_kept(model, story, tmp_path):
    cache = cache_of(model)
    store, session, met = qinfer.KvStore(cache, tmp_path, PLENTY), qinfer.Session(cache), []
    session.append(story)

    def keep(_):
        with pytest.raises(qinfer.StateError):
            store.keep(session)
        met.append(store.fetch(story))

    session.generate(2, on_text=keep)
    assert met and store.keep(session) == full(story)


class Stop(Exception):
    pass


def test_a_signal_ends_keeping_and_leaves_all_usable(model, story, tmp_path):
    """Wherever it comes, what is raised comes out; the handler may not use the session meanwhile."""
    cache = cache_of(model)
    store, session = qinfer.KvStore(cache, tmp_path, PLENTY), told(cache, story, 1)[0]
    met, ended = [], threading.Event()

    def stop(*_):
        if ended.is_set():
            return
        if session._apart:
            with pytest.raises(qinfer.StateError):
                session.truncate(1)
            met.append(True)
        raise Stop

    def send(seconds):
        """More than one: what a handler raises in a thread's finalizer is lost."""
        while not ended.wait(seconds):
            os.kill(os.getpid(), signal.SIGUSR1)
            seconds = 0.2

    usual = signal.signal(signal.SIGUSR1, stop)
    try:
        for turn in range(10):
            ended.clear()
            sender = threading.Thread(target=send, args=(0.003 * (turn + 1),))
            with pytest.raises(Stop):
                sender.start()
                for tenant in range(10**6):
                    store.keep(session, tenant=f"{turn} {tenant}")
                    store.fetch(story, tenant=f"{turn} {tenant}")
            ended.set()
            sender.join()
            assert store.keep(session) == full(story)
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert met
