"""What applications see of a group, and what they do not have to load for it."""

import subprocess
import sys

from precedes.live import Config, Group

GROUP = [
    "batches", "broadcast", "broadcast_many", "broadcast_nowait", "broadcast_threadsafe", "config",
    "counts", "credit", "error", "events", "finish", "happened_before", "is_finished", "is_over",
    "laggard", "lags", "member", "metrics", "metrics_address", "missing", "missing_links",
    "on_message", "open", "stable", "tier", "view",
]  # fmt: skip


def test_what_a_group_shows():
    group = Group.open(Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2")))
    assert [name for name in dir(group) if not name.startswith("_")] == GROUP


def test_a_group_costs_neither_pyarrow_nor_prometheus():
    code = "import sys, precedes.live.group; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "precedes.trace.member_log" in loaded
    assert not {"pyarrow", "prometheus_client", "cryptography", "precedes.audit"} & set(loaded)
