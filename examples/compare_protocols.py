"""Two protocols and the negative control on one workload: the cost of causal order.

    python examples/compare_protocols.py

The same broadcasts and the same network for all three: only the protocol changes.
"""

from precedes import Scenario, simulate

SCENARIO = Scenario(protocol="vector", nodes=200, messages=2000, rate=100, delay="normal:100:20")


def main() -> None:
    print(f"{'protocol':<14}{'wrong deliveries':>18}{'waiting, ms':>13}{'bytes a packet':>16}")
    for protocol in ("unordered", "probabilistic", "vector"):
        result = simulate(SCENARIO.replace(protocol=protocol))
        waiting_ms = result.latency.delivery_mean - result.latency.reception_mean
        size_bytes = result.bytes_sent / result.packets
        wrong = result.violations.deliveries
        print(f"{protocol:<14}{wrong:>18,}{waiting_ms:>13.2f}{size_bytes:>16.0f}")


if __name__ == "__main__":
    main()
