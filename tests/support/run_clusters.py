"""Run clusters one after another in this process, which has no threads: a JSON line for each.

    python tests/support/run_clusters.py '[{"protocol": "vector", "faults": 1}, ...]'

Tests start it as a process of its own, because members are forked.
"""

import json
import sys

from precedes.live.cluster.run import Cluster, run

for given in json.loads(sys.argv[1]):
    print(json.dumps({**run(Cluster(**given)), "latency_us": None}), flush=True)
