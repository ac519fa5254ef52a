"""Builds wheel and sdist: `python -m tools.dist [DIR]`, by default into dist/.

The wheel is made from the sdist, which proves that the sdist is complete. It must equal the one
from the repository itself, byte for byte, and the sdist may contain only files that are in git.
Nothing is fetched, and earlier files of this package in DIR are replaced.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The same sources give the same bytes.
EPOCH_S = "1577836800"  # 2020-01-01, as good as any: zip files cannot hold times before 1980
MADE = frozenset({"PKG-INFO"})


class Refused(Exception):
    """The result of the build must not be published."""


def build(root: Path, kind: str, directory: Path) -> Path:
    """Build an sdist or a wheel of a folder of sources, with the installed tools."""
    directory.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", directory],
        cwd=root,
        env={"SOURCE_DATE_EPOCH": EPOCH_S, **os.environ},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise Refused(f"{kind} of {root}: {done.stderr.strip() or done.stdout.strip()}")
    (built,) = directory.iterdir()
    return built


def unpack(sdist: Path, directory: Path) -> Path:
    """The folder that is in an sdist."""
    with tarfile.open(sdist) as archive:
        # Without it Python 3.12 warns; before 3.11.4 there is none.
        safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(directory, **safely)
    (folder,) = directory.iterdir()
    return folder


def check_stray(folder: Path, root: Path) -> None:
    """Refuse an unpacked sdist with files that are not in git; without git none is known."""
    if not (root / ".git").exists():
        return
    command = ["git", "-C", str(root), "ls-files", "-z"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    known = {*listed.stdout.split("\0"), *MADE}
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    if names := sorted({path.as_posix() for path in found} - known):
        raise Refused(f"these are not in git: {', '.join(names)}")


def make(root: Path, directory: Path, *, is_release: bool) -> list[Path]:
    """Put wheel and sdist of a repository into a directory, if all checks pass."""
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory, prefix=".build-") as place:
        work = Path(place)
        sdist = build(root, "sdist", work / "sdist")
        folder = unpack(sdist, work / "unpacked")
        if is_release:
            check_stray(folder, root)
        wheel = build(folder, "wheel", work / "wheel")
        if wheel.read_bytes() != build(root, "wheel", work / "again").read_bytes():
            raise Refused("the sdist gives another wheel than the repository")
        for old in directory.glob("precedes-*"):
            old.unlink()
        return [path.replace(directory / path.name) for path in (wheel, sdist)]


def main(arguments: list[str]) -> int:
    """Build, and print the files with their digests."""
    directory = Path(arguments[0]) if arguments else ROOT / "dist"
    try:
        made = make(ROOT, directory, is_release=True)
    except Refused as error:
        print(f"dist: {error}", file=sys.stderr)
        return 1
    for path in made:
        content = path.read_bytes()
        print(f"{hashlib.sha256(content).hexdigest()}  {path}  {len(content):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
