"""Normal delays by the million: NumPy's own stream of numbers, in compiled code.

A compiled loop that asks the generator for one normal after the other gets the numbers that NumPy
would have filled an array with, to the last bit and with the generator left in the same state,
in two fifths of the time: drawing was a fifth of a long run.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes import compiled

# Delays of a run after which compiled code is asked for: it takes a second to compile, once on a
# machine, and a tenth of one to load.
WORTH: Final = 4_000_000


def fill(
    generator: np.random.Generator,
    delay_ns: NDArray[np.int64],
    mean_ns: float,
    deviation_ns: float,
    least_ns: int,
) -> None:
    """Fill an array with delays."""
    for i in range(delay_ns.size):
        delay_ns[i] = max(int(mean_ns + deviation_ns * generator.standard_normal()), least_ns)


ENTRY: Final = compiled.Entry(fill, label="the drawing of delays")


def draw_ns(
    generator: np.random.Generator,
    count: int,
    *,
    mean_ns: float,
    deviation_ns: float,
    least_ns: int,
    compile_it: bool,
) -> NDArray[np.int64]:
    """So many delays, drawn by NumPy or by compiled code."""
    if compile_it:
        delay_ns = np.empty(count, np.int64)
        arguments = (generator, delay_ns, mean_ns, deviation_ns, least_ns)
        ENTRY.prepare(None, (), *arguments)(*arguments)
        return delay_ns
    values = generator.standard_normal(count)
    values *= deviation_ns
    values += mean_ns
    drawn_ns = values.astype(np.int64)
    return np.maximum(drawn_ns, least_ns, out=drawn_ns)
