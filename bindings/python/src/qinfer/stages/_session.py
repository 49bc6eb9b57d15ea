"""A session of a pipeline: tokens that the stages have evaluated, and how it goes on after a loss.

A stage that is lost takes the keys and values of its layers with it. Where stages save sessions (save_every) each has
files of the same positions, with the sampler in the last one's. Then all of them go back to such a file, or to an empty
session, and the head sends the tokens since, and has the drawn ones drawn again, so that the sampler goes on as it would
have: the same tokens follow.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import operator
import os
import threading
import weakref
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .. import _abi, _exit
from .._cancel import Cancel
from .._errors import ContextFullError, InvalidArgumentError, QinferError, StateError
from .._grammar import Grammar
from .._library import Held, checked, error_of, expect, run_apart
from .._reply import Reply
from .._results import Generated, TokenInfo
from .._stream import Stream, Streaming
from ._chain import most_top_of
from ._frames import DRAW, MOST_BYTES, BrokenConnectionError, Frame, Kind
from ._grammars import Grammars, Holding, as_json
from ._link import Link, StageError, check
from ._text import Drawing

if TYPE_CHECKING:
    from ._pipeline import Pipeline

T = TypeVar("T")


class _Drawn(NamedTuple):
    """A token, with its log probability and those of the most likely ones where they were wanted."""

    token: int
    logprob: float = 0.0
    top: list[tuple[int, float]] = []  # noqa: RUF012 - nobody changes it


class _Wish(NamedTuple):
    """How the next token is drawn. without_grammar: whatever the session has. n_top: of how many most likely tokens log
    probabilities are wanted; None: not its own either."""

    without_grammar: bool = False
    n_top: int | None = None


_LOSSES = 5  # in a row for one token: it may be what ends the stages


class PipelineSession(Streaming):
    """What Session is, where the layers are in stages: a list of tokens, a prefix of which is evaluated while the rest is
    pending. For one thread at a time."""

    def __init__(self, pipeline: Pipeline, about: dict[str, Any]) -> None:
        self.model = pipeline.model
        self._pipeline, self._number = pipeline, 0
        self._about = {"name": os.urandom(16).hex(), **about}
        self._room = int(about["max_tokens"]) or int(pipeline.stages[0]["context_tokens"])
        self._n_vocab = int(self.model.info["n_vocab"])
        self._tokens: list[int] = []
        self._drawn: list[bool] = []  # of each token
        self._grammars = Grammars()
        self._evaluated = 0  # of the stages of _link
        self._n_sent = 0  # tokens that they were to evaluate last
        self._awaited = False  # a token, drawn after these, is still to come
        self._awaited_by: tuple[Holding | None, int | None] = None, None  # how that one is drawn: see _how()
        self._cut: int | None = None  # where the stages are to truncate it
        self._saved: list[int] = []  # positions, the newest last
        self._tried = 0  # where it was to be saved last
        self._link: Link | None = None
        self._closed = False
        self._generates_in: int | None = None  # the thread of a generate()
        self._streams: weakref.WeakSet[Stream[Any]] = weakref.WeakSet()

    # ---- Tokens
    @property
    def tokens(self) -> list[int]:
        return list(self._tokens)

    def __len__(self) -> int:
        return len(self._tokens)

    @property
    def pending(self) -> int:
        return len(self._tokens) - self._evaluated

    @property
    def info(self) -> dict[str, int]:
        return {"max_tokens": self._room, "n_tokens": len(self), "n_evaluated": self._evaluated}

    def append(self, tokens: str | Iterable[int]) -> None:
        """Adds pending tokens, or those of a text, which begins with what the tokenizer puts before it where the session
        is empty."""
        self._check()
        if isinstance(tokens, str):
            tokens = self.model.tokenize(tokens, special=not self._tokens)
        new = self._checked(tokens)
        if len(self) + len(new) > self._room:
            message = f"the session holds {len(self)} of at most {self._room} tokens, {len(new)} more do not fit"
            raise ContextFullError("QINFER_E_CONTEXT_FULL", _abi.QINFER_E_CONTEXT_FULL, message, 0)
        self._uninterrupted(lambda: self._append(new))

    def _append(self, new: list[int]) -> None:
        self._tokens += new
        self._drawn += [False] * len(new)

    def set_tokens(self, tokens: Iterable[int]) -> int:
        """Makes these its tokens, and returns how many of those that it has are their beginning and stay."""
        self._check()
        new = self._checked(tokens)
        pairs = zip(self._tokens, new, strict=False)
        kept = next((at for at, (one, other) in enumerate(pairs) if one != other), min(len(self), len(new)))
        if len(new) > self._room:
            message = f"{len(new)} tokens do not fit into a session of {self._room}"
            raise ContextFullError("QINFER_E_CONTEXT_FULL", _abi.QINFER_E_CONTEXT_FULL, message, 0)

        def change() -> None:
            self._truncate(kept)
            self._append(new[kept:])

        self._uninterrupted(change)
        return kept

    def _checked(self, tokens: Iterable[int]) -> list[int]:
        """Before a stage finds that one cannot be, which would end the session."""
        new = [operator.index(token) for token in tokens]
        for at, token in enumerate(new):
            if not 0 <= token < self._n_vocab:
                what = f"token {token} at index {at} is not in the vocabulary of {self._n_vocab}"
                raise InvalidArgumentError("QINFER_E_INVALID_ARGUMENT", _abi.QINFER_E_INVALID_ARGUMENT, what, at)
        return new

    def truncate(self, n_tokens: int) -> None:
        """Keeps the first n_tokens. If evaluated ones are dropped, the last one that is left is pending again."""
        self._check()
        if not 0 <= n_tokens <= len(self):
            what = f"cannot truncate to {n_tokens} tokens: the session holds {len(self)}"
            raise InvalidArgumentError("QINFER_E_INVALID_ARGUMENT", _abi.QINFER_E_INVALID_ARGUMENT, what, 0)
        self._uninterrupted(lambda: self._truncate(n_tokens))

    def _truncate(self, n_tokens: int) -> None:
        if n_tokens == len(self):
            return
        # The stages may have a drawn token that nobody has taken.
        if n_tokens < self._evaluated + 1 and self._link is not None:
            self._cut = n_tokens if self._cut is None else min(self._cut, n_tokens)
            self._evaluated = min(self._evaluated, max(0, n_tokens - 1))
        del self._tokens[n_tokens:], self._drawn[n_tokens:]
        self._grammars.truncate(n_tokens)
        self._saved = [position for position in self._saved if position < n_tokens]
        self._tried = min(self._tried, n_tokens)

    def set_grammar(self, grammar: Grammar | None) -> None:
        """What is drawn from now on fulfils the grammar, which the last stage compiles, too. It is one of the pipeline's
        `model`."""
        self._check()
        if grammar is not None:
            expect(Grammar, grammar)
            if len(json.dumps(as_json(grammar))) > MOST_BYTES - 100:
                what = f"the grammar's text does not fit into a frame of {MOST_BYTES} bytes, as JSON"
                raise InvalidArgumentError("QINFER_E_INVALID_ARGUMENT", _abi.QINFER_E_INVALID_ARGUMENT, what, 0)
        self._uninterrupted(lambda: self._grammars.set(len(self), grammar))

    # ---- Drawing
    def draw(self, *, cancel: Cancel | None = None) -> int:
        """Evaluates what is pending, in pieces that follow each other through the stages, and draws a token, which is
        pending then."""
        self._check()
        self._check_draw(cancel)
        return self._apart(cancel, lambda own: self._draw(own, _Wish())).token

    def _check_draw(self, cancel: Cancel | None) -> None:
        if cancel is not None:
            expect(Cancel, cancel)
        if not self._tokens:
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "there are no tokens to evaluate: append some first", 0)
        if len(self) >= self._room:
            message = f"the session holds {len(self)} tokens, its limit"
            raise ContextFullError("QINFER_E_CONTEXT_FULL", _abi.QINFER_E_CONTEXT_FULL, message, 0)

    def _apart(self, cancel: Cancel | None, work: Callable[[Cancel | None], T]) -> T:
        """On a thread of its own where this is the main thread, so that what handlers of signals raise comes at none of the
        points between which a token is neither here nor there: it requests the cancel, and comes out after the work."""
        if threading.current_thread() is not threading.main_thread():
            return work(cancel)
        own = Cancel.of_call(cancel)
        with Held(own):
            return run_apart(lambda: work(own), own.request)

    def _uninterrupted(self, work: Callable[[], None]) -> None:
        """The same of work that is over at once."""
        if threading.current_thread() is not threading.main_thread():
            return work()
        with Held():
            run_apart(work, lambda: None)

    def _draw(self, cancel: Cancel | None, wish: _Wish) -> _Drawn:
        for left in reversed(range(_LOSSES)):
            self._check_open()  # another thread may close it
            link = self._pipeline.link(cancel)  # what it raises is the end of patience
            try:
                drawn = self._draw_once(link, cancel, wish)
                break
            except StageError:
                self._leave()
                raise
            except BrokenConnectionError:
                _exit.check()  # stages of this process end with it
                if not self._pipeline.recovers or left == 0:
                    raise
        self._tokens.append(drawn.token)
        self._drawn.append(True)
        return drawn

    def _draw_once(self, link: Link, cancel: Cancel | None, wish: _Wish) -> _Drawn:
        if link is not self._link:
            self._begin(link, cancel)
        elif self._awaited:  # of a call that was cancelled
            n_known = self._n_sent
            is_wanted = n_known == len(self) and self._cut is None and self._awaited_by == self._how(n_known, wish)
            try:
                drawn = self._answer(link, cancel)
                if is_wanted:
                    return self._taken(drawn)
                self._cut = n_known if self._cut is None else self._cut
                self._grammars.forget_stage()
            except QinferError:
                if self._awaited or is_wanted:  # else it says why a token was not drawn that nobody wants any more
                    raise
        held = self._truncate_there(link, cancel)
        self._save(link, cancel)
        return self._step(link, len(self), cancel, held, wish)

    def _how(self, position: int, wish: _Wish) -> tuple[Holding | None, int | None]:
        """The grammar that the token of that position is drawn by, and what log probabilities are wanted."""
        return self._grammars.holding(position, wish.without_grammar), wish.n_top

    def _step(self, link: Link, end: int, cancel: Cancel | None, held: int = 0, wish: _Wish = _Wish()) -> _Drawn:
        """Tokens up to `end`, and the one that is drawn after them. held: what the stages have of them after a truncation,
        evaluated or not, which is in the first piece: its drawn ones stay so for the sampler."""
        self._tell_grammar(link, end, wish.without_grammar)
        wanted = {} if wish.n_top is None else {"n_top": wish.n_top}
        begin, is_first = self._evaluated, True
        while is_first or begin < end:
            piece = array("i", self._tokens[begin : min(max(begin + self._pipeline.chunk, held if is_first else 0), end)])
            self._awaited = begin + len(piece) == end
            self._evaluated = self._n_sent = begin + len(piece)
            frame = Frame(Kind.STEP, self._number, begin, DRAW if self._awaited else 0, piece)
            if self._awaited:
                frame.json, self._awaited_by = wanted, self._how(end, wish)
            link.send(frame)
            begin, is_first = self._evaluated, False
        return self._taken(self._answer(link, cancel))

    def _taken(self, drawn: _Drawn) -> _Drawn:
        """A token that becomes, or is, the session's."""
        self._grammars.note_drawn(self._n_sent)
        return drawn

    def _tell_grammar(self, link: Link, position: int, without: bool) -> None:
        """To the last stage, that by which it draws the next token, where it does not know."""
        told = self._grammars.to_tell(position, without)
        if told is not None:
            tokens = array("i", [self._tokens[at] for at in told[1]])
            link.send(Frame(Kind.GRAMMAR, self._number, json=told[0], tokens=tokens))

    def _answer(self, link: Link, cancel: Cancel | None) -> _Drawn:
        frame = link.answer(self._number, Kind.DRAWN, cancel)
        self._awaited = False
        told = frame.json
        try:
            if frame.kind == Kind.ERROR:
                failed = error_of(int(told["status"]), str(told["message"]), int(told["detail"]))
            else:
                top = [(int(token), float(value)) for token, value in told.get("top", [])]
                (token,) = self._checked(frame.token_list())
                return _Drawn(token, float(told.get("logprob", 0)), top)
        except (KeyError, OverflowError, TypeError, ValueError) as unread:
            raise link.wrong(f"a stage tells nothing of a token that can be read: {told!r:.80}") from unread
        raise failed

    def _truncate_there(self, link: Link, cancel: Cancel | None) -> int:
        """How many tokens all stages have then; 0: nothing was to be truncated."""
        if self._cut is None:
            return 0
        frame = Frame(Kind.TRUNCATE, self._number, self._cut)
        self._evaluated = self._asked(link, frame, Kind.TRUNCATED, cancel).position
        held, self._cut = self._cut, None
        return held

    def _save(self, link: Link, cancel: Cancel | None) -> None:
        """Where a stage cannot, it is tried again after as many tokens."""
        every, last = self._pipeline.save_every, max(self._tried, self._saved[-1] if self._saved else 0)
        if every == 0 or self._evaluated - last < every:
            return
        self._tried = self._evaluated
        if not self._asked(link, Frame(Kind.SAVE, self._number, self._evaluated), Kind.SAVED, cancel).json:
            self._saved = [*self._saved[-1:], self._evaluated]

    def _asked(self, link: Link, frame: Frame, kind: Kind, cancel: Cancel | None) -> Frame:
        try:
            link.send(frame)
            return link.answer(self._number, kind, cancel)
        except StageError:
            raise
        except BaseException:  # it was cancelled, say: the answer would be taken for another one, so it begins anew
            self._link = None
            link.leave(self._number, keeps=True)
            raise

    def _begin(self, link: Link, cancel: Cancel | None) -> None:
        """Opens the session in the stages, as far on as they have saved it, and sends the tokens since. Each attempt has a
        number of its own, so that no late answer to another one is taken for its own."""
        self._link, self._awaited, self._cut, self._tried = None, False, None, 0
        for resume in [*reversed(self._saved), 0]:
            self._grammars.stage_is_new()
            self._number = self._pipeline.new_number()
            link.join(self._number)
            link.send(Frame(Kind.OPEN, self._number, json={**self._about, "resume": resume}))
            try:
                # A frame that truncates nothing is answered when all stages have opened it.
                frame = Frame(Kind.TRUNCATE, self._number, resume + 1)
                link.send(frame)
                self._evaluated = link.answer(self._number, Kind.TRUNCATED, cancel).position
                if self._evaluated != resume:
                    raise StageError(f"the stages have {self._evaluated} tokens of a session that was saved at {resume}")
                self._draw_again(link, resume, cancel)
                self._link = link
                self._saved = [position for position in self._saved if position <= resume]
                return
            except StageError:
                link.leave(self._number, keeps=resume != 0)
                if resume == 0:
                    raise
            except BaseException:  # it begins anew with the next call
                link.leave(self._number, keeps=True)
                raise

    def _draw_again(self, link: Link, begin: int, cancel: Cancel | None) -> None:
        for end in range(begin + 1, len(self)):
            if self._drawn[end]:
                token = self._step(link, end, cancel, wish=_Wish(self._grammars.was_drawn_without(end))).token
                if token != self._tokens[end]:
                    raise StageError(f"token {end} was drawn as {self._tokens[end]}, and now as {token}")

    # ---- Generating
    def generate(
        self,
        max_tokens: int = 0,
        *,
        stop: Sequence[str] = (),
        on_text: Callable[[str], object] | None = None,
        on_token: Callable[[int, str], object] | None = None,
        on_token_info: Callable[[TokenInfo], object] | None = None,
        top: int = 0,
        cancel: Cancel | None = None,
        reply: Reply | None = None,
        max_reasoning_tokens: int = 0,
    ) -> Generated:
        """Session.generate(). stop and reply do not go together, and tokens that end the reasoning have no log
        probabilities."""
        self._check()
        most = checked(ctypes.c_uint32, max_tokens, "max_tokens") or self._room
        n_top = checked(ctypes.c_uint32, top, "top") if on_token_info is not None else None
        if top > most_top_of(self._n_vocab):
            what = f"top is {top}, at most {most_top_of(self._n_vocab)} are accepted"
            raise InvalidArgumentError("QINFER_E_INVALID_ARGUMENT", _abi.QINFER_E_INVALID_ARGUMENT, what, 0)
        if reply is not None:
            expect(Reply, reply)
        own = Cancel.of_call(cancel)

        def receive(info: TokenInfo, is_late: bool) -> bool:
            going = True
            if on_token is not None and (info.text or not is_late):
                going = on_token(-1 if is_late else info.token, info.text) is not False
            if info.text and on_text is not None:
                going = on_text(info.text) is not False and going
            if on_token_info is not None:
                going = on_token_info(info) is not False and going
            return going

        drawing = Drawing(self.model, len(self), stop, receive, reply, max_reasoning_tokens)
        try:
            self._generates_in = threading.get_ident()
            with contextlib.nullcontext() if reply is None else reply._generated():
                self._generate(drawing, min(most, self._room - len(self)), n_top, own)
                return drawing.end()
        finally:
            self._generates_in = None
            drawing.close()

    def _generate(self, drawing: Drawing, most: int, n_top: int | None, cancel: Cancel) -> None:
        for _ in range(most):
            try:
                self._check_draw(cancel)
                self._apart(cancel, lambda own: self._draw_into(drawing, n_top, own))
            except Exception:
                drawing.fail()
                raise
            drawing.tell()
            if drawing.finish:
                return

    def _draw_into(self, drawing: Drawing, n_top: int | None, cancel: Cancel | None) -> None:
        """A token becomes the session's and the reply's together."""
        forced = drawing.forced()
        if forced is None:
            drawing.take(*self._draw(cancel, _Wish(drawing.reasons, n_top)))
        else:
            check(cancel)
            self._append([forced])
            drawing.take(forced)

    # ---- The end
    def _check(self) -> None:
        self._check_open()
        if any(stream.runs_elsewhere for stream in list(self._streams)):
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "a stream uses the session", 0)
        if self._generates_in is not None:
            raise StateError("QINFER_E_STATE", _abi.QINFER_E_STATE, "a generation uses the session", 0)

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("the session is closed")

    def _release_left(self) -> None:
        self._check()

    def close(self) -> None:
        """The stages free it; what was saved of it goes. RuntimeError in a callback of its own."""
        if self._generates_in == threading.get_ident():
            raise RuntimeError("a session cannot be closed by a callback of its own call")
        for stream in list(self._streams):
            stream.close()
        self._leave()

    def _leave(self) -> None:
        if self._closed:
            return
        self._closed = True
        link, self._link = self._link, None
        with contextlib.suppress(BrokenConnectionError):
            if link is not None and link.broken is None:
                return link.leave(self._number)
        if self._saved:
            self._pipeline.forget(self._about["name"])

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and self._link is not None:
            self._link.leave_later(self._number)

    def __enter__(self) -> PipelineSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
