"""Replies taken apart into content, reasoning and calls of tools."""

from __future__ import annotations

import ctypes
import json
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from . import _abi
from ._errors import StateError
from ._library import Handle, Held, call, expect, lib, read_text, read_tokens, sized, text_at
from ._model import ChatPrompt, Model

_KINDS = {1: "content", 2: "reasoning", 3: "call"}


@dataclass(frozen=True)
class Part:
    """A piece of a reply: "content" or "reasoning" with new text, or a "call" of a tool with its arguments as text."""

    kind: str
    text: str
    name: str = ""
    id: str = ""


class Reply(Handle):
    """Takes a reply apart while it comes: push() each token, then finish(); each gives the parts that are certain.
    Session.generate(reply=...) pushes the tokens itself, and take() in its callbacks gives the parts.

    reasoning False: nothing is taken for reasoning, even where the prompt ends with its marker."""

    _free = "qinfer_reply_free"

    def __init__(self, model: Model, prompt: ChatPrompt, *, reasoning: bool = True) -> None:
        expect(ChatPrompt, prompt)
        self._thread: int | None = None  # that generates it
        # Of a pipeline's generations of it, one after another:
        self._forced: list[int] = []  # those of reasoning_end that are still to come
        self._tail: list[int] = []  # the last tokens, in which a character may have begun
        self._model, self._finished = model, False
        options = sized(_abi.qinfer_reply_options, flags=0 if reasoning else _abi.QINFER_REPLY_NO_REASONING)
        options.chat = ctypes.pointer(prompt.options)
        data = prompt.json
        with Held(prompt.cancel):
            self._create(
                lambda out: call(lib.qinfer_reply_create, model, data, len(data), ctypes.byref(options), out)
            )

    def push(self, token: int) -> list[Part]:
        self._check()
        call(lib.qinfer_reply_push, self, token)
        return self.take()

    def finish(self) -> list[Part]:
        self._check()
        self._finished = True
        call(lib.qinfer_reply_finish, self)
        return self.take()

    @property
    def in_reasoning(self) -> bool:
        """Whether its reasoning has begun and not ended."""
        self._check()
        return self._reasons()

    def _reasons(self) -> bool:
        out = ctypes.c_int32()
        call(lib.qinfer_reply_in_reasoning, self, ctypes.byref(out))
        return out.value != 0

    @property
    def reasoning_end(self) -> list[int]:
        """The tokens that end its reasoning, for who draws with Session.sample() and bounds it."""
        self._check()
        return self._reasoning_end()

    def _reasoning_end(self) -> list[int]:
        return read_tokens(lib.qinfer_reply_reasoning_end, self, room=16)

    @property
    def message(self) -> dict[str, Any]:
        """What was pushed as a message, to add to the conversation."""
        self._check()
        out: dict[str, Any] = json.loads(read_text(lib.qinfer_reply_message, self))
        return out

    def take(self) -> list[Part]:
        """The parts that are certain and were not given yet."""
        self._check()
        parts: list[Part] = []
        part = sized(_abi.qinfer_reply_part)
        while True:
            call(lib.qinfer_reply_next, self, ctypes.byref(part))
            if part.kind == _abi.QINFER_PART_NONE:
                return parts
            text, name = text_at(part.text, part.text_len), text_at(part.name, part.name_len)
            parts.append(Part(_KINDS[part.kind], text, name, (part.id or b"").decode()))

    def _check(self) -> None:
        if self._thread not in (None, threading.get_ident()):
            message = "the reply is generated in another thread: use it in that generation's callbacks"
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, message, 0)

    @contextmanager
    def _generated(self) -> Generator[None, None, None]:
        """While the thread generates it, no other may use it."""
        self._check()
        before, self._thread = self._thread, threading.get_ident()
        try:
            with Held(self):
                yield
        finally:
            self._thread = before
