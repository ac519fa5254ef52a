"""Paths of files that tests read."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"  # real logs and graphs; tests that need them skip without
PROTOCOLS = ROOT / "tests" / "support" / "protocols"
BATCHES = str(PROTOCOLS / "batches.py")
