"""One head's way through a stage: what its frames do to the sessions here."""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from .._apart import start_thread
from .._cache import KvCache
from .._errors import QinferError
from .._grammar import Grammar
from .._session import Session
from .._stage import evaluate_stage
from ._frames import AWAITED_SHIFT, DRAW, KEEP, MORE, BrokenConnectionError, Connection, Frame, Kind
from ._saved import Saved

MOST_SESSIONS = 1024
_GRAMMARS = 8  # that are kept compiled
_MOST_TOKENS = 8  # of a step that is evaluated together with others


def describe(cache: KvCache) -> dict[str, Any]:
    """What the stages of one model must have in common, and how they differ. cache_tokens: that the cache has blocks for."""
    stats = cache.stats
    info: dict[str, Any] = {**cache.model.info, "cache_tokens": stats["blocks_total"] * stats["block_tokens"]}
    info["block_tokens"] = stats["block_tokens"]
    common = "architecture", "n_embd", "n_vocab", "n_model_layers", "kernel_set", "context_tokens"
    names = *common, "n_layers", "first_layer", "cache_tokens", "block_tokens"
    return {name: info[name] for name in names}


def most_top_of(n_vocab: int) -> int:
    """Of how many most likely tokens log probabilities are told."""
    return min(64, n_vocab)


def _may_join(frame: Frame) -> bool:
    return frame.kind == Kind.STEP and 0 < len(frame.tokens) <= _MOST_TOKENS


class Chain:
    """One head's way through this stage: its sessions here, and the connections to the side of the head and to the next
    stage."""

    def __init__(
        self, cache: KvCache, upstream: Connection, key: bytes, saved: Saved, log: Callable[[str], object]
    ) -> None:
        self._cache, self._upstream, self._key, self._saved, self._log = cache, upstream, key, saved, log
        self._downstream: Connection | None = None
        self._sessions: dict[int, Session] = {}
        self._names: dict[int, str] = {}
        self._width, self._is_first = int(cache.model.info["n_embd"]), cache.model.info["first_layer"] == 0
        self._most_top = most_top_of(int(cache.model.info["n_vocab"]))
        self._n_stages = 1
        self._compiled = lru_cache(_GRAMMARS)(partial(Grammar, cache.model))
        self._next: Frame | None = None  # has come, and does not belong to the group before it

    def run(self) -> None:
        """Until either side breaks, which breaks the other one, too."""
        try:
            self._take_route(self._upstream.receive())
            if self._downstream is not None:
                start_thread(threading.Thread(target=self._pass_back, args=(self._downstream,), daemon=True))
            while True:
                self._take(self._arrived())
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
        n_stages = frame.json.get("n_stages", 1)
        if frame.kind != Kind.ROUTE or not valid or not isinstance(n_stages, int) or n_stages < 1:
            raise BrokenConnectionError("the first frame is no route")
        self._n_stages = n_stages
        told = [describe(self._cache)]
        if stages:
            try:
                host, port = str(stages[0][0]), int(stages[0][1])
                host.encode("idna")
            except (LookupError, OverflowError, TypeError, ValueError) as failed:
                raise BrokenConnectionError("a route has no address of a stage") from failed
            try:
                self._downstream = Connection.open((host, port), self._key, seconds)
                self._downstream.send(Frame(Kind.ROUTE, json={**frame.json, "next": stages[1:]}))
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

    def _arrived(self) -> list[Frame]:
        """The next frame; or a group: steps of few tokens, of different sessions, that are there and are evaluated together.
        A group has at most its share of the sessions that wait for a token, so that each stage has a group to compute: in
        one group all sessions would go from stage to stage together, and all stages but one had nothing to do."""
        group = [self._next or self._upstream.receive()]
        self._next = None
        if not _may_join(group[0]):
            return group
        most = -(-(group[0].flags >> AWAITED_SHIFT) // self._n_stages)
        while True:
            follows = group[-1].flags & MORE != 0  # of the group that the stage before has made
            if not follows and len(group) >= most:
                return group
            frame = self._upstream.receive() if follows else self._upstream.receive_if_there()
            if frame is None:
                return group
            begins_another = not follows and frame.flags & MORE
            if begins_another or not _may_join(frame) or any(frame.session == other.session for other in group):
                self._next = frame
                return group
            group.append(frame)

    def _take(self, group: list[Frame]) -> None:
        frame = group[0]
        if frame.kind == Kind.STEP:
            return self._step(group)
        try:
            if frame.kind == Kind.OPEN:
                self._open(frame)
            elif frame.kind == Kind.SAVE:
                self._save(frame)
            elif frame.kind == Kind.TRUNCATE:
                self._truncate(frame)
            elif frame.kind == Kind.GRAMMAR:
                self._set_grammar(frame)
            elif frame.kind == Kind.CLOSE:
                self._close_session(frame)
            else:
                raise BrokenConnectionError(f"a frame of kind {frame.kind.name} does not come this way")
        except BrokenConnectionError:
            raise
        except Exception as failed:  # noqa: BLE001 - whatever a head sends ends its session alone
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
            loaded = self._saved.load(name, resume)
            self._sessions[frame.session], self._names[frame.session] = loaded, name
            self._saved.forget(name, resume)  # of tokens that were taken back since
            return
        session = Session(self._cache, max_tokens=int(frame.json.get("max_tokens", 0)))
        self._sessions[frame.session], self._names[frame.session] = session, name
        if name:
            self._saved.forget(name)
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
                if self._downstream is None and session.pending == 0:
                    raise ValueError("no token is drawn after what is evaluated")
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
        if name := self._names[frame.session]:
            self._saved.forget(name, frame.position - 1)
        before = frame.json.get("evaluated", frame.position)
        if not isinstance(before, int) or not 0 <= before <= frame.position:
            raise ValueError(f"{before!r:.40} tokens are not evaluated of {frame.position}")
        evaluated = min(before, len(session) - session.pending)
        frame.json = {"evaluated": evaluated}
        if self._downstream is None:
            self._upstream.send(Frame(Kind.TRUNCATED, frame.session, evaluated))

    def _set_grammar(self, frame: Frame) -> None:
        """Only the last stage draws."""
        session = self._sessions.get(frame.session)
        if session is None:
            raise ValueError(f"there is no session {frame.session}")
        if self._downstream is not None:
            return
        told = frame.json.get("grammar")
        if told is None:
            session.set_grammar(None)
            return
        kind, text, any_space = (told.get(name) for name in ("kind", "text", "any_space"))
        if type(kind) is not int or not isinstance(text, str) or not isinstance(any_space, bool):
            raise ValueError("a grammar has a kind, a text and any_space")
        session.set_grammar(self._compiled(kind, text, any_space=any_space), drawn=frame.token_list())

    def _step(self, group: list[Frame]) -> None:
        steps = []
        for frame in group:
            try:
                steps.append((frame, self._prepared(frame)))
            except Exception as failed:  # noqa: BLE001 - as in _take()
                self._fail(frame.session, failed)
        done = self._evaluated([step for step in steps if len(step[0].tokens)])
        done += [(*step, b"") for step in steps if not len(step[0].tokens)]  # evaluated before: a token is drawn once more
        for at, (frame, session, rows) in enumerate(done):
            if self._downstream is not None:
                frame.floats = rows
                frame.flags = frame.flags & ~MORE | (MORE if at + 1 < len(done) else 0)
                self._downstream.send(frame)
            elif frame.flags & DRAW:
                self._draw(frame, session)

    def _prepared(self, frame: Frame) -> Session:
        """The frame's session with its tokens pending."""
        session = self._sessions.get(frame.session)
        if session is None:
            raise ValueError(f"there is no session {frame.session}")
        tokens = frame.token_list()
        if len(frame.floats) != (0 if self._is_first else len(tokens) * self._width):
            raise ValueError(f"{len(frame.floats)} floats come with {len(tokens)} tokens of {self._width}")
        n_top = frame.json.get("n_top", 0)
        if type(n_top) is not int or not 0 <= n_top <= self._most_top:
            raise ValueError(f"log probabilities of {n_top!r:.40} tokens are wanted, at most {self._most_top} are told")
        is_step = len(tokens) != 0 or frame.flags & DRAW  # a token may be drawn once more
        takes = self._takes_last if self._downstream is None else self._takes
        if not is_step or frame.position > len(session) - session.pending or not takes(session, frame, tokens):
            raise ValueError(f"{len(tokens)} tokens at position {frame.position} do not follow {len(session)} tokens")
        return session

    def _takes(self, session: Session, frame: Frame, tokens: list[int]) -> bool:
        """Has the session evaluate these, also those that it has evaluated, as the next stage has not after a truncation. What
        was pending here is of no use."""
        if not tokens:
            return frame.position == len(session) - session.pending
        if frame.position < len(session) - session.pending:
            session.truncate(frame.position + 1)
        if session.pending == 0:
            session.append(tokens)
        else:
            session.set_tokens(session.tokens[: frame.position] + tokens)
        return session.pending == len(tokens) == len(session) - frame.position

    def _takes_last(self, session: Session, frame: Frame, tokens: list[int]) -> bool:
        """The last stage has the token that it drew itself, and after a truncation more: these must be the same, and what is
        evaluated of them is not evaluated again."""
        evaluated = len(session) - session.pending
        end = frame.position + len(tokens)
        held = session.tokens[frame.position : end]
        if held != tokens[: len(held)] or (frame.flags & DRAW and evaluated > end):
            return False
        session.append(tokens[len(held) :])
        n_done = min(evaluated - frame.position, len(tokens))
        frame.tokens, frame.floats = frame.tokens[n_done:], frame.floats[n_done * self._width if not self._is_first else 0 :]
        return session.pending == len(frame.tokens) or len(frame.tokens) == 0

    def _evaluated(self, steps: list[tuple[Frame, Session]]) -> list[tuple[Frame, Session, Any]]:
        """Together; where that fails one by one, so that the others of a session that has no room go on."""
        if not steps:
            return []
        hidden = None if self._is_first else [frame.floats for frame, _ in steps]
        try:
            rows = evaluate_stage([session for _, session in steps], hidden)
        except (QinferError, ValueError) as failed:
            if len(steps) > 1:
                return [done for step in steps for done in self._evaluated([step])]
            self._fail(steps[0][0].session, failed)
            return []
        return [(*step, rows[at] if rows else None) for at, step in enumerate(steps)]

    def _draw(self, frame: Frame, session: Session) -> None:
        """Where no token can be drawn, as no more of them fulfil the grammar, the session stays as it is."""
        position = len(session)
        try:
            token = session.sample()
        except QinferError as failed:
            told = {"message": failed.message, "status": failed.status, "detail": failed.detail}
            return self._upstream.send(Frame(Kind.ERROR, frame.session, position, json=told))
        drawn = Frame(Kind.DRAWN, frame.session, position, tokens=array("i", [token]))
        if (n_top := frame.json.get("n_top")) is not None:
            try:
                drawn.json = {"logprob": session.logprobs([token])[0], "top": session.top_logprobs(n_top)}
            except QinferError as failed:  # the session has a token that the head has not
                return self._fail(frame.session, failed)
        self._upstream.send(drawn)
