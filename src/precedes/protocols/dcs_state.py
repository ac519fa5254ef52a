"""What a process of ``dcs`` keeps, and what travels with a message.

A clock is a row of ``count`` components of E entries each. A process has the first ``SIZE`` of
them, and the first ``ACTIVE`` of those are active: they alone travel. ``GENERATION`` says how often
an index has been removed, so that a component that was added again is another one.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from precedes import compiled
from precedes.parts.hash_check.log import Log
from precedes.parts.hash_check.queue import Queue
from precedes.parts.hash_check.search import Peeling
from precedes.parts.hash_check.set_hash import Hasher
from precedes.protocols.contract import Int32s, Int64s

COMPONENTS_MAX: Final = 128  # an index fits into a byte, and so does their number
SPREAD_MAX: Final = 4

# Words of a message in ``stamp``.
CARRIES: Final = 0  # how many components it carries
INCREMENTS: Final = 1  # S_incr: from here on the components that its sender incremented
GENERATIONS: Final = INCREMENTS + SPREAD_MAX  # and of each carried component the generation

# Words of a component in ``part``.
HASH: Final = 0  # of the delivered messages that hit it, since its generation began
CARRIED: Final = 1  # at place c: of the delivered messages that carried exactly c components
GENERATION: Final = 2
HITS: Final = 3  # increments delivered since the last look at the balance
PART_WORDS: Final = 4

# Words of a process in ``word``: its components,
SIZE: Final = 0
ACTIVE: Final = 1
CHANGED_NS: Final = 2  # when the number of active components changed last
# the load and the components for it (``dcs_policy``),
RATE: Final = 3  # 1/1000 deliveries per second, not yet divided by its weight
WEIGHT: Final = 4  # what the estimate has seen of a full one
COUNT: Final = 5  # deliveries in the current interval
INTERVAL_END_NS: Final = 6
WIDTH: Final = 7  # components that the load asks for
OVER: Final = 8  # components that S_incr is drawn from
BALANCE_END_NS: Final = 9
INCREMENT: Final = 10  # S_incr: from here on, SPREAD_MAX places
# and rounds (``dcs_rounds``).
BLOCKED_UNTIL_NS: Final = 14
BLOCKER: Final = 15  # the round that blocks: initiator and number, packed
CEILING: Final = 16  # while blocked: components that S_incr may be drawn from
DOUBT: Final = 17  # components from here on may have been removed by others
DOUBT_ROUND: Final = 18  # the round that would say; SEVERAL if there are more
RANK: Final = 19  # processes with a smaller number that have not crashed
OTHERS: Final = 20  # processes that have not crashed
ROUND: Final = 21  # number of the last round started here
KIND: Final = 22  # of the round that is open here, or NO_ROUND
LOW: Final = 23  # its components,
HIGH: Final = 24  # up to this one
AGREED: Final = 25  # the lowest that all who answered agree to
AWAITED: Final = 26  # answers that have not come
ARMED: Final = 27  # whether the timer of the next turn is set
IDLE: Final = 28  # turns since the last delivery
NODE: Final = 29  # the process's own number
STALE: Final = 30  # components were removed: what waits has to be looked at again
FAILED: Final = 31  # rounds in a row that came to nothing, up to a bound
REACH: Final = 32  # the most active components that an answer to the last round told of
DOUBT_UNTIL_NS: Final = 33  # until then a decision may come
SEALS: Final = 34  # what the components of its open round looked like
COMPONENTS_A_ROUND: Final = 8  # with them a packet stays below 100 bytes
WORDS: Final = SEALS + COMPONENTS_A_ROUND

NO_ROUND: Final = -1
NOBODY: Final = -1
SEVERAL: Final = -2

# Bits of ``member``.
ANSWERED: Final = 1
CRASHED: Final = 2

# Places in ``plan``: settings,
ENTRIES: Final = 0  # of a component
PER_COMPONENT: Final = 1
SPREAD: Final = 2
COMPONENTS: Final = 3  # at the start, and at least
MOST: Final = 4  # components
DETECTOR: Final = 5
ROUND_NS: Final = 6
TIMEOUT_NS: Final = 7
KEEP_NS: Final = 8
BALANCE_NS: Final = 9
INTERVAL_NS: Final = 10
# what is counted,
STARTED: Final = 11  # rounds
DEACTIVATED: Final = 12  # components, by the decisions of all initiators
REMOVED: Final = 13
PACKETS: Final = 14  # of rounds
MALFORMED: Final = 15  # packets and messages that no correct process sends
# intervals of 10 s, the last one all that is later, of these words each,
SERIES: Final = 16
ACTIVE_SUM: Final = 0  # active components of processes, summed over intervals of the estimate
ACTIVE_COUNT: Final = 1
SENT_SUM: Final = 2  # components carried by messages
SENT_COUNT: Final = 3
SERIES_WORDS: Final = 4
SERIES_STEP_NS: Final = 10_000_000_000
SERIES_LENGTH: Final = 64
# and for a number of components, from 0 on, the load that they are enough for, in 1/1000 a second.
LIMIT: Final = SERIES + SERIES_WORDS * SERIES_LENGTH


class ClockSet(NamedTuple):
    """The clocks of the hosted processes, and what each knows of components, load and rounds."""

    clock: Int32s
    base: Int32s  # the clock as it was when each component was deactivated last; for the detector
    word: Int64s
    part: Int64s
    member: NDArray[np.int8]  # process, other -> what is known of it in a round
    plan: Int64s
    key: Int64s  # of the group's hash


class State(NamedTuple):
    """Rows of ``need``, ``stamp`` and ``past`` belong to messages, of most others to processes.

    ``expected``, ``hash``, ``delivered``, ``log`` and ``peel`` serve the detector and are all but
    empty without it.
    """

    dcs: ClockSet
    need: Int32s  # message -> the clock of its sender before it, of the components it carries
    stamp: Int32s
    past: Int64s  # message -> hash of all that its sender had delivered
    own: Int32s  # f: process -> its entries within a component, for each place of S_incr in turn
    expected: Int32s  # one row, for a search: what the sender of a message had counted
    hash: Int64s
    delivered: Int32s
    held: Queue
    log: Log
    hasher: Hasher
    peel: Peeling
    scratch: Int64s
    setting: Int64s  # of ``hash_check.check``, as is ``counted``
    counted: Int64s


@compiled.function()
def series_row(now_ns: int) -> int:
    """Where the words of an interval of 10 s begin in ``plan``."""
    return SERIES + SERIES_WORDS * min(now_ns // SERIES_STEP_NS, SERIES_LENGTH - 1)
