"""Seeds of random schedules: how many `make swarm` runs, and how a failure tells its own.

`PRECEDES_SWARM` is how many schedules there are of all kinds together (100,000),
`PRECEDES_SWARM_SEED` the first seed of each.
"""

import contextlib
import os

COUNT = int(os.environ.get("PRECEDES_SWARM", "100000"))
FIRST = int(os.environ.get("PRECEDES_SWARM_SEED", "1"))


def blocks(count=COUNT, *, first=FIRST, size=250):
    """Ranges of seeds, small enough for several processes to share."""
    end = first + count
    return [range(start, min(start + size, end)) for start in range(first, end, size)]


def numbers_of(text):
    """The numbers in a text such as ``0-41,43``."""
    numbers = set()
    for part in text.split(","):
        low, _, high = part.partition("-")
        numbers |= set(range(int(low), int(high or low) + 1))
    return numbers


def text_of(numbers):
    """Numbers as such a text."""
    parts = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in parts)


@contextlib.contextmanager
def repeat(how):
    """Whatever fails inside says how to run it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"repeat: {how}")
        raise
