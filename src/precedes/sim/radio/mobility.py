"""Positions of stations and hosts: standing, walking, or from a file."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from precedes.contract.machines import RadioParameters
from precedes.errors import UserError

Floats = NDArray[np.float64]

MOBILITIES: Final = ("static", "waypoint", "roam", "pingpong", "file:PATH")
# Tries to find a point or a way within the cells before the last one is taken as it is.
TRIES_MAX: Final = 200
WAY_POINTS: Final = 16  # points of a way at which coverage is checked
POSITION_ROWS_MAX: Final = 10_000_000


def station_places(count: int, spacing_m: float) -> Floats:
    """The points of a triangular grid nearest to its origin, ring by ring (Figure 2 with 7)."""
    rings = math.ceil(math.sqrt(count)) + 1
    points = []
    for a in range(-rings, rings + 1):
        for b in range(-rings, rings + 1):
            x, y = spacing_m * (a + b / 2), spacing_m * b * math.sqrt(3) / 2
            points.append((round(math.hypot(x, y), 6), math.atan2(y, x) % (2 * math.pi), x, y))
    points.sort()
    return np.array([point[2:] for point in points[:count]])


def tree_of(places: Floats, kind: str) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
    """Neighbours of every station in the tree, and the next hop to every other."""
    count = len(places)
    neighbours: list[list[int]] = [[] for _ in range(count)]
    for station in range(1, count):
        parent = 0
        if kind == "line":
            parent = station - 1
        elif kind == "grid":
            # The nearest of those that are nearer to the first.
            away = np.hypot(*(places[:station] - places[station]).T)
            parent = int(np.argmin(away))
        neighbours[station].append(parent)
        neighbours[parent].append(station)
    routes = [[-1] * count for _ in range(count)]
    for root in range(count):
        stack = [root]
        while stack:
            station = stack.pop()
            for other in neighbours[station]:
                if other != root and routes[other][root] < 0:
                    routes[other][root] = station
                    stack.append(other)
    return [tuple(one) for one in neighbours], [tuple(one) for one in routes]


class Mobility:
    """Positions of hosts over time; ``advance`` moves them."""

    def __init__(
        self,
        parameters: RadioParameters,
        stations: Floats,
        hosts: int,
        generator: np.random.Generator,
    ) -> None:
        self.parameters = parameters
        self.stations = stations
        self.generator = generator
        self.standing: set[int] = set()  # hosts that stay where they are
        self.moves = parameters.mobility != "static"
        self.rows: list[Floats] = []
        kind, _, path = parameters.mobility.partition(":")
        if kind == "file" and path:
            self.rows = read_positions(Path(path), hosts)
            self.hosts = np.array([rows[0, 1:] for rows in self.rows])
        elif parameters.mobility in MOBILITIES[:-1]:
            self.hosts = np.array([self._covered_point() for _ in range(hosts)]).reshape(-1, 2)
        else:
            mobility = f"{parameters.mobility!r:.60}"
            raise UserError(f"mobility is one of {', '.join(MOBILITIES)}, not {mobility}")
        self.targets = self.hosts.copy()
        self.homes = np.zeros(hosts, np.int64)
        if kind == "pingpong":
            self._choose_pairs()

    def _covered_point(self) -> Floats:
        """A point uniform in the area that the cells cover."""
        while True:
            point = self._point_within(self.parameters.range_m)
            if self._is_covered(point[np.newaxis, :]):
                return point

    def _point_within(self, margin_m: float) -> Floats:
        """A point uniform in the box around the stations with this margin."""
        low, high = self.stations.min(axis=0), self.stations.max(axis=0)
        point: Floats = self.generator.uniform(low - margin_m, high + margin_m)
        return point

    def _is_covered(self, points: Floats) -> bool:
        away = np.hypot(*(points[:, np.newaxis, :] - self.stations).transpose(2, 0, 1))
        return bool((away.min(axis=1) <= self.parameters.range_m).all())

    def _choose_target(self, host: int) -> Floats:
        """Choose another point, by a way that does not leave the cells."""
        shares = np.linspace(0, 1, WAY_POINTS)[:, np.newaxis]
        target = self.hosts[host]
        for _ in range(TRIES_MAX):
            target = self._covered_point()
            if self._is_covered(self.hosts[host] + shares * (target - self.hosts[host])):
                break
        return target

    def _choose_pairs(self) -> None:
        """Let each host alternate between the two stations nearest to it."""
        away = distances(self.hosts, self.stations)
        nearest = np.argsort(away, axis=1, kind="stable")[:, :2]
        self.pairs = nearest if nearest.shape[1] == 2 else np.repeat(nearest, 2, axis=1)
        self.targets = self.stations[self.pairs[:, 1]].copy()

    def advance(self, now_s: float, step_s: float) -> None:
        """The positions at ``now_s``, ``step_s`` after the last ones."""
        if self.rows:
            for host, rows in enumerate(self.rows):
                for axis in (0, 1):
                    self.hosts[host, axis] = np.interp(now_s, rows[:, 0], rows[:, axis + 1])
            return
        if not self.moves:
            return
        reach_m = self.parameters.speed_m_per_s * step_s
        for host in range(len(self.hosts)):
            if host in self.standing:
                continue
            way = self.targets[host] - self.hosts[host]
            length_m = math.hypot(*way)
            if length_m > reach_m:
                self.hosts[host] += way * (reach_m / length_m)
            else:
                self.hosts[host] = self.targets[host]
                self.targets[host] = self._next_target(host)

    def _next_target(self, host: int) -> Floats:
        if self.parameters.mobility == "waypoint":
            return self._choose_target(host)
        if self.parameters.mobility == "roam":
            return self._point_within(2 * self.parameters.range_m)
        self.homes[host] ^= 1
        place: Floats = self.stations[self.pairs[host, 1 - self.homes[host]]]
        return place


def distances(points: Floats, others: Floats) -> Floats:
    """From each point to each other one."""
    away: Floats = np.hypot(
        points[:, :1] - others[np.newaxis, :, 0], points[:, 1:] - others[np.newaxis, :, 1]
    )
    return away


def read_positions(path: Path, hosts: int) -> list[Floats]:
    """Rows (time_s, x_m, y_m) of every host from a CSV file with host numbers from 0."""
    rows: list[list[tuple[float, float, float]]] = [[] for _ in range(hosts)]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            for number, row in enumerate(csv.reader(file), 1):
                if number == 1 and row[:1] == ["time_s"]:
                    continue
                if number > POSITION_ROWS_MAX:
                    raise UserError(f"{path} has more than {POSITION_ROWS_MAX:,} rows: shorten it")
                try:
                    time_s, x_m, y_m = float(row[0]), float(row[2]), float(row[3])
                    host = int(row[1])
                except (ValueError, IndexError):
                    text = (
                        f"{path}:{number}: a row is time_s,host,x_m,y_m, not {','.join(row)!r:.60}"
                    )
                    raise UserError(text) from None
                if not all(map(math.isfinite, (time_s, x_m, y_m))):
                    raise UserError(f"{path}:{number}: a position is not a finite number")
                if not 0 <= host < hosts:
                    raise UserError(f"{path}:{number}: host {host} is not one of 0..{hosts - 1}")
                if rows[host] and time_s < rows[host][-1][0]:
                    raise UserError(f"{path}:{number}: the rows of host {host} go back in time")
                rows[host].append((time_s, x_m, y_m))
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text (byte {error.start})") from None
    for host in range(hosts):
        if not rows[host]:
            raise UserError(f"{path} has no position of host {host}")
    return [np.array(one) for one in rows]
