"""Many texts at once: their embeddings, and how well documents answer a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Unpack

from ._cache import KvCache
from ._load import Path
from ._model import Model, model_of
from ._options import Pooling, ScoreOptions
from ._session import Session, evaluate

_SESSIONS = 16  # evaluated together


def embed(
    source: Model | Path,
    texts: Sequence[str],
    *,
    prompt: str | None = None,
    truncate: bool = False,
    dims: int = 0,
    pooling: Pooling = "default",
) -> list[Any]:
    """The embedding of each text, as Session.embedding() gives it. prompt: the name of one of the model's prompts, which goes
    before each text. A text that is too long is ContextFullError, or cut with truncate. An encoder takes no more tokens
    at once than its model was loaded for (max_batch_tokens)."""
    if isinstance(texts, str):
        raise TypeError("embed() takes a list of texts, not one text")
    model = model_of(source)
    tokens = [
        model.embedding_tokens(text, prompt=prompt, truncate=truncate, parse_special=True)[0] for text in texts
    ]
    out = []
    counts = [len(listed) for listed in tokens]
    for group in _groups(model, counts, lambda session, at: session.set_tokens(tokens[at]), embeddings=True):
        out += [session.embedding(pooling, dims=dims) for session in group]
    return out


def rerank(
    source: Model | Path, query: str, documents: Sequence[str], **how: Unpack[ScoreOptions]
) -> list[tuple[int, float]]:
    """Which document it is and its score, the best first, equal ones in their order; how: as in Session.set_pair()."""
    model = model_of(source)
    counts = []
    with Session(KvCache(model, budget_blocks=1)) as session:
        for document in documents:
            session.set_pair(query, document, **how)
            counts.append(len(session))
    scores: list[float] = []
    for group in _groups(model, counts, lambda session, at: session.set_pair(query, documents[at], **how)):
        scores += [session.score(**how) for session in group]
    return sorted(enumerate(scores), key=lambda pair: -pair[1])


def _groups(
    model: Model, counts: list[int], fill: Callable[[Session, int], object], embeddings: bool = False
) -> Iterator[list[Session]]:
    """Groups of sessions for texts of these numbers of tokens, in order, filled and evaluated."""
    if not counts:
        return
    longest, size = max(counts), min(_SESSIONS, len(counts))
    cache = KvCache(model, block_tokens=32, budget_blocks=size * (longest // 32 + 2))
    sessions = [Session(cache, max_tokens=longest, embeddings=embeddings) for _ in range(size)]
    for begin in range(0, len(counts), size):
        group = sessions[: len(counts) - begin]
        for at, session in enumerate(group):
            fill(session, begin + at)
        pending = [session for session in group if session.pending]
        if pending:
            evaluate(pending)
        yield group
