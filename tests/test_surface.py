"""What users may import: these names of these modules, and nothing else."""

import importlib

import pytest

PUBLIC = {
    "precedes": """
        Fault InternalError PeerError PrecedesError Result Scenario UserError
        from_arrow from_pandas load simulate
    """,
    "precedes.audit": """
        HELD Report Standing Step UNKNOWN VIOLATED Witness audit follow to_json to_text
    """,
    "precedes.live": """
        Batch Config Event Evicted Group GroupClosed GroupLost Message Missing Security SlowMember
        WouldBlock from_toml make_keys
    """,
    "precedes.pipeline": """
        Experiment Sweep audit_events audit_files audit_tables follow_stream from_file open_session
        open_stream open_tables read_events read_traces register_source run_experiments run_sweep
    """,
    "precedes.testing": """
        Breach Collector Conformance Failure Kind Observed assert_conforms check_agreement
        check_scenario conformance observe random_scenario
    """,
    "precedes.trace": """
        Dialect EVENTS FORMATS Found History SCHEMA SCHEMA_VERSION TraceWriter event_batches
        from_arrow from_pandas join load read_members read_metadata read_trace
    """,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_module_offers_these_names(name):
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    homes = getattr(module, "_HOMES", module.__all__)
    assert sorted(homes) == sorted(module.__all__), "not all that can be imported is listed"
    for public in module.__all__:
        assert getattr(module, public) is not None


def test_no_function_hides_a_module():
    """``precedes.audit`` is a module, whatever was imported before; its function is in there."""
    import precedes
    import precedes.audit

    assert precedes.audit.audit.__module__.startswith("precedes.audit.")
    for name in precedes.__all__:
        assert importlib.util.find_spec(f"precedes.{name}") is None
