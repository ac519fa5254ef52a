"""The command line: what it prints, how it fails, and what it leaves behind."""

import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from precedes.cli.main import main
from precedes_papers.registry import check
from tests.support import commands, edited
from tests.support.commands import fails, output, parsed
from tests.support.places import ROOT
from tests.support.signals import heed_interrupts
from tests.support.small_paper import paper_module

# The keys that users' scripts rely on.
SIMULATE_KEYS = """
    protocol nodes seed tier broadcasts deliveries packets messages_sent bytes_sent violations lost
    duplicates pending_max latency cpu_s wall_s extra
"""
AUDIT_KEYS = """
    verdict runs deliveries violations lost duplicates phantom unjudged skipped
    undelivered_at_end
"""
SMALL = ["--nodes", "5", "--messages", "40", "--rate", "1000"]
EXPORT = ["export", ROOT / "examples/chat.jsonl", "--to"]
SIZE = ["size", "--rate", "100", "--error", "1e-4", "--nodes", "2000"]


def test_protocols(capsys):
    assert main(["protocols"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for name, order in (("vector", "causal"), ("hashed", "causal"), ("unordered", "none")):
        assert re.search(rf" {name} [^=]*? guarantee: {order}; assumes reliable", text), name
    assert main(["protocols", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["protocols"]}
    assert {"vector", "probabilistic", "unordered"} <= set(rows)
    assert rows["probabilistic"]["parameters"][0]["name"] == "entries"


def test_reproduce_says_how_to_install_what_it_needs(tmp_path):
    """A module that cannot be imported stands in front of the real one."""
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark/__init__.py").write_text("raise ImportError")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = commands.run("reproduce", "--out", tmp_path / "out", env=environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'precedes[reproduce]'" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_simulate_and_audit(tmp_path, capsys):
    result = parsed(capsys, "simulate", "vector", *SMALL, "--trace", tmp_path, "--json")
    assert set(result) >= set(SIMULATE_KEYS.split())
    assert set(result["violations"]) == {"deliveries", "messages"}
    assert set(result["latency"]) == {"reception_mean", "delivery_mean", "p50", "p99"}
    assert result["deliveries"] == 160
    report = parsed(capsys, "audit", tmp_path, "--json")
    assert set(report) >= set(AUDIT_KEYS.split())
    assert (report["verdict"], report["deliveries"]) == ("held", 160)


def test_the_negative_control_is_convicted(tmp_path, capsys):
    arguments = [*SMALL[:3], "300", *SMALL[4:]]
    result = parsed(capsys, "simulate", "unordered", *arguments, "--trace", tmp_path, "--json")
    report = parsed(capsys, "audit", tmp_path, "--json", status=1)
    assert report["verdict"] == "violated"
    assert report["violations"] == result["violations"]["deliveries"] > 0
    text = output(capsys, "audit", tmp_path, status=1)
    assert text.startswith("violated")
    assert "precedes" in text


def test_an_audit_goes_on_in_its_work_folder(tmp_path, capsys):
    arguments = [*SMALL[:3], "300", *SMALL[4:]]
    log, work = str(tmp_path / "log"), tmp_path / "work"
    output(capsys, "simulate", "unordered", *arguments, "--trace", log)
    line = ["audit", log, "--witnesses", "2"]
    text = output(capsys, *line, status=1)
    assert text.count("  - ") == 2
    for more in ([], [], ["--fresh"]):
        assert (
            output(capsys, "audit", log, "--witnesses", "2", "--work", work, *more, status=1)
            == text
        )
    assert (work / "run-0" / "table").is_file()
    for wrong, said in [
        (["--work", str(work)], "was begun with other options: --fresh starts over"),
        (["--work", str(tmp_path)], "holds other files than an audit's"),
        (["--fresh"], "nothing to start over without --work"),
        (["--witnesses", "-1"], "is not a whole number"),
    ]:
        assert said in fails(capsys, "audit", log, *wrong)


def test_an_empty_log_is_unknown(tmp_path, capsys):
    log = tmp_path / "empty.jsonl"
    log.write_text("")
    assert parsed(capsys, "audit", log, "--json", status=3)["verdict"] == "unknown"


@pytest.mark.usefixtures("engine")
def test_a_network_outside_the_assumptions_is_said(capsys):
    assert main(["simulate", "probabilistic", *SMALL, "--duplication", "0.1", "--json"]) == 0
    assert "assumes" in capsys.readouterr().err
    assert main(["simulate", "vector", *SMALL, "--duplication", "0.1", "--json"]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["simulate", "nobody", *SMALL], "there is no protocol 'nobody': choose"),
        (["simulate", "vecotr", *SMALL], "did you mean 'vector'?"),
        (["simulte", "vector", *SMALL], "did you mean 'simulate'?"),
        (["simulate", "hashed", *SMALL, "--set", "entrys=9"], "did you mean 'entries'?"),
        (["simulate", "vector", *SMALL, "--workload", "possion"], "did you mean 'poisson'?"),
        (["simulate", "vector", *SMALL, "--delay", "lognromal:9:1"], "did you mean 'lognormal'?"),
        (["simulate", "vector", *SMALL, "--node", "9"], "did you mean '--nodes'?"),
        (["simulate", "vector", *SMALL, "--nope"], "see 'precedes simulate --help'"),
        (["simulate", "./nobody.py", *SMALL], "there is no protocol file"),
        (["simulate", "vector", *SMALL, "--set", "size=3"], "has no parameter 'size'"),
        (["simulate", "probabilistic", *SMALL, "--set", "entries=x"], "a whole number"),
        (["simulate", "probabilistic", *SMALL, "--set", "entries=0"], "at least 1"),
        (["simulate", "probabilistic", *SMALL, "--set", "entries"], "NAME=VALUE"),
        (["simulate", "vector", "--nodes", "1", "--messages", "5"], "at least 2 nodes"),
        (["simulate", "vector", "--nodes", "99999", "--messages", "5"], "at most"),
        (["simulate", "vector", "--nodes", "many"], "'many' is not a whole number"),
        (["simulate", "vector", "--nodes", "1e3"], "'1e3' is not a whole number"),
        (["simulate", "vector", *SMALL, "--loss", "some"], "'some' is not a number"),
        ([], "name a command, such as simulate; see 'precedes --help'"),
        (["-q"], "name a command"),
        (["-x"], "unrecognized arguments: -x"),
        (["--json"], "unrecognized arguments: --json"),
        (["export", "/none.jsonl", "--to", "csv"], "there is no log"),
        (["simulate", "vector", *SMALL, "--trace", __file__], "is a file: name a directory"),
        (["sweep", "x.toml", "--out", __file__], "is a file: name a directory"),
        (["cluster", "--trace", __file__], "is a file: name a directory"),
        (["keys", __file__, "-n", "2"], "is a file: name a directory"),
        (["examples", __file__], "is a file: name a directory"),
        (["spark", "worker", "here"], "'here' is not spark://HOST:PORT"),
        (["simulate", "vector", *SMALL, "--rate", "-3"], "rate must be above 0"),
        (["simulate", "vector", *SMALL, "--rate", "nan"], "takes a number"),
        (["simulate", "vector", *SMALL, "--rate", "1e300"], "between 1e-06 and 1e+09"),
        (["size", "--nodes", "9", "--error", "0.1", "--rate", "2e9"], "at most 1e+09"),
        (["simulate", "mobile", "--nodes", "3", "--messages", "5"], "none of the 5 broadcasts"),
        (["simulate", "vector", *SMALL, "--loss", "1.5"], "probability"),
        (["simulate", "vector", *SMALL, "--delay", "normal:1"], "is not understood"),
        (["simulate", "vector", *SMALL, "--delay", "matrix:/none"], "cannot read"),
        (["simulate", "vector", *SMALL, "--workload", "tide"], "is not understood"),
        (["simulate", "vector", "--nodes", "5"], "say how long"),
        (["simulate", "vector", *SMALL, "--packets"], "--trace"),
        (["simulate", "vector", *SMALL, "--no-such-option"], "unrecognized"),
        (["simulate"], "name a protocol"),
        (["simulate", "--scenario", "/none.toml"], "cannot read"),
        (["audit", "/none"], "there is no log"),
        (["node", "--member", "0", *2 * ["--address", "127.0.0.1:7000"]], "have one address"),
        (["keys", "/dev/null/keys", "-n", "2", "--days", "99999999"], "at most 36500 days"),
        (["keys", "/dev/null/keys", "-n", "2", "--days", "-1"], "a day or more"),
        (["keys", "/dev/null/keys", "-n", "2", "--name", "a b"], "letters, digits"),
        (["keys", "/dev/null/keys", "-n", "2", "--name", "a/b"], "letters, digits"),
        (["keys", "/dev/null/keys", "-n", "2", "--name", ""], "letters, digits"),
        (["node", "--member", "0"], "--address once for each member"),
        (["reproduce", "999", "--out", "/tmp/none"], "is not here"),
        ([*EXPORT, "csv", "--around-witness", "1"], "--around-witness is for shiviz and perfetto"),
        ([*EXPORT, "shiviz", "--rows", "3"], "name one with --around-witness"),
        ([*EXPORT, "shiviz", "--around-witness", "9"], "has no witness 9: there are 1"),
        ([*EXPORT, "csv", "--columns", "nod=x"], "--columns names 'nod' (did you mean 'node'?)"),
        ([*EXPORT, "csv", "--columns", "node"], "--columns takes OURS=THEIRS, not 'node'"),
        ([*EXPORT, "csv", "--kinds", "deliver=a,crash=a"], "'a' is deliver and crash"),
        ([*EXPORT, "csv", "--out", "/no/such/place"], "cannot write /no/such/place"),
        ([*EXPORT, "csv", "--json"], "add --out"),
        (["completion", "fish"], "choose from bash, zsh, tcsh"),
        (["--version", "simulate"], "arguments: simulate; see 'precedes --version --help'"),
        (["--version", "--jsn"], "did you mean '--json'?"),
        (["simulate", "--version"], "unrecognized arguments: --version"),
        (["docs", "formts"], "no page 'formts' (did you mean 'formats'?): 'precedes docs' lists"),
    ],
)
def test_mistakes_get_one_line(capsys, arguments, said):
    assert said in fails(capsys, *arguments)


def test_keys_that_are_there_stay(tmp_path, capsys):
    line = ["keys", str(tmp_path / "keys"), "-n", "2", "--name", "orders-2.eu"]
    assert main(line) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    capsys.readouterr()
    assert "replace it with --force" in fails(capsys, *line)
    assert {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()} == before
    assert main([*line, "--force"]) == 0
    assert all(path.read_bytes() != old for path, old in before.items())


HEAD = 'protocol = "vector"\nnodes = 3\n'


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        ("simulate --scenario", 'protocol = "vector"\nnodes = = 3\n', "line 2"),
        ("simulate --scenario", f"{HEAD}\n[network]\nspeed = 3\n", ":5: "),
        ("simulate --scenario", f"{HEAD}\n[network]\nspeed = 3\n", "'speed'; [network] has"),
        ("simulate --scenario", f"{HEAD}sede = 3\n", "did you mean 'seed'?"),
        ("simulate --scenario", f"{HEAD}[network]\nlos = 0.1\n", "did you mean 'loss'?"),
        ("simulate --scenario", f"{HEAD}[[faults]]\nkind = 'crsh'\n", "did you mean 'crash'?"),
        ("simulate --scenario", f"{HEAD}[[faults]]\nndoe = 1\n", "did you mean 'node'?"),
        ("sweep --out out", f"{HEAD}[sweep]\nrat = [1]\n", "did you mean 'rate'?"),
        ("node --member 0 --group", 'adresses = ["a:1", "b:1"]\n', "did you mean 'addresses'?"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_its_line(tmp_path, capsys, line, text, said):
    path = tmp_path / "file.toml"
    path.write_text(text)
    assert said in fails(capsys, *line.split(), path)


def test_an_unwritable_directory(tmp_path, capsys):
    blocked = tmp_path / "file"
    blocked.write_text("here")
    assert "cannot" in fails(capsys, "simulate", "vector", *SMALL, "--trace", blocked / "below")
    assert blocked.read_text() == "here"
    assert list(tmp_path.iterdir()) == [blocked]


def test_a_directory_that_may_not_be_read(tmp_path):
    def be_nobody_special():
        # Root may read everything, unless its next program may not.
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP

    (tmp_path / "logs" / "below").mkdir(parents=True)
    (tmp_path / "logs").chmod(0)
    try:
        for path in (tmp_path / "logs", tmp_path / "logs" / "below"):
            done = commands.run("audit", path, preexec_fn=be_nobody_special)
            assert (done.returncode, done.stdout) == (2, "")
            assert len(done.stderr.splitlines()) == 1
            assert str(path) in done.stderr
            assert "Permission denied" in done.stderr
    finally:
        (tmp_path / "logs").chmod(0o700)


@pytest.mark.usefixtures("engine")
def test_a_full_disk_leaves_nothing_behind(tmp_path):
    def limit():
        # A file larger than this fails as on a full disk, without a signal.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    large = ["--nodes", "20", "--messages", "2000", "--rate", "1000"]
    done = commands.run("simulate", "vector", *large, "--trace", tmp_path, preexec_fn=limit)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("engine")
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    large = ["--nodes", 100, "--messages", 2_000_000]
    line = commands.command("simulate", "vector", *large, "--trace", tmp_path)
    with subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    ) as process:
        deadline = time.monotonic() + 120
        while not any(tmp_path.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error
    assert error == "precedes: interrupted; nothing was left half-written\n"
    assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_quiet():
    reader, writer = os.pipe()
    os.close(reader)
    line = commands.command(*SIZE, "--json")
    done = subprocess.run(line, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def redirected(redirections, *arguments):
    """A command as a shell runs it."""
    line = commands.command(*arguments)
    script = f'exec "$@" {redirections}'
    return subprocess.run(
        ["sh", "-c", script, "sh", *line], capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("redirections", "arguments"),
    [
        ("> /dev/full", SIZE),
        ("> /dev/full", ["--help"]),
        ("> /dev/full", ["protocols", "--json"]),  # more than a buffer holds
        (">&-", SIZE),
        (">&- <&-", ["--version"]),
    ],
)
def test_output_that_cannot_be_written_is_no_verdict(redirections, arguments):
    done = redirected(redirections, *arguments)
    assert done.returncode == 2, done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert "standard output" in done.stderr


@pytest.mark.parametrize("redirections", ["2> /dev/full", "2>&-", "2>&- <&-"])
def test_errors_that_cannot_be_written_change_nothing(redirections):
    """Nor do they end up in what was asked for."""
    done = redirected(redirections, *SIZE)
    assert done.returncode == 0
    assert done.stdout == redirected("", *SIZE).stdout != ""
    wrong = redirected(redirections, *SIZE, "--entries", "40")
    assert (wrong.returncode, wrong.stdout) == (2, "")


def failing(directory, statement):
    """A protocol that fails when it broadcasts."""
    return edited.protocol(
        directory,
        "unordered",
        ("broadcast", "", statement),
        rename="mine",
    )


@pytest.mark.parametrize(
    "statement", ["raise KeyError('a\\nb')", "raise SystemExit(0)", "assert 0"]
)
def test_a_failure_that_nobody_foresaw_is_no_verdict(tmp_path, capsys, statement):
    line = ["simulate", failing(tmp_path, statement), *SMALL, "--interpreted"]
    assert main(line) == 3
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("precedes: this is a defect of precedes: ")
    assert len(told.err.splitlines()) == 1
    for debugged in (["--debug", *line], [*line, "--debug"]):
        assert main(debugged) == 3
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("Traceback")
        assert lines[-1] == told.err.rstrip()


@pytest.mark.usefixtures("engine")
def test_names_that_the_locale_cannot_write_are_escaped(tmp_path):
    log = tmp_path / "log.jsonl"
    rows = [("é", "broadcast", "one"), ("é", "broadcast", "two"), ("b", "deliver", "two")]
    text = [json.dumps({"node": node, "kind": event, "message": m}) for node, event, m in rows]
    log.write_text("\n".join([*text, text[-1].replace("two", "one")]))
    plain = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = commands.run("audit", log, env={**os.environ, **plain})
    assert done.returncode == 1
    assert done.stdout.startswith("violated")
    assert r"node \xe9 broadcast one" in done.stdout
    assert done.stderr == ""


@pytest.mark.gate
@pytest.mark.usefixtures("engine")
def test_reproduce_prints_one_screen_and_where_the_page_is(tmp_path, capsys, monkeypatch):
    module = paper_module()
    monkeypatch.setattr("precedes_papers.outcome.load", lambda n: check(module, number=n))
    out = tmp_path / "report"
    assert main(["reproduce", "900", "--full", "--out", str(out)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert lines[0].startswith("statements")
    assert lines[1].startswith("Doe 1999")
    assert lines[-1] == f"page: {out / 'index.html'}"
    assert lines[-2].startswith("3 runs (full), ")
    assert captured.err == ""
    assert "A paper" in (out / "index.html").read_text(encoding="utf-8")
    summary = (out / "summary.txt").read_text(encoding="utf-8")
    assert "  equal: Table 1, deliveries: published 20, measured 20\n" in summary
    with (out / "claims.csv").open() as file:
        row = "900,Table 1,deliveries,20,20,20,20,equal,,,equal,,table-1,deliveries,,,\n"
        assert file.readlines()[1] == row
    told = parsed(capsys, "reproduce", "900", "--full", "--out", out, "--json")
    (paper,) = told["papers"]
    assert (paper["paper"], paper["citation"], paper["runs"]) == ("900", "Doe 1999", 3)
    assert told["verdicts"] == paper["verdicts"]
    assert {verdict: count for verdict, count in told["verdicts"].items() if count} == {"equal": 1}
    for path in told["files"].values():
        assert Path(path).exists(), path
