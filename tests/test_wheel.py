"""The wheel that users install, in an otherwise empty environment, outside of this clone."""

import importlib.metadata
import json
import os
import re
import shlex
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from precedes import compiled
from precedes.cli.docs import pages
from tests.support.places import ROOT
from tests.test_docs import PAGES, blocks, lasting, shown
from tests.test_requirements import EXTRAS
from tools import dist, tidy

pytestmark = pytest.mark.gate

APPLICATION = ROOT / "tests/support/application.py"
FIFO = "examples/fifo_broadcast.py"
TIMEOUT_S = 600  # Spark on a busy machine takes minutes to install


class Environment:
    """A virtual environment with the wheel and its dependencies, next to an empty directory."""

    def __init__(self, folder, wheel):
        self.home, self.place, self.bin = folder / "home", folder / "place", folder / "venv/bin"
        self.home.mkdir(parents=True)
        self.place.mkdir()
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", folder / "venv"],
            check=True,
            timeout=TIMEOUT_S,
        )
        # The versions that are tested here, whichever those are.
        self._constraints = folder / "constraints.txt"
        found = {(one.name, one.version) for one in importlib.metadata.distributions()}
        lines = [f"{name}=={version}" for name, version in found if name != "precedes"]
        self._constraints.write_text("\n".join(sorted(lines)))
        self.install(wheel)

    def install(self, what):
        """Have pip install something into the environment."""
        line = [sys.executable, "-m", "pip", "--python", self.bin / "python", "install", "-qq"]
        line += ["--disable-pip-version-check", "--no-compile", "-c", self._constraints]
        done = subprocess.run(
            [*line, what],
            cwd=self.place,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def run(self, program, *arguments, status=0):
        """Run a program of the environment in its directory; what it prints, else its complaint."""
        done = subprocess.run(
            [self.bin / program, *map(str, arguments)],
            cwd=self.place,
            env={
                "HOME": str(self.home),
                "PATH": f"{self.bin}:/usr/bin:/bin",
                "PRECEDES_CACHE": str(compiled.cache_root()),
                "COLUMNS": "100",
            },
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == status, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout or done.stderr

    def precedes(self, line, *, status=0):
        """Run a command of ours."""
        return self.run("precedes", *shlex.split(line), status=status)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Wheel and sdist of these sources."""
    return dist.make(ROOT, tmp_path_factory.mktemp("dist"), is_release=False)


@pytest.fixture(scope="module")
def wheel(made):
    """The wheel of these sources, which is also that of their sdist."""
    return made[0]


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The wheel without extras."""
    return Environment(tmp_path_factory.mktemp("installed"), wheel)


def test_the_wheel_holds_the_package_and_what_it_shows(wheel):
    shown_files = [*ROOT.glob("*.md"), ROOT / "LICENSE", ROOT / "CITATION.cff"]
    expected = {f"precedes/share/{path.name}" for path in shown_files}
    for path in tidy.repository_files(ROOT):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(("docs/", "examples/", "experiments/")):
            expected.add(f"precedes/share/{name}")
        elif name.startswith("src/"):
            expected.add(name.removeprefix("src/"))
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == expected


def test_the_sdist_is_the_repository(made):
    with tarfile.open(made[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    files = {path.relative_to(ROOT).as_posix() for path in tidy.repository_files(ROOT)}
    assert names - {"PKG-INFO"} == files - {"PKG-INFO"}


def test_what_was_never_committed_is_no_release(tmp_path):
    """And of what was, wheel and sdist are the same bytes however often they are built."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "init", "-q", clone], check=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "src/precedes/__init__.py"):
        (clone / name).parent.mkdir(parents=True, exist_ok=True)
        (clone / name).write_bytes((ROOT / name).read_bytes())
    given = clone / "pyproject.toml"
    kept, _ = re.subn(r"(?m)^\[tool\.hatch\.build[^]]*hooks[^]]*\][^[]*", "", given.read_text())
    given.write_text(kept)
    (clone / ".gitignore").write_text("__pycache__/\n")
    (clone / "src/precedes/__pycache__").mkdir()
    (clone / "src/precedes/__pycache__/stray.pyc").touch()
    subprocess.run(["git", "-C", clone, "add", "."], check=True)
    first = [path.read_bytes() for path in dist.make(clone, tmp_path / "1", is_release=True)]
    os.utime(clone / "README.md", (1, 1))
    (clone / "README.md").chmod(0o600)
    again = [path.read_bytes() for path in dist.make(clone, tmp_path / "2", is_release=True)]
    assert first == again
    (clone / "src/precedes/notes.txt").touch()
    with pytest.raises(dist.Refused, match=r"not in git: src/precedes/notes\.txt"):
        dist.make(clone, tmp_path / "2", is_release=True)
    assert sorted(path.read_bytes() for path in (tmp_path / "2").iterdir()) == sorted(first)


def test_an_sdist_that_gives_another_wheel_is_refused(tmp_path, monkeypatch):
    made = iter(range(9))

    def build(root, kind, directory):
        directory.mkdir()
        built = directory / f"precedes-0.{kind}"
        built.write_text(f"{next(made)}")
        return built

    monkeypatch.setattr(dist, "build", build)
    monkeypatch.setattr(dist, "unpack", lambda sdist, directory: directory)
    with pytest.raises(dist.Refused, match="gives another wheel"):
        dist.make(ROOT, tmp_path, is_release=False)
    assert list(tmp_path.iterdir()) == []


def test_the_package_is_that_of_the_environment(installed):
    code = "import precedes; print(precedes.__file__)"
    assert Path(installed.run("python", "-c", code)).is_relative_to(installed.bin.parent)
    for name in ("pytest", "pyspark", "tests"):
        assert "ModuleNotFoundError" in installed.run("python", "-c", f"import {name}", status=1)


def test_the_digest_is_that_of_the_clone(installed):
    """So compiled code, finished runs and traces of both are one."""
    reported = json.loads(installed.precedes("--version --json"))
    assert reported["precedes"]["sources"] == compiled.sources_digest()
    assert (reported["pyspark"], reported["numpy"]) == (None, importlib.metadata.version("numpy"))


def test_the_readme_from_top_to_bottom(installed):
    """The members of the live example as processes, then the commands whose output is shown."""
    code, output = blocks(PAGES["README.md"])[1:3]
    assert (code.language, output.language) == ("python", "text")
    installed.precedes("examples .")
    assert (installed.place / "examples/member.py").read_text().endswith(code.text)
    members = [
        subprocess.Popen(
            ["timeout", "60", installed.bin / "python", "examples/member.py", str(number)],
            cwd=installed.place,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    try:
        lines = [members[2].stdout.readline() for _ in output.text.splitlines()]
    finally:
        for member in members:
            member.terminate()  # `timeout` passes it on
            member.communicate()
    assert "".join(lines) == output.text
    commands = [(line, text) for line, text in shown(PAGES["README.md"]) if text is not None]
    assert "audit" in {shlex.split(line)[1] for line, _ in commands}
    for line, text in commands:
        printed = installed.precedes(line.partition(" ")[2], status=int("violated:" in text))
        assert lasting(printed) == lasting(text)


def test_the_quickstart_from_top_to_bottom(installed):
    """The group in one process word for word."""
    page = blocks(PAGES["docs/quickstart.md"])
    at = next(number for number, block in enumerate(page) if block.language == "python")
    (installed.place / "example.py").write_text(page[at].text)
    assert installed.run("python", "example.py") == page[at + 1].text


def test_every_page_and_every_link_is_there(installed):
    for name in ("index", "live", "vcube", "changelog"):
        assert installed.precedes(f"docs {name}") == pages()[name].read_text(encoding="utf-8")
    share = next(installed.bin.parent.rglob("precedes/share"))
    for path in share.rglob("*.md"):
        links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
        # Of code, links in a clone lead to what is installed two folders further up.
        places = [path.parent / x.replace("src/precedes", "..") for x in links if "://" not in x]
        assert [place for place in places if not place.exists()] == []


@pytest.fixture(scope="module")
def types(installed):
    """mypy --strict on files of a user, against the types in the wheel alone."""

    def check(*files):
        line = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary"]
        line += ["--config-file", os.devnull, "--cache-dir", installed.home / "mypy"]
        line += ["--python-executable", installed.bin / "python", *files]
        return subprocess.run(
            line, cwd=installed.place, capture_output=True, text=True, timeout=TIMEOUT_S
        ).stdout

    return check


def test_a_program_of_a_user_runs_and_is_typed(installed, types):
    text = APPLICATION.read_text(encoding="utf-8")
    (installed.place / "application.py").write_text(text)
    (installed.place / "protocol.py").write_text((ROOT / FIFO).read_text(encoding="utf-8"))
    assert types("application.py", "protocol.py") == ""
    (installed.place / "logs").mkdir()
    chat = ROOT / "examples/chat.jsonl"
    reported = installed.run("python", "application.py", "logs", chat)
    assert reported == "held violated 1 6 True 4 held\n"
    line = "simulate protocol.py --nodes 4 --messages 20 --interpreted --json"
    assert json.loads(installed.precedes(line))["deliveries"] == 60


def test_the_example_of_the_reference_is_typed(installed, types):
    page = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    (installed.place / "reference.py").write_text(example)
    assert types("reference.py") == ""
    # A file of its own: mypy takes one of the same size, written in the same second, for unchanged.
    (installed.place / "wrong.py").write_text(example.replace(".verdict", ".verdikt"))
    assert "[attr-defined]" in types("wrong.py")


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("messages=60", "messages='60'", "arg-type"),
        ("await group.broadcast(b", "await group.broadcast(", "arg-type"),
        (
            "right, wrong = judged(folder)",
            "right, wrong = judged(folder)[0].verdict",
            "attr-defined",
        ),
        ("check_agreement(seen)", "check_agreement(seen.result)", "arg-type"),
    ],
)
def test_a_mistake_of_types_is_found(installed, types, right, wrong, kind):
    """The twin: types that were lost in the wheel would be Any, and find nothing."""
    text = APPLICATION.read_text(encoding="utf-8")
    assert text.count(right) == 1
    (installed.place / "mistaken.py").write_text(text.replace(right, wrong))
    (line,) = (line for line in types("mistaken.py").splitlines() if ": error: " in line)
    assert line.endswith(f"[{kind}]")


def test_a_name_that_needs_an_extra_says_so(installed):
    code = "from precedes.pipeline import read_events"
    reported = installed.run("python", "-c", code, status=1).splitlines()[-1]
    assert reported.endswith("needs pyspark: pip install 'precedes[spark]'")


# What a command says, in one line, if the extra that it needs is not installed.
WITHOUT = {
    "sweep experiments/sweep.toml --out out --master local[2]": "spark",
    "audit examples/chat.jsonl --master local[1]": "spark",
    "spark master": "spark",
    "spark connect": "spark",
    "reproduce vcube --out out": "reproduce",
    "keys keys -n 3": "live",
    "cluster -n 2 --secure --seconds 1": "live",
    "node --member 0 --address 127.0.0.1:1 --address 127.0.0.1:2 --metrics 127.0.0.1:3": "live",
}


@pytest.mark.parametrize("line", WITHOUT)
def test_what_is_missing_is_named_with_its_extra(installed, line):
    installed.precedes("examples .")
    reported = installed.precedes(line, status=2)
    assert len(reported.splitlines()) == 1
    assert f"pip install 'precedes[{WITHOUT[line]}]'" in reported


def use_live(environment):
    assert "3 members" in environment.precedes("keys keys -n 3")
    assert environment.precedes("cluster -n 3 --secure --seconds 1").startswith("held")
    code = "from precedes.live import prometheus; import isal, uvloop"
    environment.run("python", "-c", code)


def use_spark(environment):
    reported = environment.precedes("audit examples/chat.jsonl --master local[1]", status=1)
    assert reported.startswith("violated: 1 of 4 deliveries")
    reported = environment.precedes("audit examples/chat.jsonl --master sc://127.0.0.1:1", status=2)
    assert "pip install 'precedes[connect]'" in reported


def use_connect(environment):
    """The twin: what was missing is there, and so the server is looked for."""
    reported = environment.precedes("audit examples/chat.jsonl --master sc://127.0.0.1:1", status=2)
    assert "Connection refused" in reported


def use_reproduce(environment):
    reported = environment.precedes("reproduce probabilistic --quick --out out")
    assert "index.html" in reported
    assert "<svg" in (environment.place / "out/index.html").read_text(encoding="utf-8")


USES = {
    "connect": use_connect,
    "live": use_live,
    "reproduce": use_reproduce,
    "spark": use_spark,
}


def test_each_extra_has_a_use():
    assert set(USES) == set(EXTRAS) - {"dev"}


@pytest.mark.swarm
@pytest.mark.parametrize("extra", USES)
def test_an_extra_brings_what_it_is_for(wheel, tmp_path, extra):
    """Each alone, installed as messages say it: what is there is not replaced."""
    environment = Environment(tmp_path, wheel)
    environment.install(f"precedes[{extra}]")
    environment.precedes("examples .")
    USES[extra](environment)
