"""The command line: what it prints, how it fails, and what it leaves behind."""

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from precedes.cli.main import main
from precedes.live import Security
from precedes.live.net.security import contexts
from precedes_papers.registry import check
from tests.support import commands, edited
from tests.support.commands import fails, output, parsed
from tests.support.places import ROOT
from tests.support.signals import enable_interrupts
from tests.support.small_paper import paper_module

# The keys that users' scripts rely on.
SIMULATE_KEYS = """
    protocol nodes seed tier broadcasts deliveries packets messages_sent bytes_sent violations lost
    duplicates pending_max latency cpu_s wall_s extra
"""
AUDIT_KEYS = """
    verdict runs deliveries violations lost duplicates phantom unjudged skipped
    undelivered_at_end
    fifo_violations
"""
SMALL = ["--nodes", "5", "--messages", "40", "--rate", "1000"]
NODE = ["node", "--member", "a", "--address", "127.0.0.1:7000"]
EXPORT = ["export", ROOT / "examples/chat.jsonl", "--to"]
SIZE = ["size", "--rate", "100", "--error", "1e-4", "--nodes", "2000"]


def test_protocols_are_a_table_and_one_of_them_its_parameters(capsys):
    head, *lines = output(capsys, "protocols").splitlines()
    assert head.split() == ["protocol", "order", "summary"]
    rows = {name: order for name, order, *_ in map(str.split, lines)}
    assert rows.items() >= {"vector": "causal", "dcs": "probable", "unordered": "none"}.items()
    assert len(rows) == len(lines) == 10
    text = output(capsys, "protocols", "hashed")
    assert re.search(r"\n  entries=\d+ .*entries", text)
    assert "precedes docs hashed\n" in text
    assert len(parsed(capsys, "protocols", "--json")["protocols"]) == 10
    (row,) = parsed(capsys, "protocols", "probabilistic", "--json")["protocols"]
    assert (row["name"], row["parameters"][0]["name"]) == ("probabilistic", "entries")


@pytest.mark.parametrize(
    ("line", "same"),
    [([], ["--help"]), (["help"], ["--help"]), (["help", "audit"], ["audit", "--help"])],
)
def test_help(capsys, line, same):
    assert output(capsys, *line) == output(capsys, *same) != ""


def test_a_run_has_a_size_and_a_length_if_nobody_names_one(capsys):
    result = parsed(capsys, "simulate", "vector", "--json")
    assert (result["nodes"], result["broadcasts"]) == (20, 1000)
    assert (
        parsed(capsys, "simulate", "vector", "--workload", "burst:2:3", "--json")["broadcasts"] == 6
    )


def test_broadcasts_that_did_not_happen_are_explained(capsys):
    text = output(capsys, "simulate", "mobile", "--nodes", "10", "--messages", "50")
    assert re.search(r"broadcasts +12  38 skipped: hosts had not joined \(within 1 s\)", text)
    assert "skipped" not in output(capsys, "simulate", "vector", *SMALL)


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
        (["--fresh"], "--fresh requires --work"),
        (["--witnesses", "-1"], "is not a whole number"),
    ]:
        assert said in fails(capsys, "audit", log, *wrong)


def test_an_empty_log_is_unknown(tmp_path, capsys):
    log = tmp_path / "empty.jsonl"
    log.write_text("")
    assert parsed(capsys, "audit", log, "--json", status=3)["verdict"] == "unknown"


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
        (["simulate", "probabilistic", *SMALL, "--set", "entries"], "NAME=VALUE"),
        (["simulate", "vector", "--nodes", "many"], "'many' is not a whole number"),
        (["simulate", "vector", *SMALL, "--loss", "some"], "'some' is not a number"),
        (["help", "simulte"], "did you mean 'simulate'?"),
        (["protocols", "vecotr"], "did you mean 'vector'?"),
        (["-x"], "unrecognized arguments: -x"),
        (["--json"], "unrecognized arguments: --json"),
        (["export", "/none.jsonl", "--to", "csv"], "there is no log"),
        (["simulate", "vector", *SMALL, "--trace", __file__], "is a file: name a directory"),
        (["keys", __file__, "-n", "2"], "is a file: name a directory"),
        (["spark", "worker", "here"], "'here' is not spark://HOST:PORT"),
        (["simulate", "vector", *SMALL, "--rate", "1e300"], "between 1e-06 and 1e+09"),
        (["simulate", "mobile", "--nodes", "3", "--messages", "5"], "none of the 5 broadcasts"),
        (["simulate", "vector", *SMALL, "--delay", "matrix:/none"], "cannot read"),
        (["compare", "--rate", "5"], "the load has no --nodes"),
        (["simulate", "vector", *SMALL, "--packets"], "--trace"),
        (["simulate"], "name a protocol"),
        (["simulate", "--scenario", "/none.toml"], "cannot read"),
        (["node", "--member", "0", *2 * ["--address", "127.0.0.1:7000"]], "have one address"),
        (["keys", "/dev/null/keys", "-n", "2", "--days", "99999999"], "at most 36500 days"),
        (["keys", "/dev/null/keys", "-n", "2", "--days", "-1"], "a day or more"),
        (["keys", "/dev/null/keys", "-n", "2", "--name", "a b"], "letters, digits"),
        (["keys", "/dev/null/keys", "-n", "2", "--name", "a/b"], "letters, digits"),
        (["size", "--nodes", "9", "--error", "0.1", "--rate", "2e9"], "at most 1e+09"),
        (["node", "--member", "0"], "--address once for each member"),
        (["node", "--member", "a", "--founders", "a,b"], "address is missing"),
        ([*NODE, "--founders", "b,c"], "there is no member a among the founders b, c"),
        ([*NODE, "--founders", "a,b c"], "letters, digits or ._-, not 'b c'"),
        ([*NODE, "--founders", "a,b,b"], "two members have the name b"),
        ([*NODE, "--founders", "3"], "founders is a count, of members PREFIX-0"),
        ([*NODE, "--founders", "a,b", "--seed", "orders"], "host:port, not 'orders'"),
        ([*NODE], "name the members of the group: founders, or addresses"),
        (["keys", "/dev/null/keys", "--names", "a,a"], "two members have the name a"),
        (["keys", "/dev/null/keys", "--names", "a/b"], "letters, digits or ._-, not 'a/b'"),
        (["keys", "/dev/null/keys", "--names", "a", "-n", "2"], "not allowed with"),
        (["keys", "/dev/null/keys"], "one of the arguments -n/--members --names is required"),
        (["reproduce", "999", "--out", "/tmp/none"], "is not here"),
        ([*EXPORT, "csv", "--around-witness", "1"], "--around-witness is for shiviz and perfetto"),
        ([*EXPORT, "shiviz", "--rows", "3"], "name one with --around-witness"),
        ([*EXPORT, "shiviz", "--around-witness", "9"], "has no witness 9: there are 1"),
        ([*EXPORT, "csv", "--columns", "nod=x"], "--columns names 'nod' (did you mean 'node'?)"),
        ([*EXPORT, "csv", "--columns", "node"], "--columns takes OURS=THEIRS, not 'node'"),
        ([*EXPORT, "csv", "--kinds", "deliver=a,crash=a"], "maps 'a' to deliver and crash"),
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


def test_keys_for_names(tmp_path, capsys):
    assert main(["keys", str(tmp_path), "--names", "ann,bob-0", "--json"]) == 0
    files = ["authority.pem"]
    files += [f"member-{name}.{kind}" for name in ("ann", "bob-0") for kind in ("pem", "key")]
    found = json.loads(capsys.readouterr().out)
    assert (found["members"], found["files"]) == (2, files)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)


def test_keys_are_added_later(tmp_path, capsys):
    """By the same authority, whose key is there if it was kept; nothing else changes."""
    directory = str(tmp_path / "keys")
    line = ["keys", directory, "--name", "orders", "--keep-authority", "--names"]
    assert main([*line, "a,b", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"][-1] == "authority.key"
    kept = tmp_path / "keys/authority.key"
    assert kept.stat().st_mode & 0o777 == 0o600
    before = {path: path.read_bytes() for path in (tmp_path / "keys").iterdir()}
    assert main(["keys", directory, "--names", "d", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["group"], found["files"]) == ("orders", ["member-d.pem", "member-d.key"])
    assert {path: path.read_bytes() for path in before} == before
    assert contexts(Security.in_directory(tmp_path / "keys", member="d")).server
    # Replaced under the same authority, or with another one.
    assert main(["keys", directory, "--names", "d", "--force"]) == 0
    assert kept.read_bytes() == before[kept]
    capsys.readouterr()
    said = fails(capsys, "keys", directory, "--names", "e", "--name", "books")
    assert "is of group 'orders', not books" in said
    assert not (tmp_path / "keys/member-e.pem").exists()
    assert main([*line, "a,b", "--force"]) == 0
    assert kept.read_bytes() != before[kept]
    capsys.readouterr()
    kept.write_text("nonsense")
    assert "its files are damaged" in fails(capsys, "keys", directory, "--names", "e")
    kept.unlink()
    said = fails(capsys, "keys", directory, "--names", "e")
    assert "has an authority without its key" in said
    assert "--force, and --keep-authority" in said


HEAD = 'protocol = "vector"\nnodes = 3\n'


@pytest.mark.parametrize(
    ("line", "text", "said"),
    [
        ("simulate --scenario", f"{HEAD}sede = 3\n", "did you mean 'seed'?"),
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


@pytest.mark.usefixtures("engine")
def test_an_interrupt_leaves_nothing_behind(tmp_path):
    large = ["--nodes", 100, "--messages", 2_000_000]
    line = commands.command("simulate", "vector", *large, "--trace", tmp_path)
    with subprocess.Popen(
        line, stderr=subprocess.PIPE, text=True, preexec_fn=enable_interrupts
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
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.startswith("precedes: this is a defect of precedes: ")
    assert len(reported.err.splitlines()) == 1
    for debugged in (["--debug", *line], [*line, "--debug"]):
        assert main(debugged) == 3
        lines = capsys.readouterr().err.splitlines()
        assert lines[0].startswith("Traceback")
        assert lines[-1] == reported.err.rstrip()


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
    reported = parsed(capsys, "reproduce", "900", "--full", "--out", out, "--json")
    (paper,) = reported["papers"]
    assert (paper["paper"], paper["citation"], paper["runs"]) == ("900", "Doe 1999", 3)
    assert reported["verdicts"] == paper["verdicts"]
    assert {verdict: count for verdict, count in reported["verdicts"].items() if count} == {
        "equal": 1
    }
    for path in reported["files"].values():
        assert Path(path).exists(), path
