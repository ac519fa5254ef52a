"""How far work is whose pieces have guessed costs, corrected by what finished pieces took."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

# Of a piece that is at work, at most this much counts before it is finished.
BEGUN_MAX: Final = 0.9


class Piece(NamedTuple):
    """Something to be done; guesses for pieces of one kind are wrong by the same factor."""

    name: Hashable
    kind: Hashable
    cost_s: float


class Estimate:
    """The share of the work that is done: of costs, not of pieces; it never falls.

    A function of what it is told: times are the caller's, in seconds from anywhere.
    """

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._left = {piece.name: piece for piece in pieces}
        self._begun_s: dict[Hashable, float] = {}
        self._left_s: dict[Hashable, float] = defaultdict(float)  # guessed, by kind
        for piece in self._left.values():
            self._left_s[piece.kind] += piece.cost_s
        self._done_s: dict[Hashable, float] = defaultdict(float)  # guessed for finished ones
        self._guessed_s: dict[Hashable, float] = defaultdict(float)  # of those that were measured
        self._taken_s: dict[Hashable, float] = defaultdict(float)
        self._share = 0.0

    @property
    def left(self) -> frozenset[Hashable]:
        """The names of what is not finished."""
        return frozenset(self._left)

    def begin(self, name: Hashable, now_s: float) -> None:
        """Somebody works on a piece from now on, or did so before."""
        if name in self._left:
            self._begun_s.setdefault(name, now_s)

    def finish(self, name: Hashable, *, taken_s: float | None = None) -> None:
        """A piece is done, and took so long, if that is known."""
        piece = self._left.pop(name, None)
        if piece is None:
            return
        self._begun_s.pop(name, None)
        self._left_s[piece.kind] -= piece.cost_s
        self._done_s[piece.kind] += piece.cost_s
        if taken_s is not None:
            self._guessed_s[piece.kind] += piece.cost_s
            self._taken_s[piece.kind] += taken_s

    def share(self, now_s: float) -> float:
        """What is done of all there is to do; 1.0 when, and only when, nothing is left."""
        if not self._left:
            self._share = 1.0
            return self._share
        kinds = self._left_s.keys()
        done_s = sum(self._factor(kind) * self._done_s[kind] for kind in kinds)
        left_s = sum(self._factor(kind) * max(self._left_s[kind], 0.0) for kind in kinds)
        for name, begun_s in self._begun_s.items():
            piece = self._left[name]
            cost_s = self._factor(piece.kind) * piece.cost_s
            credit_s = min(max(now_s - begun_s, 0.0), BEGUN_MAX * cost_s)
            done_s += credit_s
            left_s -= credit_s
        total_s = done_s + left_s
        found = done_s / total_s if total_s > 0 else 0.0
        # All but the last rounding error is left to those who are still at work.
        self._share = max(self._share, min(found, 0.999))
        return self._share

    def _factor(self, kind: Hashable) -> float:
        """By how much guesses were wrong: for this kind, else for all, else not at all."""
        guessed_s = self._guessed_s[kind] or sum(self._guessed_s.values())
        taken_s = self._taken_s[kind] if self._guessed_s[kind] else sum(self._taken_s.values())
        # A clock that stands still between two looks would make pieces cost nothing.
        return max(taken_s / guessed_s, 1e-6) if guessed_s else 1.0
