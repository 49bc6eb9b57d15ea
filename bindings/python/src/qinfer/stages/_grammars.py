"""The grammars of a pipeline's session, which its last stage draws by.

A stage that is lost takes the state of the grammar with it, and tokens that were drawn are drawn again after a loss, each by
the grammar of its time. So the head keeps from which position on each grammar holds, and which tokens were drawn by it; some
are drawn without it while it holds, as those of a reply's reasoning are.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass, field
from typing import Any

from .._grammar import Grammar


def as_json(grammar: Grammar) -> dict[str, Any]:
    kind, text, any_space = grammar.source
    return {"kind": kind, "text": text, "any_space": any_space}


@dataclass(eq=False)  # the same grammar once more begins anew
class Holding:
    """A grammar that holds from a position on, or None: no grammar does."""

    position: int
    grammar: Grammar | None
    positions: list[int] = field(default_factory=list)  # of the tokens that were drawn by it

    def n_before(self, position: int) -> int:
        """Tokens before that position that were drawn by it."""
        return bisect.bisect_left(self.positions, position)


class Grammars:
    """What tokens of a session are drawn by, and what the last stage knows of that."""

    def __init__(self) -> None:
        self._holdings = [Holding(0, None)]
        # What the last stage draws by, and how many of the tokens that were drawn by it the stage has seen; of None: 0.
        self._in_stage: tuple[Holding | None, int] = None, 0
        self._stage_is_known = True

    def set(self, position: int, grammar: Grammar | None) -> None:
        """From that position on, which is the session's end."""
        last = self._holdings[-1]
        if grammar is None and last.grammar is None:
            return
        before = self._holdings[:-1] if last.position == position else self._holdings
        self._holdings = [*before, Holding(position, grammar)]

    def truncate(self, n_tokens: int) -> None:
        """The last one stays in force, also where it began later."""
        for holding in self._holdings:
            holding.position = min(holding.position, n_tokens)
            n_left = holding.n_before(n_tokens)
            if n_left < len(holding.positions):
                del holding.positions[n_left:]
                self.forget_stage()
        while len(self._holdings) > 1 and self._holdings[-2].position == self._holdings[-1].position:
            del self._holdings[-2]

    def forget_stage(self) -> None:
        """It has seen other tokens than those that are there."""
        self._stage_is_known = False

    def stage_is_new(self) -> None:
        """The session is new in it, and has no grammar there."""
        self._in_stage, self._stage_is_known = (None, 0), True

    def was_drawn_without(self, position: int) -> bool:
        """Whether the token that is there was drawn without a grammar."""
        holding = self._at(position)
        return holding.n_before(position) == holding.n_before(position + 1)

    def holding(self, position: int, without: bool) -> Holding | None:
        """What the token of that position is drawn by. without: by none, whatever holds."""
        holding = self._at(position)
        return None if without or holding.grammar is None else holding

    def to_tell(self, position: int, without: bool) -> tuple[dict[str, Any], list[int]] | None:
        """What the last stage must be told before it draws the token of that position: a grammar as JSON, and the positions
        of the tokens that were drawn by it. None where it knows."""
        holding = self.holding(position, without)
        n_drawn = 0 if holding is None else holding.n_before(position)
        if self._stage_is_known and self._in_stage[0] is holding and self._in_stage[1] == n_drawn:
            return None
        self._in_stage, self._stage_is_known = (holding, n_drawn), True
        if holding is None or holding.grammar is None:
            return {"grammar": None}, []
        return {"grammar": as_json(holding.grammar)}, holding.positions[:n_drawn]

    def note_drawn(self, position: int) -> None:
        """The token of that position was drawn, perhaps once more, by what to_tell() said."""
        holding, n_drawn = self._in_stage
        if holding is None:
            return
        self._in_stage = holding, n_drawn + 1
        if holding.n_before(position + 1) == n_drawn:
            bisect.insort(holding.positions, position)

    def _at(self, position: int) -> Holding:
        return next(holding for holding in reversed(self._holdings) if holding.position <= position)
