"""Embeddings and scores of rows, each with its value or its error; a row with an error leaves the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._errors import QinferError
from .._model import Model
from .._cache import KvCache
from .._session import Session
from .._texts import _groups

Row = Mapping[str, Any]
ROW_ERRORS = QinferError, ValueError, TypeError, KeyError


def embeddings(model: Model, rows: Sequence[Row], how: Mapping[str, Any]) -> list[Any]:
    """Of each row's `prompt`, as qinfer.embed() gives it; how: its options."""
    options: dict[str, Any] = {"parse_special": True, **how}
    pooling, dims = options.pop("pooling", "default"), options.pop("dims", 0)
    tokens = [_outcome(lambda row: model.embedding_tokens(row["prompt"], **options)[0], row) for row in rows]
    good = [listed for listed in tokens if not isinstance(listed, Exception)]
    groups = _groups(
        model, [len(listed) for listed in good], lambda session, at: session.set_tokens(good[at]), embeddings=True
    )
    found = (session.embedding(pooling, dims=dims) for group in groups for session in group)
    return [listed if isinstance(listed, Exception) else next(found) for listed in tokens]


def scores(model: Model, rows: Sequence[Row], how: Mapping[str, Any]) -> list[Any]:
    """How well each row's `document` answers its `query`, as Session.score() gives it; how: as for Session.set_pair()."""
    with Session(KvCache(model, budget_blocks=1)) as session:

        def count(row: Row) -> int:
            session.set_pair(row["query"], row["document"], **how)
            return len(session)

        counts = [_outcome(count, row) for row in rows]
    good = [row for row, length in zip(rows, counts, strict=True) if not isinstance(length, Exception)]
    lengths = [length for length in counts if not isinstance(length, Exception)]

    def fill(session: Session, at: int) -> None:
        session.set_pair(good[at]["query"], good[at]["document"], **how)

    found = (session.score(**how) for group in _groups(model, lengths, fill) for session in group)
    return [length if isinstance(length, Exception) else next(found) for length in counts]


def _outcome(work: Callable[[Row], Any], row: Row) -> Any:
    try:
        return work(row)
    except ROW_ERRORS as failed:
        return failed
