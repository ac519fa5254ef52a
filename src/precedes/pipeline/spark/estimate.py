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
        factors = self._factors(now_s)
        done_s = sum(factor * self._done_s[kind] for kind, factor in factors.items())
        left_s = sum(factor * max(self._left_s[kind], 0.0) for kind, factor in factors.items())
        for name, begun_s in self._begun_s.items():
            piece = self._left[name]
            cost_s = factors[piece.kind] * piece.cost_s
            credit_s = min(max(now_s - begun_s, 0.0), BEGUN_MAX * cost_s)
            done_s += credit_s
            left_s -= credit_s
        total_s = done_s + left_s
        found = done_s / total_s if total_s > 0 else 0.0
        # All but the last rounding error is left to those who are still at work.
        self._share = max(self._share, min(found, 0.999))
        return self._share

    def _factors(self, now_s: float) -> dict[Hashable, float]:
        """By how much guesses were wrong: for each kind, else for all, else not at all.

        A piece that lasts longer than it should speaks for its kind until one is finished.
        """
        guessed_s, taken_s = sum(self._guessed_s.values()), sum(self._taken_s.values())
        usual = taken_s / guessed_s if guessed_s else 1.0
        factors = {}
        for kind in self._left_s:
            measured_s = self._guessed_s[kind]
            # A clock that stands still between two looks would make pieces cost nothing.
            factors[kind] = max(self._taken_s[kind] / measured_s if measured_s else usual, 1e-6)
        for name, begun_s in self._begun_s.items():
            piece = self._left[name]
            if not self._guessed_s[piece.kind] and piece.cost_s > 0:
                least = (now_s - begun_s) / (BEGUN_MAX * piece.cost_s)
                factors[piece.kind] = max(factors[piece.kind], least)
        return factors
