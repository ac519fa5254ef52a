"""Resources of this machine."""

import os

from precedes import machine


def test_the_machines_memory(monkeypatch):
    """The memory of the machine, or the limit of a control group."""
    machine.machine_bytes.cache_clear()
    whole = machine.machine_bytes()
    assert 0 < whole <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(machine, "_group_limits", lambda: iter([whole // 2]))
    machine.machine_bytes.cache_clear()
    try:
        assert machine.machine_bytes() == whole // 2
    finally:
        machine.machine_bytes.cache_clear()
