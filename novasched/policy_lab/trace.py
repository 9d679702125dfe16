# SPDX-License-Identifier: Apache-2.0
"""Trace: hosts, flavors, and servers that come in batches and end; and its files.

A directory has ``trace.json``, and a ``part-1.jsonl.gz`` for each part. Its lines are
batches: a JSON list of second, flavor, and the seconds that each server lives, null if
it stays. Seconds below 0 are the warm-up, which is placed and not measured.
"""

from __future__ import annotations

import gzip
import hashlib
import heapq
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from novasched import errors
from novasched.policy_lab.results import FleetGroup
from novasched.runtime.typed_json import of_json, omitted_field, to_json

HEADER, PART = 'trace.json', 'part-{}.jsonl.gz'
_GROUP = re.compile(
    r'(?:(?P<count>\d+)x)?(?P<vcpus>\d+):(?P<ram_gb>\d+)(?::(?P<nodes>\d+))?'
)


@dataclass(frozen=True)
class TraceFlavor:
    """What servers of a flavor take."""

    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int = 0


class ServerBatch(NamedTuple):
    """Servers of one flavor that one request asks for."""

    at_s: float
    flavor: int  # place in the flavors of the trace
    lifetimes_s: Sequence[float | None]  # None: it stays
    request: Any = None  # RequestSpec, where the history has one


@dataclass(frozen=True)
class Trace:
    """Hosts and what is asked of them, in disjoint parts."""

    title: str
    hosts: Sequence[FleetGroup]
    flavors: Sequence[TraceFlavor]
    until_s: float  # what is measured begins at 0
    parts: Sequence[int]
    licence: str | None = omitted_field()
    unmodelled: Mapping[str, int] = field(default_factory=dict[str, int])


class Load(NamedTuple):
    """The largest load that a part offers at a time after second 0."""

    vcpus: int
    ram_mb: int


def write(
    directory: Path, trace: Trace, parts: Mapping[int, Iterable[ServerBatch]]
) -> None:
    """Write a trace; the same trace makes the same bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    for number, batches in parts.items():
        lines = (
            json.dumps(batch[:3], separators=(',', ':')) + '\n' for batch in batches
        )
        with (
            (directory / PART.format(number)).open('wb') as file,
            gzip.GzipFile('', 'wb', 6, file, mtime=0) as packed,
        ):
            packed.writelines(line.encode() for line in lines)
    text = json.dumps(to_json(trace), indent=1)
    (directory / HEADER).write_text(f'{text}\n', encoding='utf-8')


def read(directory: Path) -> Trace:
    """Read the header of a trace. Raises errors.OptionError."""
    try:
        text = (directory / HEADER).read_text(encoding='utf-8')
        return of_json(Trace, json.loads(text))
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as problem:
        raise _no_trace(directory, problem) from problem


def read_part(directory: Path, number: int) -> list[ServerBatch]:
    """Read the batches of a part. Raises errors.OptionError."""
    try:
        with gzip.open(directory / PART.format(number), 'rt', encoding='utf-8') as file:
            return [ServerBatch(*json.loads(line)) for line in file]
    except (OSError, EOFError, ValueError, TypeError) as problem:
        raise _no_trace(directory / PART.format(number), problem) from problem


def _no_trace(path: Path, problem: Exception) -> errors.OptionError:
    return errors.OptionError(str(path), f'no trace: {problem}', 'Import it again')


def digest(directory: Path) -> str:
    """Return a hash of all that a trace says. Raises errors.OptionError."""
    found = hashlib.sha256()
    for name in (HEADER, *map(PART.format, read(directory).parts)):
        try:
            found.update(name.encode() + b'\0' + (directory / name).read_bytes())
        except OSError as problem:
            raise _no_trace(directory / name, problem) from problem
    return found.hexdigest()[:16]


def offered(
    flavors: Sequence[TraceFlavor],
    batches: Iterable[ServerBatch],
    most: float = math.inf,
) -> Iterator[tuple[ServerBatch, Load]]:
    """Yield each batch, by time, with what runs once it has come, as if no server were
    refused. A batch that would bring the load above ``most`` vCPUs is left out."""
    ends: list[tuple[float, int]] = []
    vcpus = ram_mb = 0
    for batch in batches:
        while ends and ends[0][0] <= batch.at_s:
            flavor = flavors[heapq.heappop(ends)[1]]
            vcpus, ram_mb = vcpus - flavor.vcpus, ram_mb - flavor.ram_mb
        flavor, count = flavors[batch.flavor], len(batch.lifetimes_s)
        if vcpus + count * flavor.vcpus > most:
            continue
        vcpus, ram_mb = vcpus + count * flavor.vcpus, ram_mb + count * flavor.ram_mb
        for life_s in batch.lifetimes_s:
            if life_s is not None:
                heapq.heappush(ends, (batch.at_s + life_s, batch.flavor))
        yield batch, Load(vcpus, ram_mb)


def peak(flavors: Sequence[TraceFlavor], batches: Iterable[ServerBatch]) -> Load:
    """Return the largest load after second 0."""
    loads = [load for batch, load in offered(flavors, batches) if batch.at_s >= 0]
    vcpus = max((load.vcpus for load in loads), default=0)
    return Load(vcpus, max((load.ram_mb for load in loads), default=0))


def parse_hosts(text: str, load: Load) -> list[FleetGroup]:
    """Return the groups of ``24x40:96,24x64:256``: count, vCPUs and GB of RAM.

    ``48:144:2`` has two NUMA nodes. Without counts, ``48:144@95%``, there are as many
    of each as make the load 95 % of the scarcer resource. Raises errors.OptionError.
    """
    listed, _, percent = text.partition('@')
    groups = []
    for word in listed.split(','):
        matched = _GROUP.fullmatch(word.strip())
        if matched is None:
            raise _no_hosts(word)
        group = FleetGroup(
            count=int(matched['count'] or 0),
            vcpus=int(matched['vcpus']),
            ram_mb=int(matched['ram_gb']) * 1024,
            numa_nodes=int(matched['nodes'] or 0),
        )
        if not group.vcpus or not group.ram_mb or matched['nodes'] == '0':
            raise _no_hosts(word)
        groups.append(group)
    if len({group.numa_nodes > 0 for group in groups}) > 1:
        raise _no_hosts(text)  # servers ask for a node, or they do not
    if not percent:
        if not all(group.count for group in groups):
            raise _no_hosts(text)
        return groups
    try:
        share = float(percent.rstrip('%')) / 100.0
        if not 0.0 < share < math.inf or any(group.count for group in groups):
            raise ValueError
    except ValueError as problem:
        raise _no_hosts(text) from problem
    one = [replace(group, count=1) for group in groups]
    return scaled(one, math.ceil(bound(one, load) / share))


def _no_hosts(text: str) -> errors.OptionError:
    forms = 'Give <count>x<vcpus>:<GB>,..., or without counts <vcpus>:<GB>,...@95%'
    return errors.OptionError('--hosts', f'{text!r} are no hosts', forms)


def bound(hosts: Sequence[FleetGroup], load: Load) -> int:
    """Return how many hosts of such a mix a load needs, however it is placed."""
    count = sum(group.count for group in hosts)
    vcpus = sum(group.count * group.vcpus for group in hosts) / count
    ram_mb = sum(group.count * group.ram_mb for group in hosts) / count
    return math.ceil(max(load.vcpus / vcpus, load.ram_mb / ram_mb))


def scaled(hosts: Sequence[FleetGroup], count: int) -> list[FleetGroup]:
    """Return so many hosts in all, mixed alike."""
    whole, before, done = sum(group.count for group in hosts), 0, 0
    found = []
    for group in hosts:
        before += group.count
        until = round(count * before / whole)
        found.append(replace(group, count=until - done))
        done = until
    return found
