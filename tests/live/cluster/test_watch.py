"""The live page of a group: real processes, and a client that asks for its state over HTTP."""

import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from tests.support.browser import complaints
from tests.support.edited import protocol
from tests.support.view_screen import wait_for, words

pytestmark = pytest.mark.usefixtures("live")


class Watched:
    """``precedes cluster --watch`` as a process, and the address that it printed."""

    def __init__(self, *options):
        command = [sys.executable, "-m", "precedes.cli", "cluster", "--watch", "--json"]
        command += ["--interpreted", *map(str, options)]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True)
        self.url = None
        while self.url is None:
            line = self.process.stderr.readline()
            assert line, "it ended before it had a page"
            if "live page: " in line:
                self.url = line.split("live page: ")[1].strip()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def get(self, path=""):
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            return answer.headers["Content-Type"], answer.read()

    def states(self):
        """States until the final one, which an open page gets."""
        while True:
            state = json.loads(self.get("state")[1])
            yield state
            if state["is_final"]:
                return
            time.sleep(0.1)

    def found(self):
        out, _ = self.process.communicate(timeout=120)
        return json.loads(out)


# The first message of each sender waits for the second one: in every run, at every other member.
SWAPPED = (
    ("receive", "clocks.covers(clock, need)", "need[source] > 0", "source = host.source_of(...)"),
    (
        "receive",
        "state.held.add(here, entry % BY_ENTRY, slot, entry, need[entry])",
        "state.held.add(here, source % BY_ENTRY, slot, source, 1)",
        "source = host.source_of(...)",
    ),
    ("_deliver_held", "state.clock[here, source] > state.need[slot, source]", "False"),
)
GROUP = ("-n", 4, "--seconds", 3, "--rate", 80, "--evict-after", 3)


def test_faults_and_the_verdict_of_a_group(tmp_path):
    with Watched(*GROUP, "--faults", 7, "--trace", tmp_path) as watched:
        assert watched.url.startswith("http://127.0.0.1:")
        kind, page = watched.get()
        assert kind.startswith("text/html")
        assert b"https://" not in page
        with pytest.raises(urllib.error.HTTPError, match="404"):
            watched.get("else")
        *_, last = watched.states()
        found = watched.found()
    assert (last["verdict"], last["violations"], last["error"]) == ("held", 0, None)
    assert last["rows_judged"] == last["rows_read"] > 0
    assert sum(map(sum, last["rows"])) > 0
    assert len(last["rows"]) == 4
    expected = [(fault["kind"], tuple(fault["members"])) for fault in found["faults"]]
    assert expected
    assert [(fault["kind"], tuple(fault["members"])) for fault in last["faults"]] == expected
    assert all((one["until_s"] is None) == (one["kind"] == "kill") for one in last["faults"])


def test_a_planted_violation_is_on_the_page(tmp_path, browser):
    bad = protocol(tmp_path, "vector", *SWAPPED)
    with Watched(*GROUP, "--protocol", bad) as watched:
        browser.get(watched.url)
        wrong = "return document.getElementById('verdict').textContent === 'violated'"
        wait_for(browser, wrong, limit_s=120)
        sentences = browser.find_elements("css selector", "#witnesses li")
        assert "precedes" in sentences[0].text
        ended = "return /has ended/.test(document.getElementById('rate').textContent)"
        wait_for(browser, ended, limit_s=120)
        found = watched.found()
    assert found["verdict"] == "violated"
    assert f"{found['violations']:,} of" in words(browser, "counts")
    drawn = browser.execute_script(
        "const canvas = document.getElementById('lanes');"
        "const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);"
        "return data.some((value, k) => k % 4 === 3 && value > 0);"
    )
    assert drawn
    assert complaints(browser) == []
