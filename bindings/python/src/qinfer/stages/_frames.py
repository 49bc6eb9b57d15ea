"""Frames between the stages of a pipeline, over TCP.

A connection begins with a proof by both sides that they have the same key (HMAC-SHA256 over random bytes of each), within
a few seconds. After it come frames: a header of 36 bytes, then n_tokens 32-bit tokens, then n_floats 32-bit floats
(hidden states), then n_bytes of JSON. All numbers are little-endian. A checksum (CRC-32) over header and payload finds
damage; the key keeps strangers out; nothing is encrypted. What cannot be a frame ends the connection.

A machine that has lost its power or its network closes no connection, and a process that was stopped does not either. So
each side sends a frame without content every BEAT_S seconds, from a thread of its own, and takes SILENCE_S seconds without a
byte for the end.
"""

from __future__ import annotations

import hmac
import json
import os
import select
import socket
import struct
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from .._apart import start_thread

MAGIC = b"QINFERS2"
_HEADER = struct.Struct("<HHQIIIII")
_NONCE = 32
_MAC = 32
MOST_TOKENS = 1 << 20
MOST_FLOATS = 1 << 30
MOST_BYTES = 1 << 20
BEAT_S = 5.0
SILENCE_S = 30.0

if sys.byteorder != "little":
    raise ImportError("frames are little-endian, and this machine is not")


class Kind(IntEnum):
    """What a frame is. BEAT goes both ways, what is up to GRAMMAR from the head to the last stage, the rest back."""

    BEAT = 0  # the sender is there
    ROUTE = 1  # JSON: the stages that are to come
    OPEN = 2  # JSON: a session with its name, room and sampler, or out of what was saved of it
    STEP = 3  # tokens to evaluate, and their hidden states but in the first stage; JSON: log probabilities that are wanted
    CLOSE = 4  # the session is freed
    SAVE = 5  # each stage writes the session to a file; JSON: why a stage before could not
    TRUNCATE = 6  # the session has no tokens from this position on; JSON: how many are evaluated in the stages before
    GRAMMAR = 7  # JSON: the grammar that the last stage draws by from now on, or none; the tokens that were drawn by it
    STAGES = 8  # JSON: what this stage and those after it are
    DRAWN = 9  # a token, drawn after a step that asked for it; JSON: log probabilities
    ERROR = 10  # JSON: why a session cannot go on, or with "status" why no token could be drawn
    SAVED = 11  # by all stages, or JSON: why not
    TRUNCATED = 12  # in all stages, which have evaluated the tokens before this position


DRAW = 1  # flag of a STEP: the last stage draws a token after it
MORE = 2  # flag of a STEP: the frame after it is another session's, and both are evaluated together
AWAITED_SHIFT = 2  # the rest of a STEP's flags: for how many sessions the head awaits a token
MOST_AWAITED = (1 << 14) - 1
KEEP = 1  # flag of a CLOSE: what was saved of the session stays


class BrokenConnectionError(ConnectionError):
    """The other side has left, sends what is no frame, or has another key."""


@dataclass
class Frame:
    kind: Kind
    session: int = 0
    position: int = 0
    """Of the first token in its session."""
    flags: int = 0
    tokens: Any = b""
    """A buffer of 32-bit integers."""
    floats: Any = b""
    json: dict[str, Any] = field(default_factory=dict)

    def token_list(self) -> list[int]:
        return list(memoryview(self.tokens).cast("B").cast("i"))


class Connection:
    """A connection that has been proved. Any thread may send; one receives."""

    def __init__(self, own: socket.socket, key: bytes, *, is_server: bool, seconds: float = 5) -> None:
        self._socket = own
        self._sends = threading.Lock()
        self._closed = threading.Event()
        own.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._prove(key, is_server, time.monotonic() + seconds)
        except OSError as failed:
            own.close()
            if isinstance(failed, BrokenConnectionError):
                raise
            raise BrokenConnectionError(f"no proof of the key came within {seconds:g} s: {failed}") from failed
        own.settimeout(None)
        silence = struct.pack("@ll", int(SILENCE_S), int(SILENCE_S % 1 * 1e6))
        own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, silence)
        try:
            start_thread(threading.Thread(target=self._beat, daemon=True))
        except BaseException:
            self.close()
            raise

    def _beat(self) -> None:
        """Until it is closed. A frame on its way tells as much, and must not be waited for."""
        frame = Frame(Kind.BEAT)
        while not self._closed.wait(BEAT_S):
            if self._sends.acquire(blocking=False):
                try:
                    self._send(frame)
                except BrokenConnectionError:
                    return  # who receives is told
                finally:
                    self._sends.release()

    @classmethod
    def open(cls, address: tuple[str, int], key: bytes, seconds: float = 5) -> Connection:
        try:
            made = socket.create_connection(address, timeout=seconds)
        except OSError as failed:
            raise BrokenConnectionError(f"no stage answers at {address[0]}:{address[1]}: {failed}") from failed
        return cls(made, key, is_server=False, seconds=seconds)

    def _prove(self, key: bytes, is_server: bool, end: float) -> None:
        """Each side's proof is over both nonces and its own name, so that none can be sent back."""
        nonce = os.urandom(_NONCE)
        self._socket.sendall(MAGIC + nonce)
        theirs = self._receive_until(len(MAGIC) + _NONCE, end)
        if theirs[: len(MAGIC)] != MAGIC:
            raise BrokenConnectionError("what came is not the beginning of a stage's connection")
        of_server, of_client = (nonce, theirs[len(MAGIC) :]) if is_server else (theirs[len(MAGIC) :], nonce)

        def proof(name: bytes) -> bytes:
            return hmac.digest(key, name + of_server + of_client, "sha256")

        if is_server:  # who asks proves it first: a stranger learns nothing
            if not hmac.compare_digest(self._receive_until(_MAC, end), proof(b"client")):
                raise BrokenConnectionError("the other side has another key")
            self._socket.sendall(proof(b"server"))
        else:
            self._socket.sendall(proof(b"client"))
            if not hmac.compare_digest(self._receive_until(_MAC, end), proof(b"server")):
                raise BrokenConnectionError("the other side has another key")

    def _receive_until(self, n: int, end: float) -> bytes:
        """Like receive(), with one end for all of it."""
        got = b""
        while len(got) < n:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(left)
            piece = self._socket.recv(n - len(got))
            if not piece:
                raise BrokenConnectionError("the other side closed the connection: it may have another key")
            got += piece
        return got

    def send(self, frame: Frame) -> None:
        with self._sends:
            self._send(frame)

    def _send(self, frame: Frame) -> None:
        tokens, floats = memoryview(frame.tokens).cast("B"), memoryview(frame.floats).cast("B")
        text = json.dumps(frame.json).encode() if frame.json else b""
        head = _HEADER.pack(
            frame.kind, frame.flags, frame.session, frame.position, len(tokens) // 4, len(floats) // 4, len(text), 0
        )[:-4]  # fmt: skip
        check = zlib.crc32(text, zlib.crc32(floats, zlib.crc32(tokens, zlib.crc32(head))))
        parts = [memoryview(head + check.to_bytes(4, "little")), tokens, floats, memoryview(text)]
        try:
            self._send_all([part for part in parts if part])
        except OSError as failed:
            raise BrokenConnectionError(f"the other side has left: {failed}") from failed
        except BaseException:  # of a signal's handler: half a frame is none
            self.close()
            raise

    def _send_all(self, parts: list[memoryview]) -> None:
        while parts:
            n = self._socket.sendmsg(parts)
            while parts and n >= len(parts[0]):
                n -= len(parts.pop(0))
            if parts:
                parts[0] = parts[0][n:]

    def receive(self, most_floats: int = MOST_FLOATS) -> Frame:
        while True:
            frame = self._receive_frame(most_floats)
            if frame.kind != Kind.BEAT:
                return frame

    def receive_if_there(self) -> Frame | None:
        """A frame that has begun to come, or None."""
        there = select.poll()
        there.register(self._socket, select.POLLIN)
        while there.poll(0):
            frame = self._receive_frame(MOST_FLOATS)
            if frame.kind != Kind.BEAT:
                return frame
        return None

    def _receive_frame(self, most_floats: int) -> Frame:
        head = self._receive(_HEADER.size)
        kind, flags, session, position, n_tokens, n_floats, n_bytes, check = _HEADER.unpack(head)
        if n_tokens > MOST_TOKENS or n_floats > most_floats or n_bytes > MOST_BYTES:
            raise BrokenConnectionError(f"a frame has {n_tokens} tokens, {n_floats} floats and {n_bytes} bytes: too many")
        body = memoryview(self._receive(4 * (n_tokens + n_floats) + n_bytes))
        if zlib.crc32(body, zlib.crc32(head[:-4])) != check:
            raise BrokenConnectionError("a frame has another checksum than its bytes")
        floats_at, text_at = 4 * n_tokens, 4 * (n_tokens + n_floats)
        try:
            told = json.loads(bytes(body[text_at:])) if n_bytes else {}
            if not isinstance(told, dict):
                raise ValueError("its JSON is no object")
            return Frame(
                Kind(kind), session, position, flags, body[:floats_at].cast("i"), body[floats_at:text_at].cast("f"), told
            )  # fmt: skip
        except (ValueError, RecursionError) as failed:
            raise BrokenConnectionError(f"a frame cannot be read: {failed}") from failed

    def _receive(self, n: int) -> bytearray:
        room = bytearray(n)
        view = memoryview(room)
        while view:
            try:
                got = self._socket.recv_into(view)
            except BlockingIOError as failed:
                raise BrokenConnectionError(f"the other side is silent for {SILENCE_S:g} s") from failed
            except OSError as failed:
                raise BrokenConnectionError(f"the connection broke: {failed}") from failed
            if got == 0:
                raise BrokenConnectionError("the other side has left")
            view = view[got:]
        return room

    def close(self) -> None:
        """From any thread; who receives gets BrokenConnectionError."""
        self._closed.set()
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()
