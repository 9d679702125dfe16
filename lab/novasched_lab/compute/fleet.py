# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet, as a TOML file describes them.

::

    seed = 1

    [[hosts]]
    name = "node-{:03}"     # with a place for a number where count is given
    count = 20
    cell = "cell1"          # else that of [database] connection
    zone = "az1"
    vcpus = 32
    memory_mb = 131072
    disk_gb = 2000
    numa_nodes = 2
    dedicated_cpus = "0-7,16-23"
    pages = {1048576 = 16}  # KiB = how many of them on each NUMA node
    traits = ["HW_CPU_X86_AVX2"]

    [[hosts.devices]]
    vendor_id = "15b3"
    product_id = "1018"
    count = 8
    numa_node = 0

    [[rules]]
    outcome = "refuse"
    probability = 0.05
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from novasched import errors
from novasched.resources.cpu import cpus_in
from novasched_lab.compute.fault_rules import REFUSE, FaultRule
from novasched_lab.host_inventory import Devices, SimulatedHost

OPTION = '--fleet'
MOST_HOSTS = 10000
KINDS = ('type-PCI', 'type-PF', 'type-VF', 'vdpa')

T = TypeVar('T')


@dataclass(frozen=True)
class Fleet:
    """All hosts of a file, and their faults; the same ``seed``, the same faults."""

    hosts: tuple[SimulatedHost, ...]
    rules: tuple[FaultRule, ...] = ()
    seed: int = 0


def read(path: str | Path) -> Fleet:
    """Read a fleet; raises errors.OptionError for a file that makes no sense."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except (OSError, ValueError) as problem:
        raise _wrong(f'{path}: {problem}') from problem
    return fleet_of(content)


def fleet_of(content: Mapping[str, Any]) -> Fleet:
    """Make a fleet of what a file says; see read()."""
    hosts, rules, seed = _parts(content, 'the file', 'hosts', 'rules', 'seed')
    made = tuple(host for entry in hosts or () for host in _hosts(entry))
    names = [host.name for host in made]
    if not names or len(set(names)) < len(names):
        raise _wrong('it has no hosts, or two of one name')
    return Fleet(made, tuple(_rule(rule) for rule in rules or ()), int(seed or 0))


def _hosts(entry: Any) -> Iterator[SimulatedHost]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get('name'), str):
        raise _wrong('a host has no name')
    name, count = entry['name'], entry.get('count')
    rest = {key: value for key, value in entry.items() if key not in ('name', 'count')}
    rest['devices'] = tuple(
        _made(Devices, f'a device of {name}', devices)
        for devices in rest.get('devices', ())
    )
    host = _made(SimulatedHost, f'host {name}', {'name': name, **rest})
    _check(host)
    if count is None:
        yield host
        return
    if not isinstance(count, int) or not 0 < count <= MOST_HOSTS:
        raise _wrong(f'host {name}: count is not from 1 to {MOST_HOSTS}')
    for number in range(1, count + 1):
        try:
            yield dataclasses.replace(host, name=name.format(number))
        except (LookupError, ValueError) as problem:
            raise _wrong(f'host {name}: no place for a number') from problem


def _rule(entry: Any) -> FaultRule:
    rule = _made(FaultRule, 'a rule', entry)
    if rule.outcome != REFUSE or not 0 <= rule.probability <= 1:
        raise _wrong('a rule: outcome is not refuse, or its probability not 0 to 1')
    return rule


def _made(kind: type[T], name: str, entry: Any) -> T:
    """Make a dataclass of a table of the file."""
    if not isinstance(entry, Mapping):
        raise _wrong(f'{name} is no table')
    known = {each.name: each for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(entry.keys() - known.keys()):
        raise _wrong(f'{name}: unknown {", ".join(unknown)}')
    values = {key: _value(f'{name}: {key}', key, value) for key, value in entry.items()}
    for key, value in values.items():
        if known[key].type in ('int', 'float') and not _is_amount(value):
            raise _wrong(f'{name}: {key} is no amount: {value!r}')
    try:
        return kind(**values)
    except TypeError as problem:
        raise _wrong(f'{name}: {problem}') from problem


def _is_amount(value: Any) -> bool:
    return isinstance(value, int | float) and value >= 0


def _value(place: str, key: str, value: Any) -> Any:
    try:
        if key == 'dedicated_cpus':
            return frozenset(cpus_in(str(value), 0))
        if key == 'pages':
            return {int(size_kb): int(number) for size_kb, number in value.items()}
        if key == 'traits':
            return frozenset(map(str, value))
        if key in ('hosts', 'flavors'):
            return tuple(map(str, value))
    except (errors.InvalidDemand, ValueError, TypeError, AttributeError) as problem:
        raise _wrong(f'{place}: {problem}') from problem
    return value


def _check(host: SimulatedHost) -> None:
    """Refuse a host that cannot be: its parts do not go together."""
    nodes = host.numa_nodes
    if not 0 < host.vcpus < 4096 or host.memory_mb <= 0 or host.threads < 1:
        raise _wrong(f'host {host.name}: it has no CPUs or no memory')
    if nodes and (host.vcpus % (nodes * host.threads) or host.memory_mb % nodes):
        raise _wrong(f'host {host.name}: CPUs or memory cannot be split evenly')
    if not host.dedicated_cpus <= frozenset(range(host.vcpus)):
        raise _wrong(f'host {host.name}: dedicated_cpus names CPUs that it lacks')
    large_kb = sum(size_kb * number for size_kb, number in host.pages.items())
    if large_kb * max(nodes, 1) > host.memory_mb * 1024 or (large_kb and not nodes):
        raise _wrong(f'host {host.name}: its pages do not fit on its NUMA nodes')
    for devices in host.devices:
        if devices.dev_type not in KINDS or (devices.numa_node or 0) >= max(nodes, 1):
            raise _wrong(f'host {host.name}: a device is of no kind or on no node')


def _parts(content: Mapping[str, Any], name: str, *keys: str) -> list[Any]:
    if unknown := sorted(content.keys() - set(keys)):
        raise _wrong(f'{name}: unknown {", ".join(unknown)}')
    return [content.get(key) for key in keys]


def _wrong(problem: str) -> errors.OptionError:
    return errors.OptionError(OPTION, problem, 'Correct the file of the fleet')
