"""Reproducing a paper on Spark."""

from precedes_papers import registry
from precedes_papers.outcome import counts, reproduce
from precedes_papers.registry import check
from precedes_papers.rules import EQUAL, HOLDS
from tests.support.small_paper import paper_module


def test_reproduce_runs_and_resumes(spark, tmp_path, monkeypatch):
    """A real run of a small paper: finished runs are used again, half of them at a time."""
    monkeypatch.setattr(registry, "papers", lambda: ("900",))
    module = paper_module()
    monkeypatch.setattr("precedes_papers.outcome.load", lambda n: check(module, number=n))
    master = spark.conf.get("spark.master")
    shares = []
    first = reproduce(["900", "900"], directory=tmp_path, master=master, progress=shares.append)
    assert [(o.paper, o.runs, o.claims[0].verdict) for o in first] == [("900", 2, EQUAL)]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert counts(first)[EQUAL] == 1
    assert counts(first)[HOLDS] == 0
    kept = sorted((tmp_path / "runs").glob("*/records/*.json"))
    assert len(kept) == 2
    kept[0].unlink()
    times = kept[1].stat().st_mtime_ns
    assert reproduce(["900"], directory=tmp_path, master=master) == first
    assert sorted((tmp_path / "runs").glob("*/records/*.json")) == kept
    assert kept[1].stat().st_mtime_ns == times
