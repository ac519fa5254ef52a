"""``python -m tests.support.swarm FAMILY SEED``: one schedule, as the swarm runs it."""

import argparse
import os
import tempfile
from pathlib import Path

from tests.support.swarm.families import FAMILIES, of_file


def main():
    """Run the schedule; what it breaks is raised."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.swarm", description=__doc__)
    parser.add_argument("family", help=f"{', '.join(FAMILIES)}, or the file of a protocol")
    parser.add_argument("seed", type=int)
    options = parser.parse_args()
    os.environ["PRECEDES_TIER"] = "compiled"  # as in tests
    family = FAMILIES.get(options.family) or of_file(options.family)
    with tempfile.TemporaryDirectory() as directory:
        print(family.check(options.seed, Path(directory)))


if __name__ == "__main__":
    main()
