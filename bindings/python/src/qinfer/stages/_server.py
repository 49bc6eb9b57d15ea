"""A stage as a server: it evaluates what comes with its layers, and passes it on."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .._cache import KvCache
from .._errors import QinferError
from .._session import Session
from .._stage import evaluate_stage
from ._frames import DRAW, KEEP, BrokenConnectionError, Connection, Frame, Kind

Address = tuple[str, int]
MOST_SESSIONS = 1024
_KEPT_S = 24 * 3600  # seconds, for which files of sessions that nobody has closed are kept


def describe(cache: KvCache) -> dict[str, Any]:
    """What the stages of one model must have in common, and how they differ. cache_tokens: that the cache has blocks for."""
    stats = cache.stats
    info: dict[str, Any] = {**cache.model.info, "cache_tokens": stats["blocks_total"] * stats["block_tokens"]}
    common = "architecture", "n_embd", "n_vocab", "n_model_layers", "kernel_set", "context_tokens"
    names = *common, "n_layers", "first_layer", "cache_tokens"
    return {name: info[name] for name in names}


class StageServer:
    """Listens for heads and for the stages before it. `cache` is one of a model with layers=...; serve() answers until
    close(), each connection on threads of its own. `snapshots` is a directory in which it saves sessions of pipelines that
    ask for it, so that they can go on after a stage was lost: two files for each session, until it is closed. `log` gets a
    line for each connection that ends with an error."""

    def __init__(
        self,
        cache: KvCache,
        key: bytes,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        snapshots: Path | str | None = None,
        most_connections: int = 16,
        log: Callable[[str], object] = lambda line: None,
    ) -> None:
        if len(key) < 16:
            raise ValueError(f"the key has {len(key)} bytes, expected 16 or more")
        self.cache, self._key, self._log = cache, key, log
        self._saved = Saved(snapshots, cache)
        self._listener = socket.create_server((host, port))
        self.address: Address = self._listener.getsockname()[:2]
        self._places = threading.BoundedSemaphore(most_connections)
        self._chains: set[_Chain] = set()
        self._lock = threading.Lock()
        self._closing = False

    def serve(self) -> None:
        """Until close() is called."""
        while True:
            try:
                accepted, _ = self._listener.accept()
            except OSError:
                if self._closing:
                    return
                continue
            if not self._places.acquire(blocking=False):
                self._log("a connection is refused: there are too many")
                accepted.close()
                continue
            threading.Thread(target=self._answer, args=(accepted,), daemon=True).start()

    def _answer(self, accepted: socket.socket) -> None:
        try:
            connection = Connection(accepted, self._key, is_server=True)
            chain = _Chain(self.cache, connection, self._key, self._saved, self._log)
            with self._lock:
                self._chains.add(chain)
                if self._closing:
                    chain.close()
            try:
                chain.run()
            finally:
                with self._lock:
                    self._chains.discard(chain)
        except BrokenConnectionError as ended:
            self._log(f"a connection ended: {ended}")
        finally:
            self._places.release()

    def close(self) -> None:
        """Ends serve() and all connections; heads see them broken."""
        with self._lock:
            self._closing = True
            chains = list(self._chains)
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for chain in chains:
            chain.close()


class Saved:
    """The files of sessions: name-position.session for what was evaluated of a session up to there."""

    def __init__(self, folder: Path | str | None, cache: KvCache) -> None:
        self._folder, self._cache = None if folder is None else Path(folder), cache
        if self._folder is not None:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for path in self._folder.glob("*.session"):
                if path.stat().st_mtime < time.time() - _KEPT_S:
                    path.unlink(missing_ok=True)

    def _path(self, name: str, position: int) -> Path:
        if self._folder is None:
            raise ValueError("the stage saves nothing: it has no directory for it")
        return self._folder / f"{name}-{position}.session"

    def save(self, session: Session, name: str, position: int) -> None:
        """The one before is kept: the other stages may not have got as far."""
        path = self._path(name, position)
        session.save(path)
        for old in self._of(name)[2:]:
            old.unlink(missing_ok=True)

    def load(self, name: str, position: int) -> Session:
        return Session.load(self._cache, self._path(name, position))

    def forget(self, name: str) -> None:
        for path in self._of(name):
            path.unlink(missing_ok=True)

    def _of(self, name: str) -> list[Path]:
        """The newest first."""
        found = list(self._folder.glob(f"{name}-*.session")) if self._folder is not None else []
        return sorted(found, key=lambda path: -int(path.stem.rpartition("-")[2]))


class _Chain:
    """One head's way through this stage: its sessions here, and the connections to the side of the head and to the next
    stage."""

    def __init__(
        self, cache: KvCache, upstream: Connection, key: bytes, saved: Saved, log: Callable[[str], object]
    ) -> None:
        self._cache, self._upstream, self._key, self._saved, self._log = cache, upstream, key, saved, log
        self._downstream: Connection | None = None
        self._sessions: dict[int, Session] = {}
        self._names: dict[int, str] = {}
        self._width = int(cache.model.info["n_embd"])

    def run(self) -> None:
        """Until either side breaks, which breaks the other one, too."""
        try:
            self._take_route(self._upstream.receive())
            if self._downstream is not None:
                threading.Thread(target=self._pass_back, args=(self._downstream,), daemon=True).start()
            while True:
                self._take(self._upstream.receive())
        finally:
            self.close()
            for session in self._sessions.values():
                session.close()

    def close(self) -> None:
        self._upstream.close()
        if self._downstream is not None:
            self._downstream.close()

    def _take_route(self, frame: Frame) -> None:
        """The stages after this one: [[host, port], ...]. The answer says what all of them are."""
        stages, seconds = frame.json.get("next"), frame.json.get("seconds", 5)
        valid = isinstance(stages, list) and len(stages) <= 1024 and isinstance(seconds, int | float) and 0 < seconds <= 60
        if frame.kind != Kind.ROUTE or not valid:
            raise BrokenConnectionError("the first frame is no route")
        told = [describe(self._cache)]
        if stages:
            try:
                host, port = str(stages[0][0]), int(stages[0][1])
            except (IndexError, TypeError, ValueError) as failed:
                raise BrokenConnectionError("a route has no address of a stage") from failed
            try:
                self._downstream = Connection.open((host, port), self._key, seconds)
                self._downstream.send(Frame(Kind.ROUTE, json={"next": stages[1:], "seconds": seconds}))
                answer = self._downstream.receive(0)
            except BrokenConnectionError as failed:
                self._upstream.send(Frame(Kind.ERROR, json={"message": f"{host}:{port}: {failed}"}))
                raise
            if answer.kind == Kind.ERROR:
                self._upstream.send(answer)
                raise BrokenConnectionError(str(answer.json.get("message")))
            told += answer.json.get("stages", [])
        self._upstream.send(Frame(Kind.STAGES, json={"stages": told}))

    def _pass_back(self, downstream: Connection) -> None:
        try:
            while True:
                self._upstream.send(downstream.receive(0))
        except BrokenConnectionError:
            self.close()

    def _take(self, frame: Frame) -> None:
        try:
            if frame.kind == Kind.STEP:
                return self._step(frame)
            if frame.kind == Kind.OPEN:
                self._open(frame)
            elif frame.kind == Kind.SAVE:
                self._save(frame)
            elif frame.kind == Kind.TRUNCATE:
                self._truncate(frame)
            elif frame.kind == Kind.CLOSE:
                self._close_session(frame)
            else:
                raise BrokenConnectionError(f"a frame of kind {frame.kind.name} does not come this way")
        except (QinferError, OSError, TypeError, ValueError) as failed:
            if isinstance(failed, BrokenConnectionError):
                raise
            return self._fail(frame.session, failed)
        if self._downstream is not None:
            self._downstream.send(frame)

    def _fail(self, session: int, failed: Exception) -> None:
        """The head is told, and frees the session everywhere."""
        self._upstream.send(Frame(Kind.ERROR, session, json={"message": f"{self._layers()}: {failed}"}))

    def _layers(self) -> str:
        return f"layers from {self._cache.model.info['first_layer']} on"

    def _open(self, frame: Frame) -> None:
        """With "resume", a position other than 0, out of what was saved there."""
        if frame.session in self._sessions or len(self._sessions) >= MOST_SESSIONS:
            raise ValueError(f"session {frame.session} is open already, or there are too many")
        name, resume = frame.json.get("name", ""), frame.json.get("resume", 0)
        if not isinstance(name, str) or re.fullmatch("[0-9a-f]{0,64}", name) is None or not isinstance(resume, int):
            raise ValueError("a session's name has up to 64 digits, and a position is a number")
        if resume != 0:
            self._sessions[frame.session], self._names[frame.session] = self._saved.load(name, resume), name
            return
        session = Session(self._cache, max_tokens=int(frame.json.get("max_tokens", 0)))
        self._sessions[frame.session], self._names[frame.session] = session, name
        sampler = frame.json.get("sampler", {})
        if not isinstance(sampler, dict):
            raise ValueError("the sampler is no object")
        if self._downstream is None:
            session.set_sampler(**sampler)

    def _close_session(self, frame: Frame) -> None:
        session = self._sessions.pop(frame.session, None)
        if session is None:
            return
        session.close()
        name = self._names.pop(frame.session)
        if name and not frame.flags & KEEP:
            self._saved.forget(name)

    def _save(self, frame: Frame) -> None:
        """A disk that is full, say, ends no session: it goes on without the file."""
        session = self._sessions.get(frame.session)
        if session is None or len(session) - session.pending != frame.position or not self._names[frame.session]:
            raise ValueError(f"session {frame.session} has not evaluated {frame.position} tokens, or has no name")
        try:
            if not frame.json:
                self._saved.save(session, self._names[frame.session], frame.position)
        except (QinferError, OSError, ValueError) as failed:
            frame.json = {"message": f"{self._layers()}: {failed}"}
            self._log(f"a session is not saved: {failed}")
        if self._downstream is None:
            self._upstream.send(Frame(Kind.SAVED, frame.session, frame.position, json=frame.json))

    def _truncate(self, frame: Frame) -> None:
        """Where a sliding window has moved on, a stage has none of its tokens evaluated after it."""
        session = self._sessions.get(frame.session)
        if session is None:
            raise ValueError(f"there is no session {frame.session}")
        if frame.position < len(session):
            session.truncate(frame.position)
        before = frame.json.get("evaluated", frame.position)
        if not isinstance(before, int):
            raise ValueError("how many tokens are evaluated is a number")
        evaluated = min(before, len(session) - session.pending)
        frame.json = {"evaluated": evaluated}
        if self._downstream is None:
            self._upstream.send(Frame(Kind.TRUNCATED, frame.session, evaluated))

    def _pending_of(self, session: Session, position: int, n_tokens: int) -> int | None:
        """How many of the tokens that are to be evaluated from there on the session has already: the one that the last stage
        drew itself, and after a truncation what was left. None: these tokens cannot be the next ones."""
        if position < len(session) - session.pending:  # other stages have less of it evaluated
            session.truncate(position + 1)
        known = len(session) - position
        if n_tokens == 0 or known != session.pending:
            return None
        if known > n_tokens:
            session.truncate(position + n_tokens)
        return min(known, n_tokens)

    def _step(self, frame: Frame) -> None:
        session = self._sessions.get(frame.session)
        if session is None:
            raise ValueError(f"there is no session {frame.session}")
        tokens = frame.token_list()
        known = self._pending_of(session, frame.position, len(tokens))
        if known is None or session.tokens[frame.position :] != tokens[:known]:
            raise ValueError(f"{len(tokens)} tokens at position {frame.position} do not follow {len(session)} tokens")
        session.append(tokens[known:])
        takes = self._cache.model.info["first_layer"] != 0
        if len(frame.floats) != (len(tokens) * self._width if takes else 0):
            raise ValueError(f"{len(frame.floats)} floats come with {len(tokens)} tokens of {self._width}")
        rows = evaluate_stage([session], [frame.floats] if takes else None)
        if self._downstream is not None:
            frame.floats = rows[0]
            self._downstream.send(frame)
        elif frame.flags & DRAW:
            position = len(session)
            token = session.sample()
            self._upstream.send(Frame(Kind.DRAWN, frame.session, position, tokens=array("i", [token])))
