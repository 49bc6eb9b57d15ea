"""The head of a pipeline: has the tokenizer, and sends tokens through the stages.

A stage that is lost takes the keys and values of its layers with it. Where stages save sessions (save_every) each has
files of the same positions, with the sampler in the last one's. Then all of them go back to such a file, or to an empty
session, and the head sends the tokens since, and has the drawn ones drawn again, so that the sampler goes on as it would
have: the same tokens follow.
"""

from __future__ import annotations

import itertools
import os
import queue
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .._model import Detokenizer, Model
from ._frames import DRAW, KEEP, BrokenConnectionError, Connection, Frame, Kind

Addresses = Sequence[tuple[str, int]]
_SAME = "architecture", "n_embd", "n_vocab", "n_model_layers", "kernel_set"


class StageError(RuntimeError):
    """A stage could not go on with a session, which is closed."""


class _Link:
    """A connection through all stages, and what comes back for each session; broken once, broken for good."""

    def __init__(self, stages: Addresses, key: bytes, seconds: float) -> None:
        if not stages:
            raise ValueError("there is no stage, expected the addresses of one or more")
        self._connection = Connection.open(stages[0], key, seconds)
        self._inboxes: dict[int, queue.SimpleQueue[Frame]] = {}
        self._lock = threading.Lock()
        self.broken: str | None = None
        try:
            self.stages = self._connect(stages, seconds)
        except BaseException:
            self._connection.close()
            raise
        self._thread = threading.Thread(target=self._receive, daemon=True)
        self._thread.start()

    def _connect(self, stages: Addresses, seconds: float) -> list[dict[str, Any]]:
        self._connection.send(Frame(Kind.ROUTE, json={"next": [list(one) for one in stages[1:]], "seconds": seconds}))
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
        if known and self.broken is None:
            self.send(Frame(Kind.CLOSE, number, flags=KEEP if keeps else 0))

    def send(self, frame: Frame) -> None:
        if self.broken is not None:
            raise BrokenConnectionError(self.broken)
        self._connection.send(frame)

    def answer(self, number: int, kind: Kind) -> Frame:
        """The next frame for a session, which must be of this kind. StageError where a stage has failed."""
        frame = self._inboxes[number].get()
        if frame.kind == kind:
            return frame
        if frame.kind != Kind.ERROR or frame.flags:
            self._inboxes[number].put(frame)  # for whoever asks next
            raise BrokenConnectionError(str(frame.json.get("message", "a stage answers what was not asked")))
        raise StageError(str(frame.json.get("message")))

    def _receive(self) -> None:
        try:
            while True:
                frame = self._connection.receive(0)
                inbox = self._inboxes.get(frame.session)
                if inbox is not None:
                    inbox.put(frame)
        except BrokenConnectionError as failed:
            with self._lock:
                self.broken = str(failed)
                for inbox in self._inboxes.values():
                    inbox.put(Frame(Kind.ERROR, flags=1, json={"message": self.broken}))

    def close(self) -> None:
        self._connection.close()
        self._thread.join()


class Pipeline:
    """A model whose layers are on several machines. `model` is the same one without weights (Model(path,
    weights=False)), for its tokenizer; `stages` are the addresses of StageServers in the order of their layers, with
    their common key, or a function that gives them anew after one was lost. Sessions may be used from any threads, each by
    one at a time: with as many at once as there are stages all of these are busy.

    chunk: tokens of a prompt that go through the stages together. seconds: in which a stage must answer a connection.
    patience: seconds for which a lost stage is waited for; 0: sessions fail with BrokenConnectionError. save_every: after
    so many tokens stages save a session; 0: never, and after a loss all of its tokens are evaluated again.

    pipeline = Pipeline(Model("path", weights=False), [("10.0.0.1", 7000), ("10.0.0.2", 7000)], key)
    print(pipeline.session().generate("Once upon a time", max_tokens=50))
    """

    def __init__(
        self,
        model: Model,
        stages: Addresses | Callable[[], Addresses],
        key: bytes,
        *,
        chunk: int = 128,
        seconds: float = 5,
        patience: float = 0,
        save_every: int = 0,
    ) -> None:
        self.model, self.chunk, self.save_every = model, max(1, chunk), save_every
        self._stages = stages
        self._key, self._seconds, self._patience = key, seconds, patience
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._closed = False
        self._link = self._open_link()

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What each stage is: first_layer, n_layers and so on."""
        return self._link.stages

    def _open_link(self) -> _Link:
        addresses = self._stages() if callable(self._stages) else self._stages
        link = _Link(addresses, self._key, self._seconds)
        try:
            self._check(link.stages)
        except BaseException:
            link.close()
            raise
        return link

    def _check(self, told: list[dict[str, Any]]) -> None:
        layer = 0
        for stage in told:
            if any(stage[name] != told[0][name] for name in _SAME):
                raise ValueError(f"the stages are not of one model on one kernel set: {told[0]} and {stage}")
            if stage["first_layer"] != layer:
                raise ValueError(f"a stage begins with layer {stage['first_layer']}, expected {layer}")
            layer += stage["n_layers"]
        if layer != told[0]["n_model_layers"] or told[0]["n_vocab"] != self.model.info["n_vocab"]:
            raise ValueError(f"the stages have {layer} of {told[0]['n_model_layers']} layers, or another vocabulary")

    def link(self) -> _Link:
        """One that was not broken when it was looked at."""
        with self._lock:
            if self._closed:
                raise ValueError("the pipeline is closed")
            if self._link.broken is None or self._patience == 0:
                return self._link
            self._link.close()
            end, wait = time.monotonic() + self._patience, 0.05
            while True:
                try:
                    self._link = self._open_link()
                    return self._link
                except BrokenConnectionError:
                    if time.monotonic() + wait > end:
                        raise
                time.sleep(wait)
                wait = min(2 * wait, 1)

    @property
    def recovers(self) -> bool:
        return self._patience != 0

    def session(self, max_tokens: int = 0, **sampler: Any) -> PipelineSession:
        """max_tokens: room, 0 = the model's context. Of the sampler: what Session.set_sampler() takes."""
        return PipelineSession(self, {"max_tokens": max_tokens, "sampler": sampler})

    def new_number(self) -> int:
        """Of a session in the stages."""
        return next(self._ids)

    def close(self) -> None:
        """The stages free all sessions of this pipeline."""
        with self._lock:
            self._closed = True
            self._link.close()

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PipelineSession:
    """A list of tokens that the stages have evaluated, but for those that are pending."""

    def __init__(self, pipeline: Pipeline, about: dict[str, Any]) -> None:
        self._pipeline, self._number = pipeline, 0
        self._about = {"name": os.urandom(16).hex(), **about}
        self.tokens: list[int] = []
        self._drawn: list[bool] = []  # of each token
        self._evaluated = 0  # of the stages of _link
        self._saved: list[int] = []  # positions, the newest last
        self._link: _Link | None = None
        self._closed = False

    def append(self, tokens: str | Sequence[int]) -> None:
        """Text begins with what the tokenizer puts before it where the session is empty."""
        if isinstance(tokens, str):
            tokens = self._pipeline.model.tokenize(tokens, special=not self.tokens)
        new = [int(token) for token in tokens]
        self.tokens += new
        self._drawn += [False] * len(new)

    def draw(self) -> int:
        """Evaluates what is pending, in pieces that follow each other through the stages, and draws a token, which is
        pending then."""
        if self._closed:
            raise ValueError("the session is closed")
        if self._evaluated == len(self.tokens):
            raise ValueError("there are no tokens to evaluate: append some first")
        while True:
            link = self._pipeline.link()  # what it raises is the end of patience
            try:
                token = self._draw_once(link)
                break
            except StageError:
                self.close()
                raise
            except BrokenConnectionError:
                if not self._pipeline.recovers:
                    raise
        self.tokens.append(token)
        self._drawn.append(True)
        return token

    def _draw_once(self, link: _Link) -> int:
        if link is not self._link:
            self._begin(link)
        self._save(link)
        return self._step(link, len(self.tokens))

    def _step(self, link: _Link, end: int) -> int:
        """Tokens up to `end`, and the one that is drawn after them."""
        chunk = self._pipeline.chunk
        for begin in range(self._evaluated, end, chunk):
            piece = array("i", self.tokens[begin : min(begin + chunk, end)])
            flags = DRAW if begin + chunk >= end else 0
            link.send(Frame(Kind.STEP, self._number, begin, flags, piece))
        token = link.answer(self._number, Kind.DRAWN).token_list()[0]
        self._evaluated = end
        return token

    def _save(self, link: _Link) -> None:
        every, last = self._pipeline.save_every, self._saved[-1] if self._saved else 0
        if every == 0 or self._evaluated - last < every:
            return
        link.send(Frame(Kind.SAVE, self._number, self._evaluated))
        link.answer(self._number, Kind.SAVED)
        self._saved = [*self._saved[-1:], self._evaluated]

    def _begin(self, link: _Link) -> None:
        """Opens the session in the stages, as far on as they have saved it, and sends the tokens since. Each attempt has a
        number of its own, so that no late answer to another one is taken for its own."""
        for resume in [*reversed(self._saved), 0]:
            self._number = self._pipeline.new_number()
            link.join(self._number)
            link.send(Frame(Kind.OPEN, self._number, json={**self._about, "resume": resume}))
            self._evaluated = resume
            try:
                for end in range(resume + 1, len(self.tokens)):
                    if self._drawn[end]:
                        drawn = self._step(link, end)
                        if drawn != self.tokens[end]:
                            raise StageError(f"token {end} was drawn as {self.tokens[end]}, and now as {drawn}")
                self._link = link
                self._saved = [position for position in self._saved if position <= resume]
                return
            except StageError:
                if resume == 0:
                    raise
                link.leave(self._number, keeps=True)

    def stream(self, prompt: str | Sequence[int] = "", max_tokens: int = 0) -> Iterator[str]:
        """The text after the prompt, piece by piece, to an end token or max_tokens."""
        if prompt:
            self.append(prompt)
        ends = set(self._pipeline.model.end_tokens)
        room = int(self._pipeline.stages[0]["context_tokens"]) - len(self.tokens)
        with Detokenizer(self._pipeline.model) as detokenizer:
            for _ in range(min(max_tokens or room, room)):
                token = self.draw()
                if token in ends:
                    break
                yield detokenizer.push(token)
            yield detokenizer.finish()

    def generate(self, prompt: str | Sequence[int] = "", max_tokens: int = 0) -> str:
        return "".join(self.stream(prompt, max_tokens))

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            if self._link is not None:
                self._link.leave(self._number)

    def __enter__(self) -> PipelineSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
