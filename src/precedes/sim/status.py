"""What the engine returns, what its events are, and the room it asks for."""

from __future__ import annotations

from typing import Final

from precedes import compiled
from precedes.sim import world as w

# What ``engine.run`` returns.
FINISHED: Final = 0
GROW_QUEUE: Final = 1
GROW_SLOTS: Final = 2
GROW_STATE: Final = 3
GROW_PACKETS: Final = 4
GROW_ORACLE: Final = 5
FLUSH_TRACE: Final = 6
EFFECTS_OVERFLOW: Final = 7
PAUSED: Final = 8  # the time slice is over: report progress and go on


@compiled.function(inline=False)
def recorder_is_full(world: w.World) -> bool:
    """Whether the next effect might not fit into the chunk of the trace."""
    margin = 8 + 2 * world.inbox.size // 2
    if world.recorder.setting[w.RECORDING_PACKETS] != 0:
        margin += world.network.busy_until_ns.size
    return world.recorder.setting[w.ROWS] + margin > world.recorder.row.shape[0]
