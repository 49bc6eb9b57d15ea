"""What an actor of Ray Data does with rows: one model, and one scheduler in which the rows of several batches are together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from .._engine import AsyncEngine
from .._model import ChatPrompt, Model
from .._plan import plan
from .._runtime import Runtime
from .._reply import Reply
from .._cache import KvCache
from ._vectors import ROW_ERRORS, embeddings, scores

OUTPUTS = "text", "embedding", "score"


@dataclass
class _Answer:
    """What is drawn for a row."""

    prompt_tokens: int
    tokens: list[int]
    logprobs: list[float | None]
    text: str = ""
    finish: str = ""
    message: str | None = None  # JSON, of a conversation


class Inference:
    """For `ds.map_batches(Inference, fn_constructor_args=[path], batch_format="pyarrow")`; qinfer.ray.batch() says it with
    all that goes with it. The rows get new columns; each has the bits that it gets alone, whatever is computed besides.

    output "text": what follows a row's `prompt` (text or tokens), or answers its `messages` (a list of messages, or JSON
    text of one): columns text, tokens, finish, prompt_tokens; with logprobs those of the tokens; of a conversation the
    message with reasoning and calls taken apart, as JSON. "embedding": of the prompt. "score": how well `document`
    answers `query`. A column `seed` is that of the row's sampler.

    max_tokens: 0 = up to the context. sessions: rows that are computed at once, for which there is memory with `context`
    tokens each (0 = the model's). sampler: as for Session.set_sampler(). variables: of the chat template. how: of embed()
    (prompt, truncate, dims, pooling) and of Session.set_pair(). errors "keep": a row that cannot be answered has a text in
    the column `error`; "raise": it ends the job."""

    def __init__(
        self,
        path: str,
        *,
        output: str = "text",
        max_tokens: int = 0,
        stop: Sequence[str] = (),
        sampler: Mapping[str, Any] | None = None,
        logprobs: bool = False,
        variables: Mapping[str, Any] | None = None,
        how: Mapping[str, Any] | None = None,
        sessions: int = 16,
        context: int = 0,
        threads: int = 0,
        cpu_target: str | None = None,
        errors: str = "raise",
    ) -> None:
        if output not in OUTPUTS or errors not in ("raise", "keep"):
            raise ValueError(f'output is {output!r} and errors {errors!r}, expected one of {OUTPUTS}, and "raise" or "keep"')
        self._output, self._keeps_errors = output, errors == "keep"
        self._max_tokens, self._context, self._stop, self._logprobs = max_tokens, context, list(stop), logprobs
        self._sampler, self._variables, self._how = dict(sampler or {}), dict(variables or {}), dict(how or {})
        self._model = Model(path, Runtime(threads=threads, cpu_target=cpu_target))
        self._engine: AsyncEngine | None = None
        if output == "text":
            budget = plan(path, sessions=sessions, context=context)["kv_per_session"] * sessions
            cache = KvCache(self._model, budget_bytes=max(1, budget), prefix=True)
            self._engine = AsyncEngine(cache, max_running=sessions, max_waiting=2 * sessions)
        self._places = asyncio.Semaphore(2 * sessions)  # so that the next rows wait in the scheduler, and not all of them
        self._alone = asyncio.Lock()

    async def __call__(self, batch: pa.Table) -> pa.Table:
        rows = batch.to_pylist()
        if self._output == "text":
            made = list(await asyncio.gather(*map(self._kept, rows)))
            return self._with_texts(batch, made, "messages" in batch.column_names)
        work = embeddings if self._output == "embedding" else scores
        kind = pa.list_(pa.float32()) if self._output == "embedding" else pa.float32()
        async with self._alone:  # as each is one evaluation of many rows
            values = await asyncio.to_thread(work, self._model, rows, self._how)
        table = _with(batch, self._output, [None if isinstance(value, Exception) else value for value in values], kind)
        return self._with_errors(table, values)

    # ---- Texts
    async def _kept(self, row: dict[str, Any]) -> Any:
        """The outcome, or the row's error."""
        async with self._places:
            try:
                return await self._answer(row)
            except ROW_ERRORS as failed:
                return failed

    async def _answer(self, row: dict[str, Any]) -> _Answer:
        tokens, prompt = self._prompt_of(row)
        if self._context and len(tokens) >= self._context:
            raise ValueError(f"the prompt has {len(tokens)} tokens, which leaves none of the context of {self._context}")
        engine, answer, texts = self._engine, _Answer(len(tokens), [], []), []
        assert engine is not None
        sampler = {**self._sampler, **({"seed": row["seed"]} if row.get("seed") is not None else {})}
        options: dict[str, Any] = {"stop": self._stop, "logprobs": self._logprobs, **sampler}
        rest = self._context - len(tokens) if self._context else 0
        async for piece in engine.stream(tokens, self._max_tokens or rest, **options):
            texts.append(piece.text)
            answer.finish = piece.finish or ""
            if piece.token >= 0:  # and not text alone, that was held back
                answer.tokens.append(piece.token)
                answer.logprobs.append(piece.logprob)
        answer.text = "".join(texts)
        if prompt is not None:
            answer.message = self._message(prompt, answer.tokens)
        return answer

    def _prompt_of(self, row: dict[str, Any]) -> tuple[list[int], ChatPrompt | None]:
        if row.get("messages") is not None:
            messages = messages_of(row["messages"])
            return self._model.tokenize_chat(messages, **self._variables), ChatPrompt(messages, **self._variables)
        prompt = row.get("prompt")
        if prompt is None:
            raise ValueError("a row has neither messages nor a prompt")
        return (self._model.tokenize(prompt) if isinstance(prompt, str) else [int(token) for token in prompt]), None

    def _message(self, prompt: ChatPrompt, tokens: list[int]) -> str:
        with Reply(self._model, prompt) as reply:
            for token in tokens:
                reply.push(token)
            reply.finish()
            return json.dumps(reply.message, ensure_ascii=False)

    def _with_texts(self, batch: pa.Table, made: list[Any], has_messages: bool) -> pa.Table:
        answers = [None if isinstance(one, Exception) else one for one in made]
        table = _with(batch, "text", [one and one.text for one in answers], pa.string())
        table = _with(table, "tokens", [one and one.tokens for one in answers], pa.list_(pa.int32()))
        table = _with(table, "finish", [one and one.finish for one in answers], pa.string())
        table = _with(table, "prompt_tokens", [one and one.prompt_tokens for one in answers], pa.int32())
        if self._logprobs:
            table = _with(table, "logprobs", [one and one.logprobs for one in answers], pa.list_(pa.float64()))
        if has_messages:
            table = _with(table, "message", [one and one.message for one in answers], pa.string())
        return self._with_errors(table, made)

    def _with_errors(self, table: pa.Table, made: list[Any]) -> pa.Table:
        errors = [one if isinstance(one, Exception) else None for one in made]
        if self._keeps_errors:
            return _with(table, "error", [error and str(error) for error in errors], pa.string())
        for error in filter(None, errors):
            raise error
        return table


def messages_of(value: Any) -> list[dict[str, Any]]:
    """A conversation out of a column: JSON text, or messages, in which Arrow has put null for what one has not."""
    messages = json.loads(value) if isinstance(value, str) else value
    return [{name: of for name, of in message.items() if of is not None or name == "content"} for message in messages]


def _with(table: pa.Table, name: str, values: list[Any], kind: pa.DataType) -> pa.Table:
    """With a column more, or that one anew."""
    if name in table.column_names:
        table = table.drop_columns([name])
    return table.append_column(name, pa.array(values, kind))
