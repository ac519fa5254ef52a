"""The rows of a trace: a chunk that the engine fills and a writer empties."""

from __future__ import annotations

from typing import Final, Protocol

from precedes import compiled, contract
from precedes.contract import Host, Int64s
from precedes.model import Events
from precedes.sim.engine import layout

# Columns of ``trace``, in the order of ``Events``.
TIME_NS: Final = 0
NODE: Final = 1
KIND: Final = 2
SOURCE: Final = 3
SEQUENCE: Final = 4
PACKET: Final = 5


class Writer(Protocol):
    """The destination of a run's events: chunks of columns, in order of time."""

    def write(self, events: Events) -> None:
        """Write one chunk; the arrays may be reused afterwards."""


@compiled.function()
def needs_flush(trace: Int64s, registers: Int64s, rows: int) -> bool:
    """Return whether the rows of the next effect, at most this many, might not fit."""
    return registers[layout.RECORDING] != 0 and registers[layout.ROWS] + rows + 8 > trace.shape[0]


@compiled.function()
def record(
    trace: Int64s, registers: Int64s, kind: int, node: int, source: int, sequence: int, packet: int
) -> None:
    """Append an event to the trace; the engine has checked the room."""
    row = trace[registers[layout.ROWS]]
    row[TIME_NS] = registers[contract.NOW_NS]
    row[NODE] = node
    row[KIND] = kind
    row[SOURCE] = source
    row[SEQUENCE] = sequence
    row[PACKET] = packet
    registers[layout.ROWS] += 1


@compiled.function(inline=False)
def record_message(trace: Int64s, host: Host, kind: int, node: int, slot: int, packet: int) -> None:
    """``record`` for an event of a message."""
    source = int(host.name[2 * slot + contract.SOURCE]) + compiled.ZERO
    sequence = int(host.name[2 * slot + contract.SEQUENCE]) + compiled.ZERO
    record(trace, host.registers, kind, node, source, sequence, packet)


def flush(trace: Int64s, registers: Int64s, writer: Writer) -> None:
    """Pass the chunk to the writer."""
    rows = trace[: int(registers[layout.ROWS])]
    if len(rows):
        writer.write(Events.of(rows))
    registers[layout.ROWS] = 0
