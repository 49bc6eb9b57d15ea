"""The head of a pipeline: has the tokenizer, and sends tokens through the stages."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Unpack

from .._cancel import Cancel
from .._library import checked_names
from .._model import Model
from .._options import ManyOptions, SamplerOptions
from .._results import Generated
from ._frames import BrokenConnectionError, Frame, Kind
from ._link import LOOK_S, Addresses, Link, check
from ._many import generate
from ._session import PipelineSession

_SAME = "architecture", "n_embd", "n_vocab", "n_model_layers", "kernel_set"
_OF_MODEL = frozenset(
    name for name in (*vars(Model), "info") if not name.startswith("_") and name not in ("memory", "encodings", "expert_counts")
)


class Pipeline:
    """A model whose layers are on several machines. `model` is the same one without weights (Model(path,
    weights=False)), for its tokenizer; `stages` are the addresses of StageServers in the order of their layers, with
    their common key, or a function that gives them anew after one was lost. Sessions may be used from any threads, each by
    one at a time: with as many at once as there are stages all of these are busy.

    It behaves like a Model: it has a model's tokenizer, chat templates and information, generate() and session(), and Chat
    takes it. What is not there: embeddings, logits, an engine and what has one, Client.

    chunk: tokens of a prompt that go through the stages together. seconds: in which a stage must answer a connection.
    patience: seconds for which a lost stage is waited for; 0: sessions fail with BrokenConnectionError. save_every: after
    so many tokens stages save a session; 0: never, and after a loss all of its tokens are evaluated again.

    pipeline = Pipeline(Model("path", weights=False), [("10.0.0.1", 7000), ("10.0.0.2", 7000)], key)
    print(pipeline.generate(["Once upon a time"], max_tokens=50)[0].text)
    print(Chat(pipeline).send("What is the capital of France?"))
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
        self._forgotten: deque[str] = deque()
        self._lock = threading.Lock()
        self._closed = False
        self._link = self._open_link()

    @property
    def stages(self) -> list[dict[str, Any]]:
        """What each stage is: first_layer, n_layers and so on."""
        return self._link.stages

    def _open_link(self) -> Link:
        addresses = self._stages() if callable(self._stages) else self._stages
        link = Link(addresses, self._key, self._seconds)
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

    def link(self, cancel: Cancel | None = None) -> Link:
        """One that was not broken when it was looked at."""
        end, wait = time.monotonic() + self._patience, 0.05
        while True:
            check(cancel)
            if not self._lock.acquire(timeout=LOOK_S):
                continue  # another thread connects
            try:
                if self._closed:
                    raise ValueError("the pipeline is closed")
                if self._link.broken is None or self._patience == 0:
                    return self._link
                self._link.close()
                self._link = self._open_link()
                self._forget_now(self._link)
                return self._link
            except BrokenConnectionError:
                if time.monotonic() + wait > end:
                    raise
            finally:
                self._lock.release()
            self._wait(wait, cancel)
            wait = min(2 * wait, 1)

    def _wait(self, seconds: float, cancel: Cancel | None) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            check(cancel)
            time.sleep(min(LOOK_S, seconds))

    def forget(self, name: str) -> None:
        """Of a session whose stages were lost: what they have saved goes, once there is a link again."""
        self._forgotten.append(name)
        link = self._link
        if link.broken is None:
            self._forget_now(link)

    def _forget_now(self, link: Link) -> None:
        with contextlib.suppress(BrokenConnectionError):
            while self._forgotten:
                number = self.new_number()
                link.send(Frame(Kind.OPEN, number, json={"name": self._forgotten[0], "max_tokens": 1}))
                link.send(Frame(Kind.CLOSE, number))
                self._forgotten.popleft()

    @property
    def recovers(self) -> bool:
        return self._patience != 0

    def __getattr__(self, name: str) -> Any:
        """What a model has of its tokenizer, its chat templates and its files."""
        if name not in _OF_MODEL:
            raise AttributeError(f"a {type(self).__name__} has no {name}")
        return getattr(self.model, name)

    def session(self, max_tokens: int = 0, **sampler: Any) -> PipelineSession:
        """max_tokens: room, 0 = the model's context. Of the sampler: what Session.set_sampler() takes."""
        checked_names("session", sampler, SamplerOptions)
        if int(max_tokens) < 0:
            raise ValueError(f"max_tokens is {max_tokens}, expected 0 or more")
        return PipelineSession(self, {"max_tokens": int(max_tokens), "sampler": sampler})

    def generate(
        self, prompts: Sequence[str | Sequence[int]], max_tokens: int = 0, **options: Unpack[ManyOptions]
    ) -> list[Generated]:
        """What follows each prompt: Model.generate(), with as many sessions at a time as keep the stages busy and their caches
        have room for. max_draft is passed over."""
        return generate(self, prompts, max_tokens, options)

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
