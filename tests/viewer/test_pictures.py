"""Small pictures: what is in them, and how they look in a browser."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from precedes.sim import Scenario, simulate
from precedes.viewer import Asked, picture
from tests.support.browser import SCHEMES, complaints, overlapping, show, without_words
from tests.support.commands import output
from tests.support.places import ROOT

CHAT, WAITS = ROOT / "examples" / "chat.jsonl", ROOT / "examples" / "waits.jsonl"
SPACE = "{http://www.w3.org/2000/svg}"
PICTURES = {
    "docs/pictures/waits.svg": ["examples/waits.jsonl", "--around", "m2"],
    "docs/pictures/violated.svg": ["examples/chat.jsonl"],
}


def texts(drawn):
    """Everything that is written in a picture."""
    return ["".join(one.itertext()) for one in ElementTree.fromstring(drawn).iter(f"{SPACE}text")]


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_of_the_pages_are_what_the_command_draws(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    out = tmp_path / "picture.svg"
    output(capsys, "view", *PICTURES[name], "--svg", out)
    assert out.read_bytes() == (ROOT / name).read_bytes(), f"precedes view ... --svg {name}"


def test_a_violation():
    drawn = picture(CHAT)
    root = ElementTree.fromstring(drawn)
    words = texts(drawn)
    assert [word for word in words if word.startswith("node ")][:3] == [
        "node ann",
        "node bob",
        "node eve",
    ]
    assert "answer, too early" in words
    assert "question, too late" in words
    assert root.find(f"{SPACE}title").text == (
        "Out of causal order: node eve delivers answer too early"
    )
    assert root.find(f"{SPACE}desc").text.startswith("node eve delivered answer before question")
    assert " ".join(words[-2:]).endswith("node bob delivered question and then broadcast answer.")
    # By shape as well as by colour and words: a diamond with a cross in it.
    assert drawn.count('class="cross"') == 1
    assert drawn.count('class="sent"') == 2
    assert picture(CHAT) == drawn


def test_what_never_came(tmp_path):
    log = tmp_path / "log.jsonl"
    whole = CHAT.read_text().splitlines()
    kept = [line for line in whole if not ('"eve"' in line and '"question"' in line)]
    log.write_text("\n".join(kept))
    words = texts(picture(log))
    assert "question never delivered" in words
    assert not any("too late" in word for word in words)


def test_a_wait():
    drawn = picture(WAITS, Asked(around="m2"))
    words = texts(drawn)
    assert "m2 waits 35 ms" in words
    assert drawn.count('class="wait"') == 1
    assert any("for m1, which precedes it" in word for word in words)
    # By default, it shows the message that waited longest.
    assert picture(WAITS) == drawn


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """Pictures of many kinds, of long and strange names among them."""
    folder = tmp_path_factory.mktemp("pictures")
    for protocol in ("vector", "unordered"):
        scenario = Scenario(protocol=protocol, nodes=12, seed=3, messages=200)
        simulate(scenario, trace=folder / f"{protocol}.parquet", tier="interpreted")
    strange = folder / "strange.jsonl"
    text = CHAT.read_text().replace("question", "a rather long question & <more> of it, at length")
    strange.write_text(text.replace('"bob"', '"b\\u202eob\\u0007 of the accounts department"'))
    found = {
        "waits": picture(WAITS),
        "violated": picture(CHAT),
        "strange": picture(strange),
        "longest": picture(folder / "vector.parquet"),
        "plain": picture(folder / "unordered.parquet", Asked(around="3:2")),
    }
    for number in range(1, 6):
        asked = Asked(violation=number)
        found[f"violation-{number}"] = picture(folder / "unordered.parquet", asked)
    paths = []
    for name, text in found.items():
        paths.append(folder / f"{name}.svg")
        paths[-1].write_text(text, encoding="utf-8")
    return paths


@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_do_not_overlap(browser, drawn, scheme):
    grounds = set()
    for path in drawn:
        show(browser, path, scheme=scheme)
        assert complaints(browser) == [], path.name
        assert overlapping(browser, "text") == [], path.name
        assert without_words(browser) == [], path.name
        outside = browser.execute_script(
            """
            const all = document.documentElement.getBoundingClientRect();
            return [...document.querySelectorAll("text")]
              .filter((one) => one.getBoundingClientRect().right > all.right)
              .map((one) => one.textContent);
            """
        )
        assert outside == [], path.name
        script = "return getComputedStyle(document.querySelector('.back')).fill"
        grounds.add(browser.execute_script(script))
    (ground,) = grounds
    bright = sum(map(int, re.findall(r"\d+", ground))) > 3 * 128
    assert bright == (scheme == "light")
