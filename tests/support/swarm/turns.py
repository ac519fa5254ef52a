"""Schedules of a run of the swarm: all of them, or a block, which depends on its name.

A turn is some schedules of one family. ``make swarm`` takes as many turns as there are schedules
to run; a block takes the families in turns, round after round in an order and with seeds that its
name draws, until its time is up.
"""

import itertools
import random
from dataclasses import dataclass

from tests.support.seeds import COUNT, FIRST, blocks, numbers_of
from tests.support.swarm.families import FAMILIES, SHARES, Family, of_file

SIZE_MAX = 250  # schedules of a turn of `make swarm`
ENOUGH = 200  # schedules in which some break causal order if any do
SEEDS = 1 << 40  # the first seed of a block is below this
TURNS_PER_S = 4  # more than two processes can take


@dataclass(frozen=True)
class Turn:
    """Schedules of one family; ``number`` is its place in a block."""

    family: Family
    seeds: range
    number: int = 0

    def __str__(self):
        return f"{self.family.name}-{self.seeds.start}-{self.seeds.stop - 1}"


def all_turns(families, *, count=COUNT, first=FIRST):
    """Every family's share of ``count`` schedules."""
    for family in families:
        share = max(1, family.share * count // SHARES)
        for seeds in blocks(share, first=first, size=min(SIZE_MAX, 5 * family.turn)):
            yield Turn(family, seeds)


def block_turns(name, families):
    """The turns of a block, without end."""
    rng = random.Random(f"block {name}")
    numbers = itertools.count()
    while True:
        for family in rng.sample(list(families), len(families)):
            start = rng.randrange(1, SEEDS)
            yield Turn(family, range(start, start + family.turn), next(numbers))


def turns(options):
    """The selection by the options of pytest."""
    protocol = options.swarm_protocol
    families = [of_file(protocol)] if protocol else list(FAMILIES.values())
    if options.swarm_block is None:
        return list(all_turns(families))
    drawn = block_turns(options.swarm_block, families)
    if options.swarm_turns is not None:
        wanted = numbers_of(options.swarm_turns)
        return [turn for turn in itertools.islice(drawn, max(wanted) + 1) if turn.number in wanted]
    return list(itertools.islice(drawn, max(1, round(TURNS_PER_S * options.swarm_seconds))))
