"""Running experiments one after another in this process: small ones, and tests."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from precedes.compiled import sources_digest
from precedes.model import UserError
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.sim.run import simulate


def run_experiments(
    experiments: Sequence[Experiment],
    directory: Path,
    *,
    master: str | None = None,
    progress: Callable[[float], None] | None = None,
) -> dict[str, list[dict[str, Any]]]:
    """The results of every experiment by name, in the order of its scenarios.

    Each result is kept in ``directory`` and used again by the next call, as long as neither the
    scenario nor the sources of the package have changed.
    """
    if master is not None:
        raise UserError("experiments run in this process here: leave --master out")
    total = sum(len(experiment.scenarios) for experiment in experiments)
    done = 0
    found: dict[str, list[dict[str, Any]]] = {}
    for experiment in experiments:
        found[experiment.name] = []
        for scenario in experiment.scenarios:
            found[experiment.name].append(_result(scenario, directory))
            done += 1
            if progress is not None:
                progress(done / total)
    return found


def _result(scenario: Scenario, directory: Path) -> dict[str, Any]:
    text = json.dumps([sources_digest(), scenario.echo()], sort_keys=True)
    path = directory / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    try:
        if path.is_file():
            kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            return kept
        directory.mkdir(parents=True, exist_ok=True)
        result = simulate(scenario).as_dict()
        aside = path.with_suffix(f".tmp-{os.getpid()}")
        aside.write_text(json.dumps(result), encoding="utf-8")
        aside.replace(path)
    except OSError as error:
        raise UserError(f"cannot keep results in {directory}: {error.strerror}") from None
    # As read from the file, so that a run that is resumed gives what one in a single go gives.
    again: dict[str, Any] = json.loads(json.dumps(result))
    return again
