"""Made-up rows of comparisons."""

from precedes.comparison.rows import Crash, Errors, Point, Row


def row(label, *, size=100.0, packets=1.0, latency=50.0, guarantee="causal", **changes):
    """A row that serves any load, with these costs."""
    violations = changes.pop("violations", 0)
    high = changes.pop("high", 4e-6 if violations == 0 else violations / 500_000)
    verdict = changes.pop("verdict", "violated" if violations else "held")
    values = {
        "label": label,
        "protocol": label,
        "parameters": {},
        "guarantee": guarantee,
        "runs": 5,
        "broadcasts": 10_000,
        "deliveries": 1_000_000,
        "lost": 0,
        "errors": Errors(verdict, violations, violations, 1_000_000, violations / 1e6, 0.0, high),
        "latency_p50_ms": latency / 2,
        "latency_p99_ms": latency,
        "wait_ms": 1.0,
        "bytes_per_delivery": size,
        "packets_per_delivery": packets,
        "largest_packet_bytes": 500,
        "pending_messages": 3,
        "pending_bytes": 3 * size,
        "cpu_us_per_delivery": 0.1,
        "crash": Crash(lost=0, due=1000, violations=0),
        "points": (Point(50, size / 2, packets, latency), Point(100, size, packets, latency)),
        "exponents": {
            "bytes_per_delivery": 1.0,
            "packets_per_delivery": 0.0,
            "latency_p99_ms": 0.0,
        },
        "histogram": ((10_000, 20_000, 900_000), (20_000, 50_000, 100_000)),
        "trace": None,
    }
    return Row(**{**values, **changes})
