"""The text of a pipeline's session while it is drawn, with the rules of qinfer_generate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .. import _abi
from .._errors import NotFoundError, UnsupportedError
from .._library import call, lib
from .._model import Detokenizer, Model
from .._reply import Reply
from .._results import Generated


class Stops:
    """Text up to the first of some stop texts. What may be the beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [text for text in ([stop] if isinstance(stop, str) else stop)]
        if not all(self._stop):
            raise ValueError("a stop text is empty")
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """What is certain, and whether a stop text follows."""
        self._held += text
        found = [at for at in (self._held.find(stop) for stop in self._stop) if at >= 0]
        if found:
            given, self._held = self._held[: min(found)], ""
            return given, True
        n_held = max((self._beginning_of(stop) for stop in self._stop), default=0)
        at = len(self._held) - n_held
        given, self._held = self._held[:at], self._held[at:]
        return given, False

    def _beginning_of(self, stop: str) -> int:
        """Of how many characters of it the text ends with."""
        return next((n for n in range(min(len(stop) - 1, len(self._held)), 0, -1) if self._held.endswith(stop[:n])), 0)

    def finish(self) -> str:
        return self._held


class Drawing:
    """A generation: step() after each token, then end(). on_token gets what Session.generate() gives it."""

    def __init__(
        self,
        model: Model,
        n_prompt: int,
        stop: Sequence[str],
        on_token: Callable[[int, str], object],
        reply: Reply | None,
        max_reasoning_tokens: int,
    ) -> None:
        if reply is not None and stop:
            raise ValueError("stop texts and a reply do not go together in a pipeline")
        if max_reasoning_tokens:
            what = "max_reasoning_tokens is not there in a pipeline: its last stage draws all tokens"
            raise UnsupportedError("QINFER_E_UNSUPPORTED", _abi.QINFER_E_UNSUPPORTED, what, 0)
        self._stops, self._on_token, self._reply = Stops(stop), on_token, reply
        self._stop_tokens = {token for text in ([stop] if isinstance(stop, str) else stop) for token in _control_of(model, text)}
        self._ends, self._detokenizer = set(model.end_tokens), Detokenizer(model)
        self._pieces: list[str] = []
        self._n_prompt, self._n_drawn, self._n_reasoning = n_prompt, 0, 0
        self._begun = self._first = time.perf_counter_ns()
        self.finish = ""
        self._is_late = False  # a token without text has ended it: what was held back follows

    def step(self, token: int) -> None:
        """finish says why it is over, once it is."""
        if self._n_drawn == 0:
            self._first = time.perf_counter_ns()
        self._n_drawn += 1
        if self._reply is not None:
            self._n_reasoning += self._reply.in_reasoning
            call(lib.qinfer_reply_push, self._reply, token)
        if token in self._ends or token in self._stop_tokens:
            self.finish = "stop" if token in self._stop_tokens else "end"
            self._is_late = True
            return
        text, stops = self._stops.push(self._detokenizer.push(token))
        if stops:
            self.finish = "stop"
        self._give(token, text)

    def _give(self, token: int, text: str) -> None:
        if text:
            self._pieces.append(text)
        if self._on_token(token, text) is False:
            self.finish = self.finish or "callback"

    def end(self) -> Generated:
        """With what was held back, unless a stop text has ended it."""
        self.finish = self.finish or "length"
        if self.finish in ("end", "length") or self._is_late:
            text, stops = self._stops.push(self._detokenizer.finish())
            rest = text if stops else text + self._stops.finish()
            if rest:
                self._give(-1, rest)
        now = time.perf_counter_ns()
        return Generated(
            "".join(self._pieces),
            self.finish,
            prompt_tokens=self._n_prompt,
            cached_tokens=0,
            new_tokens=self._n_drawn,
            prefill_ns=self._first - self._begun,
            decode_ns=now - self._first,
            reasoning_tokens=self._n_reasoning,
            in_reasoning=self._reply is not None and self._reply.in_reasoning,
        )

    def close(self) -> None:
        self._detokenizer.close()


def _control_of(model: Model, text: str) -> list[int]:
    """The control token that this is the text of."""
    try:
        token = model.find_token(text)
    except NotFoundError:
        return []
    return [token] if model.token(token).control else []
