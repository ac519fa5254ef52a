"""What this machine has."""

import os

from precedes import machine


def test_the_machines_memory(monkeypatch):
    """What the machine has, or less where a control group says so."""
    machine.machine_bytes.cache_clear()
    whole = machine.machine_bytes()
    assert 0 < whole <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    monkeypatch.setattr(machine, "_group_limits", lambda: iter([whole // 2]))
    machine.machine_bytes.cache_clear()
    try:
        assert machine.machine_bytes() == whole // 2
    finally:
        machine.machine_bytes.cache_clear()
