"""Many prompts at once: requests that an engine draws together, with answers in the order of the prompts."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Unpack, cast

from ._cache import KvCache
from ._cancel import Cancel
from ._engine import Engine, Job
from ._errors import NoMemoryError
from ._library import Held, address_of, checked_names, text_at
from ._load import Path
from ._model import Model, model_of
from ._options import ManyOptions, SamplerOptions
from ._reply import Reply
from ._results import Generated, generate_options

Source = Engine | KvCache | Model | Path
_BLOCK = 32  # tokens of a block in caches that are made here
_RUNNING = 16  # requests that they have room for


@dataclass
class Request:
    """A prompt, and with a chat's one the reply to it."""

    tokens: Sequence[int]
    sampler: SamplerOptions
    reply: Reply | None = None
    message: dict[str, Any] | None = None


class Batch:
    """Draws requests together. The engine has as many of them at a time as it can begin soon."""

    def __init__(
        self, engine: Engine, max_tokens: int, options: ManyOptions, total: int, max_reasoning_tokens: int = 0
    ) -> None:
        self._engine, self._total = engine, total
        self._native = generate_options(max_tokens, options.get("stop", ()))
        self._native.max_reasoning_tokens = max_reasoning_tokens
        self._grammar, self._max_draft = options.get("grammar"), options.get("max_draft", 8)
        self._progress, self._cancel = options.get("progress"), Cancel.of_call(options.get("cancel"))
        self._native.cancel = address_of(Cancel, self._cancel)
        self._ended: queue.SimpleQueue[tuple[int, Generated | BaseException]] = queue.SimpleQueue()
        self._running: dict[int, Job] = {}
        self._results: dict[int, Generated] = {}

    def run(self, requests: Sequence[Request]) -> list[Generated]:
        window = min(2 * self._engine.max_running, self._engine.max_waiting)
        with Held(self._cancel):
            try:
                for at, request in enumerate(requests):
                    while len(self._running) >= window:
                        self._take()
                    self._submit(at, request)
                while self._running:
                    self._take()
            finally:
                self._leave()
        return [self._results[at] for at in range(self._total)]

    def _submit(self, at: int, request: Request) -> None:
        while True:
            try:
                job = self._job(at, request)
            except Exception as failure:
                failure.add_note(f"request {at} of {self._total}")
                raise
            try:
                self._engine.submit(job)
                self._running[at] = job
                return
            except NoMemoryError:  # others use the engine, too
                job.close()
                if not self._running:
                    raise
                self._take()
            except BaseException:
                job.close()
                raise

    def _job(self, at: int, request: Request) -> Job:
        self._native.reply = address_of(Reply, request.reply)
        prepared = self._engine._prepare(request.tokens, self._native, self._grammar, self._max_draft, request.sampler)
        session, generation = prepared
        generation.keeps = self._cancel, request.reply
        pieces: list[str] = []

        def token(info: Any) -> None:
            pieces.append(text_at(info.text, info.text_len))

        def end(error: BaseException | None) -> None:
            try:
                if error is None:
                    if request.reply is not None:
                        request.reply.finish()
                        request.message = request.reply.message
                    self._ended.put((at, Generated.of("".join(pieces), generation.result)))
            except BaseException as failure:  # noqa: BLE001 - raised again by the one who waits
                error = failure
            if error is not None:
                self._ended.put((at, error))

        return Job(session, generation, token, end)

    def _take(self) -> None:
        """Waits until a request has ended. The first that failed ends the batch."""
        at, result = self._ended.get()
        del self._running[at]
        if isinstance(result, BaseException):
            result.add_note(f"request {at} of {self._total}")
            raise result
        self._results[at] = result
        if self._progress is not None:
            self._progress(len(self._results), self._total)

    def _leave(self) -> None:
        """Ends what still runs, and waits for that."""
        for job in self._running.values():
            job.cancel()
        while self._running:
            at, _ = self._ended.get()
            self._running.pop(at, None)


@contextmanager
def engine_of(source: Source, rooms: Sequence[int]) -> Iterator[Engine]:
    """The engine, or one for this call alone, with a cache for as many sessions of these numbers of tokens as run together.
    0: of the model's context, of which there is room for one."""
    if isinstance(source, Engine):
        yield source
    elif isinstance(source, KvCache):
        with Engine(source) as engine:
            yield engine
    else:
        with Engine(_cache_for(model_of(source), sorted(rooms, reverse=True)[:_RUNNING])) as engine:
            yield engine


def _cache_for(model: Model, rooms: Sequence[int]) -> KvCache:
    if not rooms or 0 in rooms:
        return KvCache(model, prefix=True)
    n = len(rooms)
    while True:
        blocks = sum(min(room, model.info["context_tokens"]) // _BLOCK + 3 for room in rooms[:n])
        try:
            return KvCache(model, block_tokens=_BLOCK, budget_blocks=blocks, prefix=True)
        except NoMemoryError:
            if n == 1:
                raise
            n = (n + 1) // 2


def model_behind(source: Source) -> Model:
    return source.model if isinstance(source, (Engine, KvCache)) else model_of(source)


def samplers_of(options: ManyOptions, total: int) -> list[SamplerOptions]:
    """For each request how its tokens are drawn."""
    one = {name: value for name, value in options.items() if name in SamplerOptions.__annotations__}
    seeds = options.get("seeds")
    if seeds is None:
        return [cast(SamplerOptions, one)] * total
    if len(seeds) != total:
        raise ValueError(f"{len(seeds)} seeds for {total} requests")
    return [cast(SamplerOptions, {**one, "seed": seed}) for seed in seeds]


def generate(
    source: Source, prompts: Sequence[str | Sequence[int]], max_tokens: int = 0, **options: Unpack[ManyOptions]
) -> list[Generated]:
    """What follows each prompt, a text or tokens, drawn together; each gets what Session.generate() gives it. `source` is an
    Engine or a KvCache; of a model, or the path of one, a cache is made for this call, with room for 16 requests at a time.
    Without max_tokens each request has room for the model's whole context, so that they run one after another. The first
    request that fails ends the others, and what is raised has a note with its number."""
    checked_names("generate", options, ManyOptions)
    if isinstance(prompts, str):
        raise TypeError("generate() takes a list of prompts, not one text")
    model = model_behind(source)
    tokens = [model.tokenize(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    samplers = samplers_of(options, len(tokens))
    requests = [Request(listed, sampler) for listed, sampler in zip(tokens, samplers, strict=True)]
    rooms = [len(listed) + max_tokens if max_tokens else 0 for listed in tokens]
    with engine_of(model if not isinstance(source, (Engine, KvCache)) else source, rooms) as engine:
        return Batch(engine, max_tokens, options, len(requests)).run(requests)
