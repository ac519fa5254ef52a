"""Seeds of random schedules: how many `make swarm` runs, and how a failure tells its own.

`PRECEDES_SWARM` is how many schedules of a kind there are (10,000), `PRECEDES_SWARM_SEED` the first
seed.
"""

import contextlib
import os

COUNT = int(os.environ.get("PRECEDES_SWARM", "10000"))
FIRST = int(os.environ.get("PRECEDES_SWARM_SEED", "1"))


def blocks(count=COUNT, *, first=FIRST, size=250):
    """Ranges of seeds, small enough for several processes to share."""
    end = first + count
    return [range(start, min(start + size, end)) for start in range(first, end, size)]


@contextlib.contextmanager
def repeat(how):
    """Whatever fails inside says how to run it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"repeat: {how}")
        raise
