"""`precedes --version`: correct, and printed without importing or starting anything."""

import importlib.metadata
import re
import sys

import pyarrow.parquet

import precedes
from precedes.cli.main import main
from precedes.provenance import java_version
from precedes.trace import read_metadata
from tests.support.commands import output, parsed, run
from tests.support.places import ROOT


def test_the_versions_are_those_that_are_installed(capsys):
    reported = parsed(capsys, "--version", "--json")
    for name in ("numpy", "numba", "llvmlite", "pyarrow", "pyspark"):
        assert reported[name] == importlib.metadata.version(name)
    assert reported["pyarrow"] == pyarrow.__version__
    assert reported["python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert reported["precedes"]["version"] == precedes.__version__


def test_text_for_people(capsys):
    reported = parsed(capsys, "--json", "--version")
    first, *lines = output(capsys, "--version").splitlines()
    made_by = reported.pop("precedes")
    assert first == f"precedes {made_by['version']}"
    reported["sources"] = made_by["sources"]
    expected = {name: value or "not installed" for name, value in reported.items()}
    assert dict(line.split(maxsplit=1) for line in lines) == expected


def test_the_digest_is_that_of_traces(tmp_path, capsys):
    line = "simulate vector --nodes 2 --messages 1 --interpreted --trace"
    assert main([*line.split(), str(tmp_path)]) == 0
    (trace,) = tmp_path.iterdir()
    capsys.readouterr()
    reported = parsed(capsys, "--version", "--json")["precedes"]
    written = read_metadata(trace)
    assert reported == {"version": written["version"], "sources": written["code_version"]}


def test_what_is_not_installed_is_said(capsys, monkeypatch):
    def version(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("precedes.provenance.importlib.metadata.version", version)
    monkeypatch.setattr("precedes.provenance.sources_digest", lambda: "0")
    assert re.search(r"^pyspark +not installed$", output(capsys, "--version"), re.MULTILINE)


def test_java_is_read_not_run(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java_version() is None
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.4"\n')
    (home / "bin/java").write_text("#!/bin/sh\nexit 1\n")
    (home / "bin/java").chmod(0o755)
    (tmp_path / "java").symlink_to(home / "bin/java")
    assert java_version() == "21.0.4"
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java_version() == "21.0.4"


def test_sources_that_were_never_installed_have_a_version():
    """One place says it, in the sources: no metadata of an installation is asked."""
    done = run("--version", env={"PYTHONPATH": str(ROOT / "src")}, cwd=ROOT / "tests")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"precedes {precedes.__version__}\n")
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert not re.search(r"^version\b", text, re.MULTILINE)


# Of version 1.2 of the format: those it requires, and others that it knows.
CITED = {"cff-version", "message", "title", "authors"}
CITABLE = CITED | {"type", "version", "license", "abstract", "keywords", "references"}


def test_the_citation_is_of_this_version():
    """Versions are quoted, or of three parts: YAML would read two as a number."""
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    found = dict(re.findall(r"^([a-z-]+): *(.*)$", text, re.MULTILINE))
    assert CITED <= found.keys() <= CITABLE
    assert found["cff-version"] == "1.2.0"
    assert found["type"] == "software"
    assert found["version"].strip('"') == precedes.__version__
    assert found["version"].startswith('"') or found["version"].count(".") >= 2
    assert f'license = "{found["license"]}"' in (ROOT / "pyproject.toml").read_text()
