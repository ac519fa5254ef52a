"""Copies of the package's own protocols with a few words changed."""

import shutil

from precedes import sources

FOLDER = sources.PACKAGE / "protocols"


def protocol(directory, name, *edits, rename="edited", part=None):
    """A copy of a protocol, a file or a folder, with each (old, new) made; returns its path.

    ``part`` names one of ``precedes.parts`` to copy too, to be edited like the rest.
    """
    source = FOLDER / name
    if part is None and not source.is_dir():
        path = directory / f"{rename}.py"
        path.write_text(edit(source.with_suffix(".py").read_text(), *edits))
        return str(path)
    path = directory / rename
    path.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    if source.is_dir():
        shutil.copytree(source, path, ignore=ignored, dirs_exist_ok=True)
    else:
        shutil.copy(source.with_suffix(".py"), path / "__init__.py")
    if part is not None:
        copied = sources.PACKAGE / "parts" / part
        if copied.is_dir():
            shutil.copytree(copied, path / part, ignore=ignored)
        else:
            shutil.copy(copied.with_suffix(".py"), path)
        for file in path.glob("*.py"):
            text = file.read_text().replace(f"precedes.parts.{part}", f".{part}")
            text = text.replace(f"from precedes.parts import {part}\n", f"from . import {part}\n")
            file.write_text(text)
    for old, new in edits:
        edit_folder(path, old, new)
    return str(path)


def edit_folder(path, old, new):
    """Make an edit in the one file of a folder in which it is possible."""
    files = [file for file in sorted(path.rglob("*.py")) if old in file.read_text()]
    assert len(files) == 1, f"{old!r} stands in {[file.name for file in files]}"
    files[0].write_text(edit(files[0].read_text(), (old, new)))


def edit(text, *edits):
    """The text with each edit made; an edit that finds nothing, or two places, is a mistake."""
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the file"
        text = text.replace(old, new)
    return text
