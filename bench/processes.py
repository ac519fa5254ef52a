"""CPU time of this process and of all that it has started, from /proc."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s_of_tree(root: int | None = None) -> float:
    """CPU seconds so far of a process (this one), its descendants, and children it waited for."""
    rows = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        # State, parent, ... and from the twelfth on: user, system, and those of dead children.
        rows[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    wanted = {os.getpid() if root is None else root}
    total = 0
    while wanted:
        total += sum(rows[process][1] for process in wanted if process in rows)
        wanted = {child for child, (parent, _) in rows.items() if parent in wanted}
    return total / TICKS_PER_S
