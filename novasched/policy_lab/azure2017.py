# SPDX-License-Identifier: Apache-2.0
"""Import of the VM arrivals of a public cloud, Azure Public Dataset V1 of 2017.

The file has rows ``t, event, vm, batch, flavor, vcpus, ram_mb, lifetime_s, censored``,
and starts with no server running. The warm-up makes the residents: batches of the
first whole days come again and again before second 0, with other life times. These are
drawn by Kaplan-Meier of batches of like flavor and size to 82 h, by a Pareto tail
of 0.6 beyond. Servers of a batch live about alike, in the file and in the warm-up.
"""

from __future__ import annotations

import bisect
import csv
import gzip
import math
import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from novasched import errors
from novasched.policy_lab.trace import (
    Load,
    ServerBatch,
    Trace,
    TraceFlavor,
    offered,
    parse_hosts,
    peak,
    write,
)

DAY_S = 86400.0
LONG_S = 6 * 3600.0
"""Servers that live longer come through all of the long warm-up."""
LONG_WARM_UP_S = 20 * DAY_S
TAIL_FROM_S, TAIL = 82 * 3600.0, 0.6
LIKE = 0.5
"""Standard deviation of the logarithm of life times within a batch."""
FEWEST = 100
"""Fewer servers of a flavor and size are drawn from all of the flavor, or from all."""
SIZES = (2, 5, 20)
"""ServerBatch sizes at which the next class of sizes begins."""
MOST_WARM_UP = 0.9
"""The warm-up stays below so much of the peak; what would exceed it is dropped."""
SEED = 1

LICENCE = (
    'Azure Public Dataset V1 (Microsoft, 2017; E. Cortez et al., "Resource Central", '
    'SOSP 2017), in batches by huaweicloud/trace_generation_rnn; Creative Commons '
    'Attribution 4.0 International. Changed: life times drawn within their bins, '
    'batches chosen by hash, a warm-up of repeated batches added before second 0.'
)


class _Arrival(NamedTuple):
    """Servers of one flavor in a batch of the file."""

    at_s: float
    batch: int
    flavor: int
    batch_size: int
    lifetimes_s: Sequence[float | None]


@dataclass(frozen=True)
class _AzureArrivals:
    flavors: Sequence[TraceFlavor]
    arrivals: Sequence[_Arrival]
    until_s: float


def import_azure2017(
    file: Path, directory: Path, hosts: str, part: str = '1/1', warm_up_s: float = 0.0
) -> Trace:
    """Make a trace of a file. ``hosts`` is as of parse_hosts(); ``part`` is ``1/8``, or
    ``1-6/8`` for six parts. Raises errors.OptionError."""
    numbers, count = _parts(part)
    found = _read(file)
    draw = LifetimeDraw(found.arrivals, found.until_s)
    parts = {}
    for number in numbers:
        mine = [a for a in found.arrivals if part_of(a.batch, count) == number]
        parts[number] = _with_warm_up(found, mine, draw, warm_up_s)
    peaks = [peak(found.flavors, batches) for batches in parts.values()]
    mean = Load(
        sum(each.vcpus for each in peaks) // len(peaks),
        sum(each.ram_mb for each in peaks) // len(peaks),
    )
    trace = Trace(
        title=f'azure2017 {file.name}, part {part}, warm-up {warm_up_s / DAY_S:g} d',
        hosts=tuple(parse_hosts(hosts, mean)),
        flavors=found.flavors,
        until_s=found.until_s,
        parts=tuple(numbers),
        licence=LICENCE,
    )
    write(directory, trace, parts)
    return trace


def part_of(batch: int, count: int) -> int:
    """Return the part, from 1, that a batch of the file belongs to."""
    return zlib.crc32(str(batch).encode()) % count + 1


def _parts(text: str) -> tuple[list[int], int]:
    chosen, _, count = text.partition('/')
    first, _, last = chosen.partition('-')
    try:
        numbers = list(range(int(first), int(last or first) + 1))
        if not numbers or numbers[0] < 1 or numbers[-1] > int(count):
            raise ValueError
        return numbers, int(count)
    except ValueError as problem:
        raise errors.OptionError(
            '--part', f'{text!r} is no part', 'Give 1/8, or 1-6/8 for six parts'
        ) from problem


def _read(path: Path) -> _AzureArrivals:
    """Read the servers of each batch, one arrival for each run of a flavor."""
    flavors: dict[str, TraceFlavor] = {}
    runs: list[tuple[float, int, str, list[float | None]]] = []
    sizes: dict[int, int] = {}
    last = 0.0
    try:
        with gzip.open(path, 'rt', encoding='utf-8') as file:
            for row in csv.DictReader(file):
                last = float(row['t'])
                if row['event'] != 'create':
                    continue
                batch, name = int(row['batch']), row['flavor']
                if name not in flavors:
                    amounts = int(row['vcpus']), int(row['ram_mb'])
                    flavors[name] = TraceFlavor(name, *amounts)
                if not runs or runs[-1][:3] != (last, batch, name):
                    runs.append((last, batch, name, []))
                lifetime = row['lifetime_s']
                runs[-1][3].append(float(lifetime) if lifetime else None)
                sizes[batch] = sizes.get(batch, 0) + 1
    except (OSError, EOFError, LookupError, ValueError) as problem:
        raise _other_file(path, repr(problem)) from problem
    if not runs:
        raise _other_file(path, 'it has no servers')
    start, names = runs[0][0], sorted(flavors)
    arrivals = [
        _Arrival(at_s - start, batch, names.index(name), sizes[batch], lifetimes)
        for at_s, batch, name, lifetimes in runs
    ]
    return _AzureArrivals([flavors[name] for name in names], arrivals, last - start)


def _other_file(path: Path, problem: str) -> errors.OptionError:
    remedy = 'Give a file with the columns that docs/reference/policy-lab.md names'
    return errors.OptionError(str(path), problem, remedy)


class LifetimeDraw:
    """Life times of new servers, by flavor and size of the batch."""

    def __init__(self, arrivals: Iterable[_Arrival], until_s: float) -> None:
        seen: dict[tuple[int, ...], list[tuple[float, bool]]] = {}
        for arrival in arrivals:
            for life_s in arrival.lifetimes_s:
                known = (
                    (until_s - arrival.at_s, False)
                    if life_s is None
                    else (life_s, True)
                )
                for key in _keys(arrival):
                    seen.setdefault(key, []).append(known)
        self._curves = {
            key: survival(lives)
            for key, lives in seen.items()
            if len(lives) >= FEWEST or not key
        }

    def lifetime_s(self, arrival: _Arrival, chance: float) -> float:
        """Return how long a server lives that outlives a share of others."""
        curve = next(c for k in _keys(arrival) if (c := self._curves.get(k)))
        return quantile_s(curve, chance)


def _keys(arrival: _Arrival) -> tuple[tuple[int, ...], ...]:
    size = bisect.bisect(SIZES, arrival.batch_size)
    return (arrival.flavor, size), (arrival.flavor,), ()


Curve = tuple[list[float], list[float]]
"""Life times, ascending, and the share of servers that has ended by then."""


def survival(lives: Iterable[tuple[float, bool]]) -> Curve:
    """Return the curve by Kaplan-Meier up to TAIL_FROM_S; the truth value says
    whether a life has ended."""
    ordered = sorted(lives, key=lambda life: (life[0], not life[1]))
    times, ended, alive, left = [], [], 1.0, len(ordered)
    for life_s, is_end in ordered:
        if life_s > TAIL_FROM_S:
            break
        if is_end:
            alive *= 1.0 - 1.0 / left
            times.append(life_s)
            ended.append(1.0 - alive)
        left -= 1
    return times, ended


def quantile_s(curve: Curve, chance: float) -> float:
    """Return the life time that a share of servers does not reach."""
    times, ended = curve
    place = bisect.bisect_left(ended, chance)
    if place < len(times):
        return times[place]
    alive = 1.0 - (ended[-1] if ended else 0.0)
    return TAIL_FROM_S * float(((1.0 - chance) / alive) ** (-1.0 / TAIL))


def _with_warm_up(
    file: _AzureArrivals,
    arrivals: Sequence[_Arrival],
    draw: LifetimeDraw,
    warm_up_s: float,
) -> list[ServerBatch]:
    """Return the batches of a part, with those before it."""
    window = [ServerBatch(a.at_s, a.flavor, a.lifetimes_s) for a in arrivals]
    if not warm_up_s:
        return window
    before = sorted(_repeated(file, arrivals, draw, warm_up_s), key=lambda b: b.at_s)
    both = [*before, *window]
    most = MOST_WARM_UP * peak(file.flavors, both).vcpus
    kept = [batch for batch, _ in offered(file.flavors, before, most)]
    return [*kept, *window]


def _repeated(
    file: _AzureArrivals,
    arrivals: Sequence[_Arrival],
    draw: LifetimeDraw,
    warm_up_s: float,
) -> Iterator[ServerBatch]:
    """Yield the batches of the first whole days, repeated before second 0."""
    days_s = max(math.floor(file.until_s / DAY_S) * DAY_S, min(file.until_s, DAY_S))
    for number in range(1, math.ceil(max(warm_up_s, LONG_WARM_UP_S) / days_s) + 1):
        for arrival in arrivals:
            at_s = arrival.at_s - number * days_s
            if arrival.at_s >= days_s or at_s < -LONG_WARM_UP_S:
                continue
            rng = random.Random(f'{SEED}:{arrival.batch}:{number}')
            chance = rng.random()
            base_s = draw.lifetime_s(arrival, chance)
            lives = [
                round(base_s * math.exp(rng.gauss(0.0, LIKE)), 1)
                for _ in arrival.lifetimes_s
            ]
            if at_s < -warm_up_s:
                lives = [life_s for life_s in lives if life_s > LONG_S]
            if lives:
                yield ServerBatch(round(at_s, 1), arrival.flavor, lives)
