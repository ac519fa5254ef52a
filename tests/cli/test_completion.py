"""Completion of commands: in a real bash, and by scripts that its shell can read."""

import shutil
import subprocess

import pytest

from precedes.cli.docs import SHELLS
from precedes.cli.main import main

BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMP_LINE="$*"
COMP_POINT=${#COMP_LINE}
_shtab_precedes "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def script(tmp_path, capsys):
    """The script of a shell, as a file."""

    def write(shell):
        assert main(["completion", shell]) == 0
        path = tmp_path / shell
        path.write_text(capsys.readouterr().out)
        return path

    return write


def test_bash_completes_commands_options_protocols_and_files(script, tmp_path):
    path = script("bash")
    (tmp_path / "logs.jsonl").touch()
    (tmp_path / "logs").mkdir()

    def completed(*words):
        line = ["bash", "-c", BASH, "bash", str(path), "precedes", *words]
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False
        )
        assert done.returncode == 0, done.stderr
        return set(done.stdout.split())

    assert completed("s") == {"simulate", "sweep", "size", "spark"}
    assert completed("spark", "w") == {"worker"}
    assert completed("docs", "tr") == {"trace-format"}
    assert {name.rstrip("/") for name in completed("examples", "lo")} == {"logs"}
    assert completed("simulate", "v") == {"vcube", "vector"}
    assert completed("cluster", "--protocol", "ha") == {"hashed"}
    assert completed("simulate", "--mes") == {"--messages"}
    assert {"logs.jsonl", "logs"} <= {name.rstrip("/") for name in completed("audit", "lo")}
    assert {name.rstrip("/") for name in completed("reproduce", "--out", "lo")} == {"logs"}


@pytest.mark.parametrize("shell", SHELLS)
def test_each_shell_has_a_script_that_knows_the_commands(script, shell):
    path = script(shell)
    text = path.read_text()
    for word in ("simulate", "reproduce", "vector"):
        assert word in text
    if shell != "tcsh" and shutil.which(shell):  # tcsh has no way to look without running
        subprocess.run([shell, "-n", path], check=True, timeout=60)
