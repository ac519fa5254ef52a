"""``python -m precedes.testing PROTOCOL``: the conformance suite from a shell."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from precedes.console import run, show, tell
from precedes.errors import Exit
from precedes.testing.conformance import conformance


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite; 0 if the protocol conforms, 1 if not, else as for the other commands."""
    parser = argparse.ArgumentParser(
        prog="python -m precedes.testing",
        description="Run a protocol on random schedules and check the contract and its promises.",
        allow_abbrev=False,
    )
    parser.add_argument("protocol", help="a name, or a file (.py) or folder of your own")
    parser.add_argument("--schedules", type=int, default=20, metavar="K", help="how many (20)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the first one (1)")
    parser.add_argument(
        "--hostile", action="store_true", help="networks may break what the protocol assumes"
    )
    parser.add_argument(
        "--interpreted", action="store_true", help="leave the compiled engine out: no waiting"
    )
    parser.add_argument(
        "--same-as", metavar="OTHER", help="compare with another protocol, event for event"
    )
    parser.add_argument("--debug", action="store_true", help="add to an error its origin")
    options = parser.parse_args(arguments)
    try:
        result = conformance(
            options.protocol,
            schedules=options.schedules,
            seed=options.seed,
            hostile=options.hostile,
            compiled=not options.interpreted,
            same_as=options.same_as,
        )
        for line in (result, *result.failures):
            show(line)
    except BaseException as error:
        return tell(error, debug=options.debug)
    return Exit.VIOLATED if result.failures else Exit.DONE


if __name__ == "__main__":
    run(main)
