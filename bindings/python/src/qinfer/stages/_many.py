"""Many prompts at once on a pipeline: sessions on threads, with answers in the order of the prompts."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

from .._batch import samplers_of
from .._cancel import Cancel
from .._library import checked_names
from .._options import ManyOptions, SamplerOptions
from .._results import Generated

if TYPE_CHECKING:
    from ._pipeline import Pipeline


def generate(
    pipeline: Pipeline, prompts: Sequence[str | Sequence[int]], max_tokens: int, options: ManyOptions
) -> list[Generated]:
    """The first one that fails ends the others, and what is raised has a note with its number."""
    checked_names("generate", options, ManyOptions)
    if isinstance(prompts, str):
        raise TypeError("generate() takes a list of prompts, not one text")
    tokens = [pipeline.tokenize(prompt) if isinstance(prompt, str) else list(prompt) for prompt in prompts]
    if not tokens:
        return []
    samplers = samplers_of(options, len(tokens))
    cancel, progress = Cancel.of_call(options.get("cancel")), options.get("progress")

    def one(at: int, sampler: SamplerOptions) -> Generated:
        room = len(tokens[at]) + max_tokens if max_tokens else 0
        with pipeline.session(min(room, _context_of(pipeline)), **sampler) as session:
            session.append(tokens[at])
            session.set_grammar(options.get("grammar"))
            return session.generate(max_tokens, stop=options.get("stop", ()), cancel=cancel)

    done = 0
    with ThreadPoolExecutor(_at_once(pipeline, max(map(len, tokens)), max_tokens)) as pool:
        futures = {pool.submit(one, at, sampler): at for at, sampler in enumerate(samplers)}
        left: set[Future[Generated]] = set(futures)
        try:
            while left:
                ended, left = wait(left, return_when=FIRST_COMPLETED)
                for future in sorted(ended, key=futures.__getitem__):
                    if (failed := future.exception()) is not None:
                        failed.add_note(f"request {futures[future]} of {len(tokens)}")
                        raise failed
                    done += 1
                    if progress is not None:
                        progress(done, len(tokens))
        except BaseException:
            cancel.request()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def _context_of(pipeline: Pipeline) -> int:
    return int(pipeline.stages[0]["context_tokens"])


def _at_once(pipeline: Pipeline, longest: int, max_tokens: int) -> int:
    """One more than there are stages, so that each has something to do, if the smallest cache has room for them."""
    stages = pipeline.stages
    room = min(longest + max_tokens, _context_of(pipeline)) if max_tokens else _context_of(pipeline)
    cache = min(int(stage["cache_tokens"]) // (room + int(stage["block_tokens"])) for stage in stages)
    return max(1, min(len(stages) + 1, cache))
