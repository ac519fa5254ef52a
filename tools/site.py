"""Builds the pages as a site that is read from disk: `make docs`.

    python -m tools.site [OUT]

The pages are those of the repository, unchanged: they are copied below build/, with
the files that they link to, so that a link leads to the same place here and there. A warning is an
error, and so is a page that would load something from the network.
"""

import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
OURS = ("site.css", "iframe-worker.js")  # next to this file
LINK = re.compile(r"\]\(([^)\s]+)\)")
# Resources that a browser fetches by itself: by tag, the attributes that name them.
LOADED = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "video": ("src", "poster"),
}
# Links of a head that fetch nothing.
SAID = {"canonical", "next", "prev"}


def pages(root: Path) -> list[Path]:
    """The pages of a repository."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def stage(root: Path, folder: Path) -> None:
    """Copy the pages, and the files that they link to, with relative paths, to an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in OURS:
        shutil.copy(ROOT / "tools" / name, folder / name)
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        for path in [page, *_linked(text, page, root)]:
            place = folder / path.relative_to(root)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, place)


def _linked(text: str, page: Path, root: Path) -> list[Path]:
    """The files of the repository that a page links to."""
    found = []
    for link in LINK.findall(text):
        parts = urlsplit(link)
        path = (page.parent / unquote(parts.path)).resolve()
        if not parts.scheme and path.is_file() and path.is_relative_to(root.resolve()):
            found.append(path)
    return found


class _Loaded(HTMLParser):
    """The URLs that a page makes a browser fetch from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self._style = tag == "style"
        values = dict(attributes)
        if tag == "link" and values.get("rel") in SAID:
            return
        named = [values.get(name) or "" for name in LOADED.get(tag, ())]
        self.found += [value for value in named if _is_far(value)]
        self.found += _far_urls(values.get("style") or "")

    def handle_data(self, data: str) -> None:
        if self._style:
            self.found += _far_urls(data)


def _is_far(address: str) -> bool:
    return re.match(r"\s*(https?:)?//", address) is not None


def _far_urls(style: str) -> list[str]:
    """The URLs that a style loads from elsewhere."""
    named = re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", style)
    return [address for pair in named for address in pair if _is_far(address)]


def loaded_from_afar(site: Path) -> list[str]:
    """The pages and styles of a site that would load from the network, with the URLs."""
    found = []
    for path in sorted([*site.rglob("*.html"), *site.rglob("*.css")]):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".css":
            far = _far_urls(text)
        else:
            reader = _Loaded()
            reader.feed(text)
            far = reader.found
        found += [f"{path.relative_to(site)} loads {address}" for address in far]
    return found


def build(root: Path, out: Path) -> list[str]:
    """Build the site of a repository; return its errors, a line each."""
    staged = out.parent / f"{out.name}-pages"
    stage(root, staged)
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("docs_dir: build/pages", f"docs_dir: {staged}")
    settings = settings.replace("site_dir: build/site", f"site_dir: {out}")
    for name in ("src", "tools/doctests.py"):
        settings = settings.replace(f"[{name}]", f"[{ROOT / name}]")
    config = out.parent / f"{out.name}.yml"
    config.write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}  # of the theme, about its future
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        output = (done.stdout + done.stderr).splitlines()
        return [line for line in output if not line.startswith("INFO")]
    return loaded_from_afar(out)


def main(arguments: list[str]) -> int:
    """Build it; return 1 after errors, which are printed."""
    out = Path(arguments[0]) if arguments else ROOT / "build" / "site"
    out = out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    problems = build(ROOT, out)
    for line in problems:
        print(line, file=sys.stderr)
    if not problems:
        print(f"the site is {out / 'index.html'}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
