"""``precedes --version``: what runs here, to report a defect or to compare machines."""

from __future__ import annotations

import argparse
from typing import Final

from precedes.cli.common import show_json
from precedes.console import show
from precedes.errors import Exit
from precedes.provenance import versions

DESCRIPTION: Final = "What runs here; 'sources' is the code_version of the traces that it writes."


def run(options: argparse.Namespace) -> int:
    """Print what ``versions`` finds."""
    found = versions()
    if options.json:
        show_json({name: value for name, value in found.items() if name != "sources"})
        return Exit.DONE
    show(f"precedes {found.pop('precedes')}")
    width = max(map(len, found))
    for name, value in found.items():
        show(f"{name:{width}}  {value or 'not installed'}")
    return Exit.DONE
