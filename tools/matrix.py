"""Runs tests at both ends of the versions of Python and of Numba that are supported.

    python tools/matrix.py [--all] [--quick] [--minutes N] [--python PATH ...] [--only TEXT]
                           [TEST ...]

Interpreters are this one, those named by ``--python``, and those of PATH, pyenv and uv from 3.11
on. Environments are below ``build/matrix``: the oldest interpreter with the lower bound of every
requirement, and the newest with the newest of everything; with ``--all`` also the oldest with the
newest and the newest with the oldest Numba that installs there. Unavailable cells are printed with
the reason and are not failures: the exit status is 1 only if tests failed, or took longer than they
may.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PLACE = ROOT / "build" / "matrix"
FIRST_PYTHON = (3, 11)
INSTALL_S = 1200

# All compiled code, and all that depends on NumPy and pyarrow.
TESTS = (
    "tests/compiled",
    "tests/test_contract.py",
    "tests/protocols",
    "tests/sim",
    "tests/live/member",
    "tests/trace",
    "tests/audit",
)
# Every protocol compiled, simulated and live, compared with its interpreted form.
QUICK = (
    "tests/compiled/test_options.py",
    "tests/compiled/test_pointers.py",
    "tests/test_contract.py",
    "tests/live/member/test_node.py",
)
# Prints versions: of the interpreter, and of the packages named as arguments.
VERSIONS = """
import importlib.metadata, platform, sys
print("python", platform.python_version(), end="")
for name in sys.argv[1:]:
    print(",", name, importlib.metadata.version(name), end="")
"""


class Cell(NamedTuple):
    """An interpreter, its requirements, and their name."""

    python: Path
    name: str
    pins: tuple[str, ...]


class Outcome(NamedTuple):
    """The outcome of a cell."""

    name: str
    versions: str
    result: str
    seconds: float
    failed: bool


def run(command: list[str], log: Path, *, timeout_s: float, **environment: str) -> int | None:
    """The exit status of a command whose output goes to a file; None if it took too long."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with log.open("a") as file:
        process = subprocess.Popen(
            command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=ROOT,
            env={**inherited, **environment}, start_new_session=True,
        )  # fmt: skip
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def interpreters(named: list[Path]) -> dict[tuple[int, ...], Path]:
    """Interpreters by version; of several of one minor version the first."""
    uv = Path.home() / ".local/share/uv/python"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    on_path = [shutil.which(f"python3.{minor}") for minor in range(FIRST_PYTHON[1], 30)]
    candidates = [
        *named,
        Path(sys.executable),
        *(Path(path) for path in on_path if path is not None),
        *sorted(pyenv.glob("3.*/bin/python3")),
        *sorted(uv.glob("*/bin/python3")),
    ]
    found: dict[tuple[int, ...], Path] = {}
    ask = "import sys, ensurepip, venv; print(*sys.version_info[:2])"
    for path in candidates:
        try:
            done = subprocess.run(
                [path, "-c", ask], capture_output=True, text=True, timeout=60, check=True
            )
        except (OSError, subprocess.SubprocessError):
            if path in named:
                print(f"{path} is not a Python with venv and ensurepip")
            continue
        version = tuple(map(int, done.stdout.split()))
        if version >= FIRST_PYTHON:
            found.setdefault(version, path)
    return dict(sorted(found.items()))


def requirements() -> dict[str, str]:
    """The requirements of the package, with their lower bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = (re.match(r"([\w-]+)>=([\d.]+)", text) for text in project["dependencies"])
    return {match[1]: match[2] for match in found if match is not None}


def numba_minors() -> Iterator[str]:
    """From the oldest version of Numba that is supported to the newest."""
    project = (ROOT / "pyproject.toml").read_text()
    match = re.search(r'"numba>=0\.(\d+),<0\.(\d+)"', project)
    assert match is not None
    yield from (f"0.{minor}" for minor in range(int(match[1]), int(match[2])))


def cells(found: dict[tuple[int, ...], Path], *, is_all: bool) -> Iterator[Cell]:
    """Both ends of Python with both ends of Numba; the two that are furthest apart come first."""
    versions = list(found)
    oldest, newest = versions[0], versions[-1]
    yield _oldest(found[oldest], oldest, bounds=requirements())
    yield Cell(found[newest], f"{_label(newest)}-newest", ())
    if is_all and oldest != newest:
        yield Cell(found[oldest], f"{_label(oldest)}-newest", ())
        yield _oldest(found[newest], newest, bounds={})


def _oldest(python: Path, version: tuple[int, ...], *, bounds: dict[str, str]) -> Cell:
    for minor in numba_minors():
        reason = why_not(python, minor)
        if reason is None:
            break
        print(f"numba {minor} cannot be had for Python {_label(version)}: {reason}")
    others = [f"{name}=={bound}.*" for name, bound in bounds.items() if name != "numba"]
    return Cell(python, f"{_label(version)}-oldest", (f"numba=={minor}.*", *others))


def _label(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def why_not(python: Path, minor: str) -> str | None:
    """Pip's reason why an interpreter cannot have a version of Numba without building it."""
    command = [python, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "-d", PLACE / "wheels", f"numba=={minor}.*"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    return None if done.returncode == 0 else last_error(done.stderr)


def last_error(said: str) -> str:
    """The last error in pip's output, on a line."""
    errors = re.findall(r"(?m)^ERROR: (.*)", said)
    return errors[-1][:160] if errors else "pip failed"


def install(cell: Cell, place: Path, log: Path) -> str | None:
    """Make the environment of a cell, or use an existing one; return why it is unavailable."""
    free = {*requirements(), "llvmlite"}
    pinned = (ROOT / "constraints.txt").read_text().split()
    limits = [line for line in pinned if line.partition("==")[0] not in free]
    wanted = "\n".join([str(cell.python), *limits, *cell.pins, ""])
    made = place / "made.txt"
    if made.exists() and made.read_text() == wanted:
        return None
    shutil.rmtree(place, ignore_errors=True)
    if run([str(cell.python), "-m", "venv", str(place)], log, timeout_s=INSTALL_S) != 0:
        return "no environment can be made"
    (place / "limits.txt").write_text("\n".join([*limits, ""]))
    command = [str(place / "bin/python"), "-m", "pip", "install", "-q", "--no-compile"]
    command += ["--disable-pip-version-check", "-c", str(place / "limits.txt")]
    command += ["-e", ".[dev,live,spark]", *cell.pins]
    status = run(command, log, timeout_s=INSTALL_S)
    if status != 0:
        return "it takes too long to install" if status is None else last_error(log.read_text())
    made.write_text(wanted)
    return None


def run_cell(cell: Cell, tests: tuple[str, ...], *, minutes: float) -> Outcome:
    """Install and test one cell."""
    place, log = PLACE / cell.name, PLACE / f"{cell.name}.log"
    log.unlink(missing_ok=True)
    began = time.monotonic()
    reason = install(cell, place, log)
    if reason is not None:
        seconds = time.monotonic() - began
        return Outcome(cell.name, " ".join(cell.pins), f"not had: {reason}", seconds, failed=False)
    python = str(place / "bin/python")
    ask = [python, "-c", VERSIONS, *requirements()]
    versions = subprocess.run(ask, capture_output=True, text=True, timeout=60, check=True)
    command = [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", *tests]
    cache = {"PRECEDES_CACHE": str(PLACE / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    status = run(command, log, timeout_s=60 * minutes, **cache)
    said = log.read_text().rstrip().rpartition("\n")[2]
    result = f"not done after {minutes:.0f} minutes" if status is None else said
    seconds = time.monotonic() - began
    return Outcome(cell.name, versions.stdout.strip(), result, seconds, failed=status != 0)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", type=Path, action="append", default=[])
    parser.add_argument("--all", action="store_true", help="all four environments")
    parser.add_argument("--quick", action="store_true", help="fewer tests")
    parser.add_argument("--minutes", type=float, default=90.0, help="at most, for each environment")
    parser.add_argument("--only", default="", help="environments whose name contains this")
    parser.add_argument("tests", nargs="*", help="what to run in place of all that matters")
    arguments = parser.parse_args()
    tests = tuple(arguments.tests) or (QUICK if arguments.quick else TESTS)
    PLACE.mkdir(parents=True, exist_ok=True)
    found = interpreters(arguments.python)
    for version, path in found.items():
        print(f"Python {_label(version)}: {path}")
    outcomes = []
    for cell in cells(found, is_all=arguments.all):
        if arguments.only in cell.name:
            print(f"running {cell.name}: build/matrix/{cell.name}.log", flush=True)
            outcomes.append(run_cell(cell, tests, minutes=arguments.minutes))
    print("\n| environment | versions | tests | minutes |\n| --- | --- | --- | --- |")
    for name, versions, result, seconds, _ in outcomes:
        print(f"| {name} | {versions} | {result} | {seconds / 60:.1f} |")
    return int(any(outcome.failed for outcome in outcomes))


def stop(number: int, _frame: object) -> None:
    """End at once, together with the running process."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, stop)
    sys.exit(main())
