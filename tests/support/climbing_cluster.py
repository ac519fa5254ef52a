"""A cluster that finds no compiled step and does find it later, in a process of its own.

Prints how many threads there were at each fork, and what the cluster came to.
"""

import asyncio
import json
import sys
import threading
from pathlib import Path

from precedes.compiled import compiler
from precedes.live import Group
from precedes.live.cluster import process, run

threads = []
fork = process.fork


def noted(*arguments):
    """Fork, and note what would be left behind in the child."""
    threads.append(threading.active_count())
    return fork(*arguments)


async def finish_compiled(group, finish=Group.finish):
    """However long it takes until the step is loaded."""
    while group.tier != "compiled":  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.02)
    await finish(group)


process.fork = noted
Group.finish = finish_compiled
sys.path.append(str(Path(__file__).parents[2]))  # for the compiler
compiler.RECIPES["live"] = "tests.support.small_loop:live"
cluster = run.Cluster(tier="auto", **json.loads(sys.argv[2]))
found = run.run(cluster, directory=Path(sys.argv[1]))
print(json.dumps({"threads": threads, **found}))
