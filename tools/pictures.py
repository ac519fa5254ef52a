"""Draws the pictures of the pages by the commands next to them: `python -m tools.pictures`.

The small ones are the same bytes each time, which tests check. Those of the viewer are Debian's
chromium's renderings of pages; pixels differ with its version and fonts.
"""

import os
import re
import shlex
import tempfile
import time
from pathlib import Path

from precedes.cli.main import main
from precedes.viewer import write_view
from tests.support.browser import show, start

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/concepts.md", "docs/view.md")
COMMAND = re.compile(r"^(?: {4})?(precedes (?:simulate|view) .*--(?:trace|svg) .*)$", re.MULTILINE)
VIEWED = {
    "viewer.png": "traces/unordered-5-1-83ebbd.parquet",
    "shiviz.png": str(ROOT / "tests/viewer/logs/facebook.log"),
}
WIDTH, HEIGHT = 1180, 540
SETTLED_S = 1.0  # after the page has moved to its opening


def commands() -> list[str]:
    """The commands in the pages, each once."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    found = [line for text in texts for line in COMMAND.findall(text)]
    return [line for line in dict.fromkeys(found) if "docs/pictures" in line or "--trace" in line]


def draw() -> None:
    """The command."""
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        (work / "examples").symlink_to(ROOT / "examples")
        (work / "docs").symlink_to(ROOT / "docs")
        os.chdir(work)
        for line in commands():
            if main(shlex.split(line)[1:]) != 0:
                raise SystemExit(line)
        with start() as browser:
            for name, log in VIEWED.items():
                write_view(log, "page.html")
                show(browser, work / "page.html", width=WIDTH, height=HEIGHT)
                time.sleep(SETTLED_S)
                browser.save_screenshot(str(ROOT / "docs/pictures" / name))
        os.chdir(ROOT)


if __name__ == "__main__":
    draw()
