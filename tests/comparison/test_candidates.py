"""Candidates of a load with their parameters, and the reasons against others."""

import pytest

from precedes.comparison.candidates import candidates_of, stand_in
from precedes.comparison.load import load_of
from precedes.errors import UserError
from precedes.parts.sizing import delay_ms, size


def found(**values):
    run, out = candidates_of(load_of(**{"nodes": 100, "rate": 50, **values}))
    return {one.label: one for one in run}, {one.label: one.why for one in out}


def test_all_protocols_are_run_or_left_out_with_a_reason():
    run, out = found()
    assert {"vector", "vcube", "hashed", "dcs+hash", "unordered", "bundled"} <= set(run)
    assert "needs a radio" in out["mobile"]
    assert "needs a radio" in out["flooding"]
    assert "finds crashes" in out["failure_detector"]
    assert not set(run) & set(out)


def test_sizes_are_those_of_precedes_size():
    run, _ = found()
    for label, error in (("probabilistic", 1e-4), ("hashed", 1e-3)):
        expected = size(rate=50, nodes=100, error=error)
        assert run[label].parameters["entries"] == expected.entries
    assert run["dcs"].parameters["error"] == 1e-4
    assert run["dcs"].parameters["delay"] == "normal:100:20"
    assert run["dcs+hash"].parameters["error"] == 1e-3
    assert (run["dcs"].guarantee, run["dcs+hash"].guarantee) == ("probable", "causal")
    allowed, _ = found(error=1e-2)
    assert allowed["probabilistic"].parameters["entries"] == (
        size(rate=50, nodes=100, error=1e-2).entries
    )
    assert allowed["hashed"].parameters == run["hashed"].parameters


def test_a_clock_as_wide_as_the_group_is_left_out():
    _, out = found(nodes=20)
    expected = size(rate=50, nodes=20, error=1e-3).entries
    assert expected > 20
    assert f"takes {expected} entries, and vector's, which makes none, 20" in out["hashed"]
    run, _ = found(nodes=20, protocols=["hashed"])
    assert run["hashed"].parameters["entries"] == expected


@pytest.mark.parametrize(
    ("values", "label", "why"),
    [
        ({"loss": 0.01}, "vector", "lose nothing"),
        ({"duplication": 0.01}, "vcube", "repeat nothing"),
        ({"crashes": 2}, "hashed", "does not survive crashes"),
    ],
)
def test_what_breaks_an_assumption_is_left_out_unless_it_is_named(values, label, why):
    run, out = found(**values)
    assert label not in run
    assert why in out[label]
    run, out = found(**values, protocols=[label])
    assert label in run
    assert out == {}


@pytest.mark.parametrize(
    ("delay", "mean_ms", "deviation_ms"),
    [
        ("normal:100:20", 100, 20),
        ("constant:30", 30, 0.3),
        ("uniform:10:50", 30, 11.55),
        ("lognormal:40:0.2", 40.81, 8.24),
        ("lognormal:40:0.5", 45.33, 22.66),  # 24.2, cut to half of the mean
        ("exponential:10", 10, 5),
        ("loguniform:10:20", 14.43, 2.87),
        ("spiky:10:12", 10, 2),
    ],
)
def test_normal_delays_that_stand_in(delay, mean_ms, deviation_ms):
    mean, deviation = delay_ms(stand_in(delay))
    assert mean == pytest.approx(mean_ms, rel=1e-2)
    assert deviation == pytest.approx(deviation_ms, rel=1e-2)


def test_parameters_of_a_file(tmp_path):
    path = tmp_path / "load.toml"
    text = 'protocol = "probabilistic"\nnodes = 50\n[workload]\nrate = 30\n'
    path.write_text(text + "[parameters]\nentries = 9\n")
    run, _ = candidates_of(load_of(path))
    labels = {one.label: one for one in run}
    assert labels["probabilistic"].parameters["entries"] == 9
    assert "vector" in labels
    sweep = '[sweep]\nprotocols = ["probabilistic", "vector"]\nentries = [9, 12]\nseeds = [4, 7]\n'
    path.write_text(text + sweep)
    load = load_of(path)
    run, _ = candidates_of(load)
    assert load.seeds == (4, 7)
    assert [one.label for one in run] == [
        "probabilistic[entries=9]",
        "probabilistic[entries=12]",
        "vector",
    ]
    path.write_text(text + "[sweep]\nrate = [10, 20]\n")
    with pytest.raises(UserError, match="one load, and rate varies"):
        load_of(path)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"nodes": None}, "the load has no `nodes`"),
        ({"rate": None}, "the load has no `rate`"),
        ({"nodes": 1}, "at least 2 nodes"),
        ({"nodes": 20_000}, "up to 10,000 nodes"),
        ({"rate": 0}, "rate must be above 0"),
        ({"error": 1.0}, "error must be a share"),
        ({"seeds": 0}, "seeds is a count"),
        ({"crashes": 99}, "leave two nodes alive"),
        ({"delay": "gamma:1"}, "delay"),
        ({"protocols": []}, "name a protocol"),
        ({"protocols": ["vectr"]}, "did you mean 'vector'"),
        ({"messages": 10, "workload": "nothing"}, "workload"),
    ],
)
def test_mistakes_are_one_line(values, text):
    given = {"nodes": 100, "rate": 50, **values}
    with pytest.raises(UserError, match=text) as caught:
        candidates_of(
            load_of(**{name: value for name, value in given.items() if value is not None})
        )
    assert "\n" not in str(caught.value)
