# SPDX-License-Identifier: Apache-2.0
"""The hosts of a fleet and their faults, as a TOML file describes them.

docs/lab/fleet.md has an example.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from novasched import errors
from novasched.resources.cpu import cpus_in
from novasched_lab.host_inventory import Devices, SimulatedHost

OPTION = '--fleet'
MOST_HOSTS = 10000
KINDS = ('type-PCI', 'type-PF', 'type-VF', 'vdpa')
REFUSE = 'refuse'
"""The only outcome of a rule: the host refuses the claim."""

T = TypeVar('T')


@dataclass(frozen=True)
class FaultRule:
    """Refusals of some hosts; ``hosts`` and ``flavors`` are shell patterns."""

    outcome: str
    probability: float = 1.0
    hosts: tuple[str, ...] = ('*',)
    flavors: tuple[str, ...] = ('*',)

    def concerns(self, host: str, flavor: str) -> bool:
        """Return whether the rule is about such an instance on the host."""
        return any(fnmatch.fnmatchcase(host, each) for each in self.hosts) and any(
            fnmatch.fnmatchcase(flavor, each) for each in self.flavors
        )


class FaultRules:
    """Decides which hosts refuse an instance: the same for the same seed."""

    def __init__(self, rules: Sequence[FaultRule] = (), seed: int = 0) -> None:
        self._rules = tuple(rules)
        self._seed = seed

    def refuses(self, host: str, flavor: str, instance_uuid: str) -> bool:
        """Return whether a rule has the host refuse the instance.

        It depends on the arguments and the seed alone, not on threads or the order of
        messages.
        """
        for number, rule in enumerate(self._rules):
            chance = random.Random(f'{self._seed}/{number}/{host}/{instance_uuid}')
            if rule.concerns(host, flavor) and chance.random() < rule.probability:
                return True
        return False


@dataclass(frozen=True)
class Fleet:
    """All hosts of a file, and their faults; the same ``seed``, the same faults."""

    hosts: tuple[SimulatedHost, ...]
    rules: tuple[FaultRule, ...] = ()
    seed: int = 0


def read(path: str | Path) -> Fleet:
    """Read a fleet; raises errors.OptionError for an invalid file."""
    try:
        content = tomllib.loads(Path(path).read_text())
    except (OSError, ValueError) as problem:
        raise _wrong(f'{path}: {problem}') from problem
    return fleet_of(content)


def fleet_of(content: Mapping[str, Any]) -> Fleet:
    """Make a fleet of what a file says; see read()."""
    if unknown := sorted(content.keys() - {'hosts', 'rules', 'seed'}):
        raise _wrong(f'the file: unknown {", ".join(unknown)}')
    hosts = tuple(host for entry in content.get('hosts', ()) for host in _hosts(entry))
    if not hosts or len({host.name for host in hosts}) < len(hosts):
        raise _wrong('it has no hosts, or two of one name')
    rules = tuple(_rule(entry) for entry in content.get('rules', ()))
    return Fleet(hosts, rules, int(content.get('seed', 0)))


def _hosts(entry: Any) -> Iterator[SimulatedHost]:
    if not isinstance(entry, Mapping) or not isinstance(entry.get('name'), str):
        raise _wrong('a host has no name')
    name, count = entry['name'], entry.get('count')
    devices = tuple(
        _made(Devices, f'a device of {name}', each) for each in entry.get('devices', ())
    )
    said = {key: value for key, value in entry.items() if key != 'count'}
    host = _made(SimulatedHost, f'host {name}', {**said, 'devices': devices})
    if wrong := _problem(host):
        raise _wrong(f'host {name}: {wrong}')
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


def _problem(host: SimulatedHost) -> str | None:
    """Return why a host cannot be: its parts do not go together."""
    nodes = host.numa_nodes
    large_kb = sum(size_kb * number for size_kb, number in host.pages.items())
    if not 0 < host.vcpus < 4096 or host.memory_mb <= 0 or host.threads < 1:
        return 'it has no CPUs or no memory'
    if nodes and (host.vcpus % (nodes * host.threads) or host.memory_mb % nodes):
        return 'CPUs or memory cannot be split evenly'
    if not host.dedicated_cpus <= frozenset(range(host.vcpus)):
        return 'dedicated_cpus names CPUs that it lacks'
    if large_kb * max(nodes, 1) > host.memory_mb * 1024 or (large_kb and not nodes):
        return 'its pages do not fit on its NUMA nodes'
    for devices in host.devices:
        if devices.dev_type not in KINDS or (devices.numa_node or 0) >= max(nodes, 1):
            return 'a device is of no kind or on no node'
    return None


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
    values = {}
    for key, value in entry.items():
        try:
            values[key] = _READERS[key](value) if key in _READERS else value
        except (errors.InvalidDemand, ValueError, TypeError, AttributeError) as problem:
            raise _wrong(f'{name}: {key}: {problem}') from problem
        is_amount = isinstance(value, int | float) and value >= 0
        if known[key].type in ('int', 'float') and not is_amount:
            raise _wrong(f'{name}: {key} is no amount: {value!r}')
    try:
        return kind(**values)
    except TypeError as problem:
        raise _wrong(f'{name}: {problem}') from problem


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value))


_READERS: Mapping[str, Any] = {
    'dedicated_cpus': lambda value: frozenset(cpus_in(str(value), 0)),
    'pages': lambda value: {int(kb): int(number) for kb, number in value.items()},
    'traits': lambda value: frozenset(map(str, value)),
    'hosts': _texts,
    'flavors': _texts,
}
"""How a value of a key is read that is not taken as it stands."""


def _wrong(problem: str) -> errors.OptionError:
    return errors.OptionError(OPTION, problem, 'Correct the file of the fleet')
