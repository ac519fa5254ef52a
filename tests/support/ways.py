"""Results of a protocol compiled in one way, to be compared with another way.

In a process of its own: ``python -m tests.support.ways simulated vector``, with switches in the
environment.
"""

import hashlib
import json
import sys

from precedes import registry
from precedes.compiled import compiler
from precedes.live.member import step
from precedes.sim.engine import loop
from precedes.testing import observe, random_scenario
from tests.support.network import Network
from tests.support.processes import printed

SEEDS = range(1, 31)
LIVE_SEEDS = range(1, 6)


def simulated(protocol):
    """Its traces and counts on networks of every kind, as a digest, and the code that ran."""
    found = hashlib.sha256()
    for seed in SEEDS:
        scenario = random_scenario(protocol, seed, hostile=True)
        seen = observe(scenario, tier="compiled", packets=seed % 2 == 1)
        found.update(seen.rows.tobytes())
        counts = {**seen.result.as_dict(), "cpu_s": 0, "wall_s": 0, "tier": ""}
        found.update(json.dumps(counts, sort_keys=True).encode())
    return found.hexdigest(), _code(loop.ENTRY, protocol)


def live(protocol):
    """All that members send, deliver and log, as a digest, and the code that ran."""
    found = hashlib.sha256()
    for seed in LIVE_SEEDS:
        network = Network(protocol, 8, seed, compiled=True)
        network.random_run(160, victims=[3])
        seen = (network.frames, network.delivered, network.order, network.outputs, network.rows)
        found.update(repr(seen).encode())
    return found.hexdigest(), _code(step.ENTRY, protocol)


def _code(entry, protocol):
    """The files with the code of a loop that has run, and their digests."""
    code = compiler.code_of(entry, registry.load(protocol).state)
    files = [path for path, _ in code.files()]
    found = {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert found, "its code was not kept"
    return found


def elsewhere(way, protocol, **environment):
    """The same from a process with other switches."""
    return tuple(json.loads(printed("-m", "tests.support.ways", way, protocol, env=environment)))


if __name__ == "__main__":
    print(json.dumps({"simulated": simulated, "live": live}[sys.argv[1]](sys.argv[2])))
