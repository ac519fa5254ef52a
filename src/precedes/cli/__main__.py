"""``python -m precedes.cli`` is the command ``precedes``."""

from precedes.cli.main import run

run()
