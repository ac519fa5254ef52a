"""Protocols of other packages, found by their entry points."""

import json
import threading
from types import SimpleNamespace

import pytest

from precedes import registry
from precedes.protocols import unordered
from tests.support import edited
from tests.support.processes import python

SIMULATE = ("simulate", "their-own", "--nodes", "4", "--messages", "40", "--interpreted", "--json")


class Site:
    """A folder of installed packages, and commands that see it."""

    def __init__(self, folder):
        self.folder = folder

    def install(self, package, **entry_points):
        """Leave what pip leaves of a package that names protocols."""
        about = self.folder / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = [f"{name.replace('_', '-')} = {module}\n" for name, module in entry_points.items()]
        (about / "entry_points.txt").write_text("[precedes.protocols]\n" + "".join(lines))

    def run(self, *line):
        """The output of a Python process."""
        return python(*line, env={"PYTHONPATH": str(self.folder)})

    def command(self, *line):
        """The output of a command of this package."""
        return self.run("-m", "precedes.cli", *line)


@pytest.fixture
def site(tmp_path):
    """A package of somebody else with a protocol, whose size of a header is in another file."""
    package = tmp_path / "acme"
    (package / "causal").mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "header.py").write_text("BYTES = 8\n")
    edited.protocol(
        package / "causal",
        "unordered",
        ("message_bytes", "8", "BYTES"),
        ("", "", "from acme.header import BYTES"),
        rename="__init__",
    )
    site = Site(tmp_path)
    site.install("acme", their_own="acme.causal")
    return site


def test_a_protocol_of_another_package_is_one_of_ours(site):
    done = site.command("protocols", "--json")
    assert done.stderr == ""
    rows = {row["name"]: row for row in json.loads(done.stdout)["protocols"]}
    assert {**rows["unordered"], "name": "their-own"} == rows["their-own"]
    done = site.command("simulate", "their-on", *SIMULATE[2:])
    assert "did you mean 'their-own'?" in done.stderr
    done = site.command(*SIMULATE)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["protocol"], result["deliveries"]) == ("their-own", 120)


def test_all_files_of_its_package_are_its_sources(site):
    """So that an edit of any of them compiles again."""
    script = "from precedes.registry import load; print(*load('their-own').sources)"
    found = site.run("-c", script).stdout.split()
    package = site.folder / "acme"
    assert found[0] == str(package / "causal/__init__.py")
    assert set(found) == {str(path) for path in package.rglob("*.py")}


def test_our_names_stay_ours(site):
    site.install("other", vector="acme.causal")
    (line,) = site.run("-c", "from precedes.registry import load; print(load('vector').state)"
                       ).stdout.splitlines()  # fmt: skip
    assert line == "<class 'precedes.protocols.vector.State'>"


def test_a_name_that_two_packages_bring(site):
    site.install("other", their_own="acme.causal")
    done = site.command(*SIMULATE)
    assert done.returncode == 2
    assert "acme and other both bring a protocol 'their-own': uninstall one" in done.stderr


def test_a_package_that_does_not_work_leaves_the_others_alone(site):
    site.install("broken", absent="broken.module")
    done = site.command("protocols")
    assert done.returncode == 0
    assert "their-own" in done.stdout
    assert "absent" not in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("precedes: protocol 'absent' of broken cannot be imported: No module")
    done = site.command("simulate", "absent", "--nodes", "4", "--messages", "4")
    assert (done.returncode, done.stderr) == (2, f"{line}\n")


def test_an_allocate_that_does_not_return_is_refused():
    ended = threading.Event()

    def check(allocate_s):
        given = vars(unordered) | {"allocate": allocate}
        return registry.check(SimpleNamespace(**given), name="mine", allocate_s=allocate_s)

    def allocate(*given):
        ended.wait()
        return unordered.allocate(*given)

    with pytest.raises(registry.ContractError, match=r"allocate has not returned after 0\.05 s"):
        check(0.05)
    ended.set()
    assert check(60.0).name == "mine", "the twin, which returns"
