"""The text of a pipeline's session while it is drawn, with the rules of qinfer_generate."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from .. import _abi
from .._errors import InvalidArgumentError, NotFoundError, StateError
from .._library import call, lib, utf8
from .._model import Detokenizer, Model
from .._reply import Reply
from .._results import Generated, TokenInfo


_MOST_BYTES_HELD = 3  # of a character that is not whole, and so as many tokens
_MOST_STOPS, _MOST_STOP_BYTES = 256, 4096


class Stops:
    """Text up to the first of some stop texts. What may be the beginning of one is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        self._stop = [text for text in ([stop] if isinstance(stop, str) else stop)]
        if len(self._stop) > _MOST_STOPS:
            raise _invalid(f"there are {len(self._stop)} stop texts, at most {_MOST_STOPS} are accepted")
        for text in self._stop:
            if not text:
                raise _invalid("a stop text is empty")
            if len(utf8(text)) > _MOST_STOP_BYTES:
                raise _invalid(f"a stop text has {len(utf8(text))} bytes, at most {_MOST_STOP_BYTES} are accepted")
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
    """A generation: take() each token, then tell() it, at last end(). `receive` is given what each brings, and whether that
    is text which was held back, after the last token; what it says is as of Session.generate()'s callbacks."""

    def __init__(
        self,
        model: Model,
        n_prompt: int,
        stop: Sequence[str],
        receive: Callable[[TokenInfo, bool], object],
        reply: Reply | None,
        max_reasoning_tokens: int,
    ) -> None:
        if reply is not None and stop:
            raise ValueError("stop texts and a reply do not go together in a pipeline")
        if max_reasoning_tokens and reply is None:
            raise _invalid(f"max_reasoning_tokens is {max_reasoning_tokens}, but there is no reply")
        if reply is not None and reply._model is not model:
            raise _invalid("the reply is of another model")
        self._most_reasoning = max_reasoning_tokens
        self._stops, self._receive, self._reply = Stops(stop), receive, reply
        self._stop_tokens = {token for text in ([stop] if isinstance(stop, str) else stop) for token in _control_of(model, text)}
        self._ends, self._detokenizer = set(model.end_tokens), _detokenizer_of(model, stop)
        self._pieces: list[str] = []
        self._n_prompt, self._n_drawn, self._n_reasoning = n_prompt, 0, 0
        self._begun = self._first = time.perf_counter_ns()
        self.finish = ""
        self._latest: TokenInfo | None = None  # that is not told yet
        self._last: TokenInfo | None = None  # a token without text of its own, which has ended it
        for token in [] if reply is None else reply._tail:  # a character that began there goes on
            self._text_of(token)

    @property
    def reasons(self) -> bool:
        """Whether the next token is of the reply's reasoning, for which no grammar is."""
        return self._reply is not None and self._reply._reasons()

    def forced(self) -> int | None:
        """The next token, where it is one of those that end a reasoning which has been long enough."""
        reply = self._reply
        if reply is None:
            return None
        if reply._finished:
            what = "the reply is finished: make another one for the next turn"
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, what, 0)
        if not reply._reasons():
            reply._forced = []
        elif not reply._forced and 0 < self._most_reasoning <= self._n_reasoning:
            reply._forced = reply._reasoning_end()
        return reply._forced[0] if reply._forced else None

    def take(self, token: int, logprob: float = 0, top: Sequence[tuple[int, float]] = ()) -> None:
        """A token that the session has got. finish says why it was the last one, if it was."""
        if self._n_drawn == 0:
            self._first = time.perf_counter_ns()
        self._n_drawn += 1
        if self._reply is not None:
            self._n_reasoning += self._reply._reasons()
            self._reply._forced = self._reply._forced[1:]
            call(lib.qinfer_reply_push, self._reply, token)
        if token in self._ends or token in self._stop_tokens:
            self.finish = "stop" if token in self._stop_tokens else "end"
            self._last = TokenInfo(token, "", logprob, list(top), self.finish)
            return
        if self._reply is not None:
            self._reply._tail = [*self._reply._tail, token][-_MOST_BYTES_HELD:]
        text, stops = self._stops.push(self._text_of(token))
        if stops:
            self.finish = "stop"
        self._latest = TokenInfo(token, text, logprob, list(top), self.finish or None)

    def tell(self) -> None:
        """The token that was taken, unless end() does."""
        info, self._latest = self._latest, None
        if info is not None:
            self._give(info, False)

    def _text_of(self, token: int) -> str:
        return "" if self._detokenizer is None else self._detokenizer.push(token)

    def _give(self, info: TokenInfo, is_late: bool) -> None:
        if info.text:
            self._pieces.append(info.text)
        if self._receive(info, is_late) is False:
            self.finish = self.finish or "callback"

    def _held_back(self) -> str:
        text, stops = self._stops.push("" if self._detokenizer is None else self._detokenizer.finish())
        return text if stops else text + self._stops.finish()

    def fail(self) -> None:
        """Tokens that there are stay in the session, so what was held back of their text is told."""
        rest = self._held_back()
        if rest:
            self._give(TokenInfo(-1, rest, 0.0, [], None), True)

    def end(self) -> Generated:
        """With what was held back, unless a stop text has ended it."""
        self.finish = self.finish or "length"
        if self.finish == "length" or self._last is not None:
            rest = self._held_back()
            if rest or self._last is not None:
                self._give(replace(self._last or TokenInfo(-1, "", 0.0, [], self.finish), text=rest), True)
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
            in_reasoning=self.reasons,
        )

    def close(self) -> None:
        if self._detokenizer is not None:
            self._detokenizer.close()


def _invalid(what: str) -> InvalidArgumentError:
    return InvalidArgumentError("QINFER_E_INVALID_ARGUMENT", _abi.QINFER_E_INVALID_ARGUMENT, what, 0)


def _detokenizer_of(model: Model, stop: Sequence[str]) -> Detokenizer | None:
    """None: tokens have no text."""
    try:
        return Detokenizer(model)
    except NotFoundError:
        if stop:
            raise
        return None


def _control_of(model: Model, text: str) -> list[int]:
    """The control token that this is the text of."""
    try:
        token = model.find_token(text)
    except NotFoundError:
        return []
    return [token] if model.token(token).control else []
