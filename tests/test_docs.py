"""The pages are true: commands parse and print the shown output, paths and keys exist."""

import configparser
import contextlib
import csv
import dataclasses
import io
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from precedes import live
from precedes.cli.main import main
from precedes.cli.main import parse as parse_words
from precedes.cli.simulate import scenario_of
from precedes.live.net import security
from precedes.model import EventKind
from precedes.sim import Fault, Scenario, from_toml
from precedes.sim.scenario import NETWORK, TOP, WORKLOAD
from precedes.trace import SCHEMA, read_metadata
from tests.support.places import ROOT
from tools import tidy

PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
}
FOLDERS = ("bench", "docs", "examples", "experiments", "src", "tests", "tools")
# Longer runs are only parsed: their numbers were taken by hand with the command next to them.
DELIVERIES_MAX = 3_000_000


class Block(NamedTuple):
    """A fenced block, and the text between it and the one before."""

    language: str
    text: str
    lead: str


def blocks(page: str) -> list[Block]:
    """The fenced blocks of a page."""
    found, end = [], 0
    for match in re.finditer(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        found.append(Block(match[1], match[2], page[end : match.start()]))
        end = match.end()
    return found


def commands(text: str) -> list[str]:
    """The lines of a text that are commands of ours."""
    lines = (line.strip().removeprefix("# ").strip() for line in text.splitlines())
    return [line for line in lines if line.startswith("precedes ") and "..." not in line]


def shown(page: str) -> list[tuple[str, str | None]]:
    """The commands of a page, each with the output that is shown right after it, or None."""
    found: list[tuple[str, str | None]] = []
    single = False
    for block in blocks(page):
        if block.language == "text" and single and not block.lead.strip():
            found[-1] = (found[-1][0], block.text)
        lines = commands(block.text) if block.language == "sh" else []
        found += [(line, None) for line in lines]
        single = len(lines) == 1
    return found


def parse(line: str):
    return parse_words(shlex.split(line)[1:])


def is_cheap(line: str) -> bool:
    """Return whether a command takes a second or two once everything is compiled."""
    options = parse(line)
    if options.command != "simulate":
        return options.command in ("audit", "export", "protocols", "size")
    scenario = scenario_of(options)
    broadcasts = scenario.messages or scenario.rate * (scenario.duration_s or 0)
    return scenario.nodes * broadcasts <= DELIVERIES_MAX


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """An empty directory that looks like the repository, to run commands in."""
    for name in ("examples", "experiments"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def all_commands():
    for name, page in PAGES.items():
        yield from ((name, line) for line, _ in shown(page))
    inline = re.findall(r"`(precedes [^`]+ -[^`]+)`", PAGES["README.md"])
    yield from (("README.md", line) for line in inline)
    for path in [*ROOT.glob("experiments/*.toml"), *ROOT.glob("examples/*.py")]:
        name = path.relative_to(ROOT).as_posix()
        yield from ((name, line) for line in commands(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(("where", "line"), sorted(set(all_commands())))
def test_a_command_parses(where, line, workplace):
    options = parse(line)
    if options.command == "simulate":
        scenario_of(options)


def test_there_are_commands_with_output():
    """The twin of the tests around it: they would pass on pages they cannot read."""
    assert len(list(all_commands())) > 20
    assert sum(output is not None for page in PAGES.values() for _, output in shown(page)) > 10
    with pytest.raises(SystemExit):
        parse("precedes simulate --nods 5")


@pytest.mark.usefixtures("engine", "workplace")
@pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if any(output for _, output in shown(page))]
)
def test_a_command_prints_what_the_page_shows(name, capsys):
    for line, output in shown(PAGES[name]):
        if output is not None and is_cheap(line):
            status = main(shlex.split(line)[1:])
            assert status == (output.startswith("violated")), line
            assert lasting(capsys.readouterr().out) == lasting(output), line


def lasting(output: str) -> list[str]:
    """The lines of an output that do not depend on the machine."""
    return [line for line in output.splitlines() if line and not line.startswith("time ")]


def test_the_example_of_a_table():
    page = blocks(PAGES["docs/formats.md"])
    at = next(number for number, block in enumerate(page) if block.language == "python")
    code, output = page[at : at + 2]
    assert output.language == "text"
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code.text, "docs/formats.md", "exec"), {})
    assert out.getvalue() == output.text


def test_the_walk_through_quotes_the_example():
    page = PAGES["docs/adding-a-protocol.md"]
    chapters = page.split("\n# Chapter ")
    for chapter, name, least in zip(chapters[1:], ("plain", "broadcast"), (3, 6), strict=True):
        source = (ROOT / f"examples/fifo_{name}.py").read_text(encoding="utf-8")
        quoted = [block.text for block in blocks(chapter) if block.language == "python"]
        assert len(quoted) >= least
        for text in quoted:
            assert text in source
    number, condition = re.search(r"fifo_broadcast\.py:(\d+), (ahead > 1)", page).groups()
    assert source.splitlines()[int(number) - 1].strip() == f"if {condition}:"


FILES = {path.relative_to(ROOT).as_posix() for path in tidy.repository_files(ROOT)}


def lost_in(name: str, page: str) -> list[str]:
    """Links, folders, files and modules that a page names and that are not there."""
    folder = (ROOT / name).parent
    links = re.findall(r"\]\(([^)#]+)\)", page)
    lost = [link for link in links if "://" not in link and not (folder / link).exists()]
    paths = re.findall(rf"(?<![\w/.])(?:{'|'.join(FOLDERS)})/[\w./*-]*[\w/*]", page)
    lost += [path for path in paths if not any(ROOT.glob(path))]
    # The end of a path will do, where the text says what it is the end of.
    files = re.findall(r"(?<![\w/.])(?<!testing )\w[\w/]*\.py\b", page)
    lost += [file for file in files if not any(f"/{path}".endswith(f"/{file}") for path in FILES)]
    return lost + [name for name in re.findall(r"`(precedes\.[.\w]+)`", page) if not is_there(name)]


def is_there(name: str) -> bool:
    """Return whether a dotted name is a module, or a name in one."""
    module, _, last = name.rpartition(".")
    path, outer = ("src/" + part.replace(".", "/") for part in (name, module))
    if {f"{path}.py", f"{path}/__init__.py"} & FILES:
        return True
    files = {f"{outer}.py", f"{outer}/__init__.py"} & FILES
    return any(re.search(rf"\b{last}\b", (ROOT / file).read_text()) for file in files)


@pytest.mark.parametrize("name", PAGES)
def test_what_a_page_names_is_there(name):
    assert lost_in(name, PAGES[name]) == []


def test_what_is_not_there_is_found():
    page = "[a](../gone.md), docs/gone/, `sim/gone.py`, `precedes.sim.gone`; [b](live.md), `run.py`"
    lost = ["../gone.md", "docs/gone/", "sim/gone.py", "precedes.sim.gone"]
    assert lost_in("docs/README.md", page) == lost


def steps_not_in(protocol: str, page: str) -> list[str]:
    """Functions in a page's table of steps that neither its protocol nor a part has."""
    package = ROOT / "src/precedes"
    files = [*package.glob("parts/**/*.py"), *package.glob(f"protocols/{protocol}/*.py")]
    files += package.glob(f"protocols/{protocol}.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    table = re.search(r"^\| [^|]+ \| (?:function|where) \|\n(?:\|.*\n)+", page, re.MULTILINE)
    assert table, protocol
    cells = [row.split(" | ")[-1] for row in table[0].splitlines()]
    names = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    assert names, protocol
    functions = [name for name in names if not re.search(r"\.py$|^precedes\.", name)]
    return [
        name
        for name in functions
        if not re.search(rf"\b(?:def|class) {name.rpartition('.')[2]}\b", text)
    ]


@pytest.mark.parametrize("name", sorted(name for name in PAGES if "/protocols/" in name))
def test_the_steps_of_an_algorithm_are_in_its_protocol(name):
    protocol = name.rpartition("/")[2].removesuffix(".md")
    assert steps_not_in(protocol, PAGES[name]) == []


def test_a_step_that_is_nowhere_is_found():
    page = PAGES["docs/protocols/vector.md"].replace("`_deliver_held`", "`_forget_held`")
    assert steps_not_in("vector", page) == ["_forget_held"]


TOUR_FILES_MAX = 12


def wrong_in_tour(tour: str) -> list[str]:
    """Files of a tour that are not there or too many, and functions that none of them has."""
    files = re.findall(r"`(src/[\w/.]+)`", tour)
    found = [path for path in files if not (ROOT / path).is_file()]
    if len(set(files)) > TOUR_FILES_MAX:
        found.append(f"{len(set(files))} files")
    texts = "".join((ROOT / path).read_text(encoding="utf-8") for path in set(files) - set(found))
    functions = re.findall(r"`(\w+)`", tour)
    return [*found, *(name for name in functions if not re.search(rf"\b{name}\b", texts))]


def tours():
    """The tours of the index, by their titles."""
    sections = PAGES["docs/README.md"].split("\n## ")
    return {text.partition("\n")[0]: text for text in sections if "tour: " in text}


@pytest.mark.parametrize("title", tours())
def test_a_tour_is_short_and_true(title):
    assert tours()[title].count("`src/") > 5
    assert wrong_in_tour(tours()[title]) == []


def test_a_tour_that_is_long_or_wrong_is_found():
    tour, _ = tours().values()
    lost = wrong_in_tour(tour.replace("engine/oracle.py", "engine/lost.py"))
    assert lost == ["src/precedes/sim/engine/lost.py"]
    assert wrong_in_tour(tour + "`src/precedes/sim/run.py`") == ["13 files"]
    assert wrong_in_tour(tour + "`nowhere_defined`") == ["nowhere_defined"]


def test_the_architecture_fits_a_page():
    """A page that tries to say everything is read by nobody: a glossary has fifteen words."""
    page = PAGES["ARCHITECTURE.md"]
    assert len(page.splitlines()) <= 95
    glossary = re.findall(r"^\| (?!word|---)", page.partition("## Glossary")[2], re.MULTILINE)
    assert 10 <= len(glossary) <= 15


def test_the_index_has_every_page():
    linked = set(re.findall(r"\]\(([\w/.-]+\.md)\)", PAGES["docs/README.md"]))
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert pages - {"README.md"} - linked == set()


def wrong_figures(page: str, recorded: list[dict[str, str]]) -> list[str]:
    """Numbers in marked passages that no ratio of the named commit gives when rounded."""
    found = []
    passages = re.findall(r"<!-- figures of (\w+) -->(.*?)<!-- end of figures -->", page, re.DOTALL)
    for commit, text in passages:
        ratios = [1.0, *(float(row["ratio"]) for row in recorded if row["commit"] == commit)]
        for number in re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", text):
            digits = len(number.partition(".")[2])
            if number not in {f"{ratio:.{digits}f}" for ratio in ratios}:
                found.append(number)
    return found


def test_figures_are_those_of_recorded_runs():
    """Also a planted one is found."""
    with (ROOT / "bench/history.csv").open(encoding="utf-8", newline="") as file:
        recorded = list(csv.DictReader(file))
    marked = {name for name, page in PAGES.items() if "<!-- figures of " in page}
    assert marked >= {"docs/design.md", "docs/live.md"}
    for name in marked:
        assert wrong_figures(PAGES[name], recorded) == [], name
        planted = PAGES[name].replace("<!-- end of figures -->", "0.4321 <!-- end of figures -->")
        assert set(wrong_figures(planted, recorded)) == {"0.4321"}


def test_a_deployment_is_one_group(tmp_path):
    """The group file is valid, and its members are those of Compose and of the StatefulSet."""
    texts: dict[str, list[str]] = {}
    for block in blocks(PAGES["docs/deploy.md"]):
        texts.setdefault(block.language, []).append(block.text)
    path = tmp_path / "group.toml"
    path.write_text(texts["toml"][0])
    members = [f"orders-{i}" for i in range(3)]
    configs = [live.from_toml(path, member=name) for name in members]
    assert {config.names for config in configs} == {tuple(members)}
    addresses = [config.advertised for config in configs]
    (seed,) = configs[0].seeds
    for config, name in zip(configs, members, strict=True):
        files = security.key_files(Path("keys"), members)
        assert {Path(config.security.certificate), Path(config.security.key)} <= set(files), name
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(texts["ini"][0])
    assert unit["Service"]["ExecStart"].endswith(" service.py group.toml")
    lines = texts["dockerfile"][0].splitlines()
    assert {line.split()[0] for line in lines} <= {"FROM", "ENV", "COPY", "RUN", "WORKDIR", "CMD"}
    assert unit["Service"]["Restart"] == "on-failure", "an excluded member joins again"
    manifests = [texts["ini"][0], *texts["yaml"]]
    names = ("orders@.service", "compose.yaml", "kubernetes.yaml")
    folder = ROOT / "examples/deploy"
    assert manifests == [(folder / name).read_text(encoding="utf-8") for name in names]
    compose, (service, stateful, budget) = (
        list(yaml.safe_load_all(text)) for text in texts["yaml"]
    )
    services = compose[0]["services"].values()
    aliases = [one["networks"]["default"]["aliases"] for one in services]
    assert [[f"{alias}:7000" for alias in own] for own in aliases] == [[x, seed] for x in addresses]
    assert [one["environment"]["MEMBER"] for one in services] == members
    name, spec = stateful["metadata"]["name"], stateful["spec"]
    assert [f"{name}-{i}" for i in range(spec["replicas"])] == members
    assert [f"{member}.{spec['serviceName']}:7000" for member in members] == addresses
    assert f"{service['metadata']['name']}:7000" == seed
    (variable,) = spec["template"]["spec"]["containers"][0]["env"]
    assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    labels = spec["template"]["metadata"]["labels"]
    assert service["spec"]["selector"] == spec["selector"]["matchLabels"] == labels
    # Founders wait for each other, and find each other before they are ready.
    assert spec["podManagementPolicy"] == "Parallel"
    assert (service["spec"]["clusterIP"], service["spec"]["publishNotReadyAddresses"]) == (
        "None",
        True,
    )
    # A rollout waits for the vote of a member, and a member has the time to leave.
    assert spec["updateStrategy"]["type"] == "RollingUpdate"
    container = spec["template"]["spec"]["containers"][0]
    assert (
        f"http://{configs[0].metrics}/health" in container["readinessProbe"]["exec"]["command"][2]
    )
    assert "lifecycle" not in container
    grace_s = spec["template"]["spec"]["terminationGracePeriodSeconds"]
    stops_s = [int(one["stop_grace_period"].removesuffix("s")) for one in services]
    least_s = min(grace_s, int(unit["Service"]["TimeoutStopSec"]), *stops_s)
    assert least_s > configs[0].drain_s + configs[0].linger_s
    assert budget["kind"] == "PodDisruptionBudget"
    assert budget["spec"] == {"maxUnavailable": 1, "selector": spec["selector"]}


def test_the_scenario_file_of_the_page(tmp_path):
    """It has every key, and shows the defaults that it says it shows."""
    text = next(block.text for block in blocks(PAGES["docs/scenarios.md"]) if block[0] == "toml")
    path = tmp_path / "all.toml"
    path.write_text(text)
    table = tomllib.loads(text)
    assert {*TOP, "parameters", "workload", "network", "faults"} == set(table)
    assert set(WORKLOAD) == set(table["workload"])
    assert set(NETWORK) == set(table["network"])
    keys = {key for fault in table["faults"] for key in fault}
    assert keys == {item.name for item in dataclasses.fields(Fault)}
    scenario, least = from_toml(path), Scenario(protocol="vector", nodes=20)
    shown_as_default = {
        "seed",
        "oracle",
        "rate",
        "skew",
        "gap_ms",
        *NETWORK,
    }
    for name in shown_as_default:
        assert getattr(scenario, name) == getattr(least, name), name
    assert scenario.workload == least.workload


def names_in(page: str) -> set[str]:
    """Names in backticks on a page, without prefixes that end with a dot."""
    return {word.rpartition(".")[2] for word in re.findall(r"`([\w.]+)`", page)}


def test_the_page_says_which_protocol_writes_notes():
    page = PAGES["docs/trace-format.md"]
    folder = ROOT / "src/precedes/protocols"
    written = {
        (kind.lower(), path.relative_to(folder).with_suffix("").parts[0])
        for path in folder.rglob("*.py")
        for kind in re.findall(r"EventKind\.(\w+)", path.read_text(encoding="utf-8"))
    }
    assert len(written) >= 3
    for kind, protocol in written:
        row = re.search(rf"^\| `{kind}` \| (.*) \|$", page, re.MULTILINE)
        assert row, kind
        assert f"`{protocol}`" in row[1], kind


@pytest.mark.usefixtures("engine")
def test_every_key_is_explained(workplace, capsys):
    assert main(shlex.split("simulate unordered --nodes 9 --messages 90 --json --trace t")) == 0
    result = json.loads(capsys.readouterr().out)
    assert main(["audit", "t", "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    inner = [result["violations"], result["latency"], result["extra"], report["witnesses"][0]]
    inner.append(report["witnesses"][0]["steps"][0])
    keys = {key for table in (result, report, *inner) for key in table}
    assert keys - names_in(PAGES["docs/results.md"]) == set()
    columns = {*SCHEMA.names, *(kind.name.lower() for kind in EventKind)}
    columns |= set(read_metadata(result["trace"]))
    assert columns - names_in(PAGES["docs/trace-format.md"]) == set()
