"""Running the experiments of papers and writing the claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from precedes.model import UserError
from precedes.papers import paper_003
from precedes.papers.claims import Claim, write_claims
from precedes.sim.run import Progress

PAPERS: Final = {"003": paper_003.claims}


def reproduce(
    papers: Sequence[str], *, directory: Path, quick: bool, progress: Progress
) -> list[Claim]:
    """Run the papers named, or all, and write their claims into a directory."""
    for paper in papers:
        if paper not in PAPERS:
            raise UserError(f"paper {paper!r} is not here: choose from {', '.join(PAPERS)}")
    found: list[Claim] = []
    for paper in papers or list(PAPERS):
        found += PAPERS[paper](quick=quick, progress=progress)
    write_claims(found, directory)
    return found
