"""Copies of the package's own files with a few words changed."""

from pathlib import Path

from precedes.protocols import registry

FOLDER = Path(registry.__file__).parent


def protocol(directory, name, *edits, rename="edited"):
    """A copy of a protocol's file with each (old, new) of ``edits`` made; returns its path."""
    text = (FOLDER / f"{name}.py").read_text()
    path = directory / f"{rename}.py"
    path.write_text(edit(text, *edits))
    return str(path)


def edit(text, *edits):
    """The text with each edit made; an edit that finds nothing, or two places, is a mistake."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the file"
        text = text.replace(old, new)
    return text
