"""Which fields of a scenario mean something on a radio."""

from __future__ import annotations

from typing import Final

from precedes.errors import UserError
from precedes.sim.scenario import Scenario

# Fields of a scenario that say something about links, of which a radio has none.
OF_LINKS: Final = (
    *("delay", "per", "duplication", "fifo", "processing_ms", "transmission_ms"),
    *("bandwidth_bytes_per_s", "packet_bytes", "payload_bytes", "mtu_bytes", "gap_ms"),
)


def check_fields(scenario: Scenario, *, packets: bool) -> None:
    """Refuse what would silently have no effect."""
    usual = Scenario(protocol=scenario.protocol, nodes=scenario.nodes)
    for name in OF_LINKS:
        if getattr(scenario, name) != getattr(usual, name):
            raise UserError(
                f"{scenario.protocol} runs on a radio, where {name} means nothing: "
                "see its own parameters with 'precedes protocols'"
            )
    if packets:
        raise UserError(f"{scenario.protocol} runs on a radio: its packets are not recorded")
    if scenario.workload.startswith("replay:"):
        raise UserError("a replay needs a network of links: choose another protocol or workload")
    for fault in scenario.faults:
        if fault.kind == "cut" or fault.after_sends:
            raise UserError("on a radio a fault is a crash, or a pause from which a host recovers")
