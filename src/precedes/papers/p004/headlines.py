"""What Wilhelm et al. 2020 are read for."""

from typing import Final

from precedes.papers.headlines import Headlines, Statement
from precedes.papers.p004.experiments import RADIOS, TCPS, UNKNOWN_RADIO
from precedes.papers.p004.published import HIGH_ITEM, LOW_ITEM

TCP: Final = next(iter(TCPS))


def _radios(key: str) -> dict[str, str]:
    return {radio: f"{key}, {radio}" for radio in RADIOS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="at 5.6 broadcasts per second a delivery takes {} with mobile",
            short="delay, mobile",
            item=LOW_ITEM,
            keys=_radios("delay in s, mobile"),
            unit="s",
        ),
        Statement(
            says="and {} with flooding over TCP",
            short="delay, flooding",
            item=LOW_ITEM,
            keys=_radios(f"delay in s, flooding, {TCP}"),
            unit="s",
        ),
        Statement(
            says="mobile sends {} datagrams for a delivery",
            short="datagrams for a delivery, mobile",
            item=LOW_ITEM,
            keys=_radios("messages sent per delivery, mobile"),
        ),
        Statement(
            says="at 35 broadcasts per second its delay is {}",
            short="delay, mobile, 35 per s",
            item=HIGH_ITEM,
            keys=_radios("delay in s, mobile"),
            unit="s",
        ),
        Statement(
            says="while hosts walk it is {}",
            short="delay, mobile, walking",
            item="Section V-B",
            keys=_radios("delay in s"),
            unit="s",
        ),
        Statement(
            says="{} deliveries are out of causal order while hosts walk and fail",
            short="deliveries out of causal order",
            item="Guarantees",
            keys=_radios("deliveries out of causal order, mobile, hosts that walk and fail"),
        ),
    ),
    figures=("Bandwidth", "Figure 6d"),
    readings=f"Two radios: {UNKNOWN_RADIO}.",
)
