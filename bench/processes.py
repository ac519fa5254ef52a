"""CPU time and memory of this process and of all that it has started, from /proc."""

import os
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s_of_tree(root: int | None = None) -> float:
    """CPU seconds so far of a process (this one), its descendants, and children it waited for."""
    # From the twelfth field on: user, system, and those of dead children.
    return sum(sum(map(int, fields[11:15])) for _, fields in _tree(root)) / TICKS_PER_S


def peak_mib_of_tree(root: int | None = None) -> float:
    """Peak resident memory of a process (this one) and its live descendants, peaks added up."""
    kib = 0
    for process, _ in _tree(root):
        try:
            lines = Path(f"/proc/{process}/status").read_text().splitlines()
        except OSError:  # it has just ended
            continue
        kib += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return kib / 1024


def _tree(root: int | None) -> list[tuple[int, list[str]]]:
    """A process and its descendants, with the fields of their ``stat`` after the name."""
    rows = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            rows[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
    wanted = {os.getpid() if root is None else root}
    found: list[tuple[int, list[str]]] = []
    while wanted:
        found += [(process, rows[process]) for process in wanted if process in rows]
        wanted = {process for process, fields in rows.items() if int(fields[1]) in wanted}
    return found
