# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by what they report about themselves and the flavor's extra specs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import extra_specs
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import Categories, Column, HostState, HostTable, Mask

SCOPE = 'capabilities'


class Capability(NamedTuple):
    """An extra spec that asks for a capability: where it is, what it must be.

    One without the scope counts only on hosts that know its name.
    """

    name: str
    path: tuple[str, ...]
    requirement: str
    scoped: bool

    def __str__(self) -> str:
        return ':'.join((self.name, *self.path))


def capabilities(request: RequestSpec) -> list[Capability]:
    """Return the extra specs that may ask for a capability."""
    specs = dict(request.extra_specs)
    bits = specs.pop('hw:maxphysaddr_bits', None)
    if bits is not None:
        specs['capabilities:cpu_info:maxphysaddr:bits'] = f'>= {bits}'
    found = []
    for key, requirement in specs.items():
        scope, *path = key.split(':')
        if not path:
            found.append(Capability(scope, (), requirement, False))
        elif scope == SCOPE:
            found.append(Capability(path[0], tuple(path[1:]), requirement, True))
    return found


def resolve(value: Any, path: tuple[str, ...]) -> Any:
    """Follow a path into a value, decoding JSON text on the way; None: no such."""
    for name in path:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return None
        if isinstance(value, Mapping):
            value = value.get(name)
        else:
            value = getattr(value, name, None)
        if value is None:
            return None
    return value


class ComputeCapabilitiesFilter(ColumnFilter):
    """Pass hosts whose capabilities satisfy the ``capabilities:`` extra specs.

    A path starts at an attribute of the host, else at an entry of its stats.
    Nova: scheduler/filters/compute_capabilities_filter.py.
    """

    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        for capability in capabilities(request):
            passes &= _mask(hosts, capability)
        return passes

    def why(self, host: HostState, request: RequestSpec) -> str:
        for capability in capabilities(request):
            if not _mask(host.as_table(), capability)[0]:
                start = getattr(host, capability.name, None)
                if start is None:
                    start = host.stats.get(capability.name)
                found = resolve(start, capability.path)
                return f'{capability} is {found}, not {capability.requirement}'
        return 'rejected'


def _mask(hosts: HostTable, capability: Capability) -> Mask:
    """Ask once per distinct value of the column, then the stats of the rest."""
    column = getattr(HostTable, capability.name, None)
    if isinstance(column, Column):
        outcomes = _outcomes(hosts, column, capability)
        unknown_passes = False
    else:
        outcomes = [None] * len(hosts)
        unknown_passes = not capability.scoped
    if None in outcomes:
        for position, stats in enumerate(hosts.stats.tolist()):
            if outcomes[position] is None:
                known = capability.name in stats
                outcomes[position] = (
                    _satisfied(stats[capability.name], capability)
                    if known
                    else unknown_passes
                )
    return np.array([bool(outcome) for outcome in outcomes], bool)


def _satisfied(value: Any, capability: Capability) -> bool | None:
    """Return None if the host has no value to start from."""
    if value is None:
        return None
    found = resolve(value, capability.path)
    return found is not None and extra_specs.match(str(found), capability.requirement)


def _outcomes(
    hosts: HostTable, column: Column[Any, Any], capability: Capability
) -> list[bool | None]:
    values = getattr(hosts, column.name)
    decode: Callable[[Any], Any] = column.decode or (lambda value: value)
    if isinstance(values, Categories):
        return list(values.map(lambda v: _satisfied(decode(v), capability), object))
    if values.dtype == object:
        return [_satisfied(decode(v), capability) for v in values.tolist()]
    distinct, inverse = np.unique(values, return_inverse=True)
    answers = [_satisfied(decode(v), capability) for v in distinct.tolist()]
    return [answers[position] for position in inverse.tolist()]
