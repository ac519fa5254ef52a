"""Options of the adversarial runs of ``mobile``, drawn from a seed."""

import random
from dataclasses import dataclass, replace

from precedes.protocols.mobile import messages

MS = 1_000_000


@dataclass(frozen=True)
class Options:
    """Options of a run, drawn from a seed, and printed when it fails."""

    seed: int
    hosts: int = 5
    stations: int = 4
    shape: str = "random"  # of the tree
    loss: float = 0.2
    duplication: float = 0.1
    late_ms: float = 50.0  # longest delay of a datagram
    wire_ms: tuple[float, float] = (1.0, 20.0)
    move_ms: tuple[float, float] = (50.0, 300.0)
    nowhere: float = 0.1  # how often a move leads out of reach
    crash_ms: float = 0.0  # mean time between crashes of a host; 0: none
    down_ms: tuple[float, float] = (5.0, 400.0)
    torn: float = 0.0  # share of calls of a machine in which it crashes half-way
    churn_ms: float = 0.0  # mean time between joins and leaves of a host; 0: none
    broadcast_ms: float = 150.0  # mean time between broadcasts of a host
    active_ms: float = 4000.0
    deaf: float = 0.0  # how often a move makes a host's datagrams, or those to it, get lost
    drift: float = 0.0  # how much faster or slower clocks run, at most
    settings: messages.Settings = messages.Settings()  # noqa: RUF009


def tree(rng, stations, shape):
    """Neighbours of each station, and the neighbour on the way to each other one."""
    neighbours = [[] for _ in range(stations)]
    for node in range(1, stations):
        parent = {"star": 0, "line": node - 1, "random": rng.randrange(node)}[shape]
        neighbours[node].append(parent)
        neighbours[parent].append(node)
    routes = [[-1] * stations for _ in range(stations)]
    for root in range(stations):
        stack = [root]
        seen = {root}
        while stack:
            node = stack.pop()
            for other in neighbours[node]:
                if other not in seen:
                    seen.add(other)
                    routes[other][root] = node
                    stack.append(other)
    return neighbours, routes


def draw(seed, **fixed):
    """The options of a run; the seed also draws which kinds of trouble there are."""
    rng = random.Random(f"mobile {seed}")
    stations = rng.choice((2, 3, 4, 6))
    move = rng.choice(((10, 60), (50, 300), (100, 400), (300, 1500)))
    settings = messages.Settings(
        window=rng.choice((2, 5, 150)),
        connect_ns=rng.choice((20, 60, 500)) * MS,
        ack_ns=rng.choice((20, 100, 500)) * MS,
        repeat_first_ns=rng.choice((100, 1000)) * MS,
        repeat_step_ns=rng.choice((20, 200)) * MS,
        repeat_least_ns=rng.choice((20, 200)) * MS,
        selective=rng.random() < 0.4,
        body_max_bytes=rng.choice((1, 1400)),
    )
    options = Options(
        seed=seed,
        hosts=rng.randint(2, 7),
        stations=stations,
        shape=rng.choice(("star", "line", "random")),
        loss=rng.choice((0.0, 0.1, 0.2, 0.3)),
        duplication=rng.choice((0.0, 0.1, 0.3)),
        late_ms=rng.choice((2.0, 100.0, 500.0, 1500.0)),
        wire_ms=rng.choice(((1, 3), (1, 20), (1, 60), (5, 200))),
        move_ms=move,
        nowhere=rng.choice((0.0, 0.1, 0.3)),
        crash_ms=rng.choice((0, 0, 300, 1000)),
        torn=rng.choice((0.0, 0.0, 0.01)),
        churn_ms=rng.choice((0, 0, 300, 1000)),
        broadcast_ms=rng.choice((60.0, 150.0, 400.0)),
        active_ms=rng.choice((1500.0, 3000.0)),
        settings=settings,
    )
    return replace(options, **fixed)


def leased(seed, **fixed):
    """Options of a run with leases, in which hosts fall silent for longer than they last."""
    rng = random.Random(f"lease {seed}")
    options = draw(seed, **fixed)
    settings = replace(
        options.settings,
        lease_ns=rng.choice((300, 800)) * MS,
        connect_ns=min(options.settings.connect_ns, 60 * MS),
        ack_ns=min(options.settings.ack_ns, 100 * MS),
    )
    return replace(
        options,
        settings=settings,
        drift=rng.choice((0.0, 0.07)),
        move_ms=rng.choice(((100, 400), (600, 1500), (1000, 2500))),
        nowhere=rng.choice((0.1, 0.4)),
        deaf=rng.choice((0.0, 0.5)),
        crash_ms=rng.choice((0, 1000)),
        down_ms=(5.0, 2000.0),
        loss=rng.choice((0.0, 0.1, 0.3)),
        active_ms=4000.0,
    )
