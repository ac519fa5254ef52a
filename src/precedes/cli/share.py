"""Where the pages and examples are that come with the package: in a wheel, and in a clone."""

from __future__ import annotations

from pathlib import Path

from precedes import sources
from precedes.errors import UserError


def folder() -> Path:
    """A folder with README.md, docs/, examples/ and experiments/, as the repository has them."""
    repository = sources.PACKAGE.parents[1]
    for found in (sources.SHARE, repository):
        if (found / "docs" / "README.md").is_file():
            return found
    raise UserError(
        f"the pages and examples are not in {sources.PACKAGE}: install precedes from its wheel"
    )
