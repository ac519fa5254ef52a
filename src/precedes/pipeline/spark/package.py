"""This package as an archive for executors, so that they run what the driver runs.

Spark unpacks an archive into a folder of the name given, and puts the folder that holds it first
on the path of modules. An archive of the package's inside, unpacked as ``precedes``, is therefore
what executors import, whatever else is installed there: as files, which digests of sources and
the cache of compiled code need, and a ``--py-files`` archive would not be.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from precedes import sources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Nothing of when or by whom it was made: the same sources are the same archive.
DATE: Final = (1980, 1, 1, 0, 0, 0)
MODE: Final = 0o644 << 16


def write_archive(path: Path) -> None:
    """Write what is in the package, compiled modules and pages aside, as a zip."""
    files = [file for file in sorted(sources.PACKAGE.rglob("*")) if _is_code(file)]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.relative_to(sources.PACKAGE).as_posix(), DATE)
            entry.external_attr = MODE
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def _is_code(file: Path) -> bool:
    is_shown = file.is_relative_to(sources.SHARE)
    return file.is_file() and not is_shown and "__pycache__" not in file.parts


def send(session: SparkSession, folder: Path) -> None:
    """Have the executors of a session import this package, from an archive made in this folder.

    The file is read for as long as the session lives.
    """
    path = folder / f"{sources.PACKAGE.name}-{sources.digest_of_runs()[:12]}.zip"
    write_archive(path)
    named = f"{path}#{sources.PACKAGE.name}"
    context = getattr(session, "sparkContext", None)
    if context is None:
        session.addArtifacts(named, archive=True)
    else:
        context.addArchive(named)
