"""The rates of a protocol compared with those of workload W (``run``), in the same run.

Repeats are interleaved; the table gives the best and the median of them, and the share of W's rate.
"""

import functools

import harness
import run

REFERENCE = "W, probabilistic, oracle (deliveries)"


def compare(rows, *, messages, repeats):
    """Best, median and ratio of each row and of W with that many messages."""
    rate = functools.partial(run.rate_of_precedes, "probabilistic", oracle=True)
    rate(1)  # load the compiled code before
    rates = harness.interleaved({REFERENCE: lambda: rate(messages), **rows}, repeats)
    return harness.compared(rates, REFERENCE)


def show(what, rows):
    """The table."""
    print(f"\n{what:<40}{'best':>14}{'median':>14}{'of W':>10}")
    for name, row in rows.items():
        print(f"{name:<40}{row['best']:>14,.0f}{row['median']:>14,.0f}   1/{1 / row['ratio']:.1f}")


def ratios(report):
    """Multiples of W's rate."""
    return harness.ratios_of(report["per_cpu_s"], REFERENCE)
