"""The matrix of versions: what it would run, and that it ends what takes too long."""

import os
import sys
import time

import pytest

from precedes.compiled import options
from tools import matrix


def test_it_knows_the_requirements_and_both_ends_of_numba():
    assert set(matrix.requirements()) == {"jinja2", "numpy", "numba", "pyarrow", "rich", "shtab"}
    minors = list(matrix.numba_minors())
    first, last = options.TESTED
    assert minors[0] == f"{first[0]}.{first[1]}" == matrix.requirements()["numba"]
    assert minors[-1] == f"{last[0]}.{last[1] - 1}"


def test_only_interpreters_that_the_package_supports(tmp_path):
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho 3 10\n")
    old.chmod(0o755)
    found = matrix.interpreters([old, tmp_path / "none"])
    assert min(found) >= matrix.FIRST_PYTHON
    assert sys.version_info[:2] in found
    assert old not in found.values()


def test_what_takes_too_long_is_ended_with_all_it_started(tmp_path):
    log = tmp_path / "log"
    command = ["/bin/sh", "-c", "echo $$; sleep 300 & sleep 300"]
    assert matrix.run(command, log, timeout_s=3) is None
    group = int(log.read_text().split()[0])
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    pytest.fail(f"process group {group} still runs")


@pytest.mark.parametrize("status", [0, 1])
def test_the_status_is_that_of_what_ran(tmp_path, status):
    assert (
        matrix.run([sys.executable, "-c", f"exit({status})"], tmp_path / "log", timeout_s=60)
        == status
    )


def test_pips_reason_is_reported():
    said = (
        "WARNING: x\nERROR: Could not find a version\nERROR: No matching distribution for numba\n"
    )
    assert matrix.last_error(said) == "No matching distribution for numba"
    assert matrix.last_error("killed") == "pip failed"
