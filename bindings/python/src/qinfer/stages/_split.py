"""Where to cut a model into stages, with the arithmetic of `qinfer plan --split`.

What a stage takes, or reads, grows with its layers, so for a share of what each machine has the stages are found one after
another: each gets as many layers as fit. The least share for which all layers find a place is found by bisection."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from .._load import Path
from .._model import Model
from .._plan import plan

_STEPS = 14  # of the bisection


def split(path: Path, machines: int | Sequence[int], *, sessions: int = 1, context: int = 0) -> list[range]:
    """The layers of each stage of the model at `path`. machines: how many, all alike, which then read the same bytes for a
    token; or the bytes of memory of each, of which stages, with keys and values of `sessions` sessions of `context` tokens
    (0 = the model's), take the same share. ValueError where they have no room."""
    with Model(path, weights=False) as model:
        n_layers = int(model.info["n_model_layers"])

    @lru_cache(maxsize=None)
    def bytes_of(layers: range) -> tuple[int, int]:
        planned = plan(path, sessions=sessions, context=context, layers=layers)
        return planned["total"] + sessions * planned["per_session"], planned["active_weight_bytes"]

    alike = isinstance(machines, int)
    if isinstance(machines, int):
        room = [bytes_of(range(n_layers))[1]] * machines
    else:
        room = list(machines)
    if not 0 < len(room) <= n_layers or min(room) <= 0:
        raise ValueError(f"{len(room)} stages, each with memory, of a model with {n_layers} layers")
    stages = _least(lambda share: _stages(n_layers, [share * have for have in room], lambda at: bytes_of(at)[alike]))
    for layers, have in zip(stages, room, strict=True):
        taken = bytes_of(layers)[0]
        if not alike and taken > have:
            raise ValueError(f"no cut fits: at best layers {layers.start} to {layers.stop - 1} take {taken} B of {have} B")
    return stages


def _least(stages_for: Callable[[float], list[range] | None]) -> list[range]:
    """The stages of the least share for which there are some."""
    enough, too_little = 1.0, 0.0
    while (found := stages_for(enough)) is None:
        too_little, enough = enough, 2 * enough
    for _ in range(_STEPS):
        tried = (enough + too_little) / 2
        stages = stages_for(tried)
        if stages is None:
            too_little = tried
        else:
            enough, found = tried, stages
    return found


def _stages(n_layers: int, most: list[float], bytes_of: Callable[[range], int]) -> list[range] | None:
    """Stages one after another, each of as many layers as take no more than its machine's bytes and leave one layer for
    each stage after it; None where some layers find no place."""
    stages, first = [], 0
    for at, bytes_here in enumerate(most):
        enough, too_many = 0, n_layers - first - (len(most) - at - 1) + 1
        while too_many - enough > 1:
            tried = (enough + too_many) // 2
            if bytes_of(range(first, first + tried)) <= bytes_here:
                enough = tried
            else:
                too_many = tried
        if enough == 0:
            return None
        stages.append(range(first, first + enough))
        first += enough
    return stages if first == n_layers else None
