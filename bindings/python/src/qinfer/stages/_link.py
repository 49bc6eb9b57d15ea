"""A connection of a head through all stages."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from .. import _abi, _exit
from .._apart import start_thread
from .._cancel import Cancel
from .._errors import CancelledError
from ._frames import AWAITED_SHIFT, DRAW, KEEP, MOST_AWAITED, BrokenConnectionError, Connection, Frame, Kind

Addresses = Sequence[tuple[str, int]]
LOOK_S = 0.05  # after which a call that waits looks whether it was cancelled


class StageError(RuntimeError):
    """A stage could not go on with a session, which is closed."""


def check(cancel: Cancel | None) -> None:
    _exit.check()
    if cancel is not None and cancel._requested:
        what = "the call was cancelled: the tokens made so far stay"
        raise CancelledError("QINFER_E_CANCELLED", _abi.QINFER_E_CANCELLED, what, 0)


def _taken(inbox: queue.SimpleQueue[Frame], cancel: Cancel | None) -> Frame:
    """CancelledError, and the frame is still to come, where that was requested."""
    while True:
        check(cancel)
        try:
            return inbox.get(timeout=None if cancel is None else LOOK_S)
        except queue.Empty:
            pass


class Link:
    """A connection through all stages, and what comes back for each session; broken once, broken for good."""

    def __init__(self, stages: Addresses, key: bytes, seconds: float) -> None:
        if not stages:
            raise ValueError("there is no stage, expected the addresses of one or more")
        self._connection = Connection.open(stages[0], key, seconds)
        self._inboxes: dict[int, queue.SimpleQueue[Frame]] = {}
        self._lost: deque[int] = deque()  # sessions that the collector has found, which must wait for no lock
        self._awaited: set[int] = set()  # sessions for which a token is to come
        self._lock = threading.Lock()
        self.broken: str | None = None
        try:
            self.stages = self._connect(stages, seconds)
            self._thread = threading.Thread(target=self._receive, daemon=True)
            start_thread(self._thread)
        except BaseException:
            self._connection.close()
            raise

    def _connect(self, stages: Addresses, seconds: float) -> list[dict[str, Any]]:
        route = {"next": [list(one) for one in stages[1:]], "seconds": seconds, "n_stages": len(stages)}
        self._connection.send(Frame(Kind.ROUTE, json=route))
        answer = self._connection.receive(0)
        if answer.kind == Kind.ERROR:
            raise BrokenConnectionError(str(answer.json.get("message")))
        told = answer.json.get("stages")
        if answer.kind != Kind.STAGES or not isinstance(told, list) or len(told) != len(stages):
            raise BrokenConnectionError("the stages do not say what they are")
        return told

    def join(self, number: int) -> None:
        with self._lock:
            self._inboxes[number] = queue.SimpleQueue()

    def leave(self, number: int, *, keeps: bool = False) -> None:
        """keeps: what was saved of the session."""
        with self._lock:
            known = self._inboxes.pop(number, None) is not None
            self._awaited.discard(number)
        if known and self.broken is None:
            self.send(Frame(Kind.CLOSE, number, flags=KEEP if keeps else 0))

    def leave_later(self, number: int) -> None:
        """With the next frame that is sent."""
        self._lost.append(number)

    def send(self, frame: Frame) -> None:
        while self._lost:
            self.leave(self._lost.popleft())
        if self.broken is not None:
            raise BrokenConnectionError(self.broken)
        if frame.kind == Kind.STEP:
            with self._lock:
                if frame.flags & DRAW:
                    self._awaited.add(frame.session)
                frame.flags |= min(len(self._awaited), MOST_AWAITED) << AWAITED_SHIFT
        try:
            self._connection.send(frame)
        except BrokenConnectionError as failed:
            self._break(failed)
            raise

    def answer(self, number: int, kind: Kind, cancel: Cancel | None = None) -> Frame:
        """The next frame for a session, which must be of this kind, or says why no token was drawn. StageError where a stage
        has failed."""
        inbox = self._inboxes.get(number)
        if inbox is None:
            raise BrokenConnectionError("the session has left the connection")
        frame = _taken(inbox, cancel)
        if frame.kind == kind or (kind == Kind.DRAWN and frame.kind == Kind.ERROR and "status" in frame.json):
            return frame
        if frame.kind != Kind.ERROR:
            raise self.wrong(f"a stage answers {frame.kind.name} where {kind.name} is to come")
        if frame.flags:
            inbox.put(frame)  # for whoever asks next
            raise BrokenConnectionError(str(frame.json.get("message")))
        raise StageError(str(frame.json.get("message")))

    def wrong(self, what: str) -> BrokenConnectionError:
        """A stage says what cannot be: the end of the connection."""
        failed = BrokenConnectionError(what)
        self._connection.close()
        self._break(failed)
        return failed

    def _receive(self) -> None:
        try:
            while True:
                frame = self._connection.receive(0)
                with self._lock:
                    self._awaited.discard(frame.session)
                inbox = self._inboxes.get(frame.session)
                if inbox is not None:
                    inbox.put(frame)
        except BrokenConnectionError as failed:
            self._break(failed)

    def _break(self, failed: BrokenConnectionError) -> None:
        """Whoever waits is told, and who asks for a link gets another one."""
        with self._lock:
            self.broken = self.broken or str(failed)
            for inbox in self._inboxes.values():
                inbox.put(Frame(Kind.ERROR, flags=1, json={"message": self.broken}))

    def close(self) -> None:
        self._connection.close()
        self._thread.join()
