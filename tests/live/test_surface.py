"""Public names of a group, and modules that it does not load."""

from precedes.live import Config, Group
from tests.support.processes import printed

GROUP = [
    "batches", "blocked", "broadcast", "broadcast_many", "broadcast_nowait", "broadcast_threadsafe",
    "config", "counts", "credit", "error", "events", "finish", "happened_before", "is_finished",
    "is_over", "laggard", "lags", "leave", "member", "metrics", "metrics_address", "missing",
    "missing_links", "name_of", "on_message", "open", "stable", "tier", "view", "views",
]  # fmt: skip


def test_what_a_group_shows():
    group = Group.open(Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2")))
    assert [name for name in dir(group) if not name.startswith("_")] == GROUP


def test_a_group_costs_neither_pyarrow_nor_prometheus():
    code = "import sys, precedes.live.group; print(*sys.modules)"
    loaded = printed("-c", code).split()
    assert "precedes.trace.member_log" in loaded
    assert not {"pyarrow", "prometheus_client", "cryptography", "precedes.audit"} & set(loaded)
