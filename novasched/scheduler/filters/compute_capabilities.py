# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by what they report about themselves and the flavor's extra specs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json
from novasched.scheduler import extra_specs
from novasched.scheduler.columns import combined
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import (
    Categories,
    Column,
    HostState,
    HostTable,
    Mask,
    Rows,
)
from novasched.scheduler.reasons import REJECTED, Code, Reason

SCOPE = 'capabilities'
NO, YES, UNKNOWN = 0, 1, 2


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

    def found_in(self, value: Any) -> Any:
        """Follow the path from the value of the name; None if it leads nowhere."""
        if self.name == 'service' and self.path:
            # Nova wraps the row: a path gets at it as ``data``, and at nothing else.
            return resolve({'data': value}, self.path)
        return resolve(value, self.path)

    def satisfied_by(self, value: Any) -> bool:
        found = self.found_in(value)
        if found is None:
            return False
        return extra_specs.match(str(found), self.requirement)


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
    """Follow a path into a value, decoding JSON text on the way; None if it ends."""
    for name in path:
        if isinstance(value, str):
            try:
                value = parse_json(value)
            except ValueError:
                return None
        if isinstance(value, Mapping):
            value = value.get(name)
        else:
            value = getattr(value, name, None)
    return value


class ComputeCapabilitiesFilter(ColumnFilter):
    """Pass hosts whose capabilities satisfy the ``capabilities:`` extra specs.

    ``capabilities:cpu_info:model`` is a path: it starts at an attribute of the host,
    else at an entry of its stats. Extra specs with such names and no scope count, too.
    They ask for a value, or an operator and a value, as in ``>= 4``. Raises ValueError
    if numbers meet text. Nova: scheduler/filters/compute_capabilities_filter.py.
    """

    reads_aggregates = False
    codes = (Code.CAPABILITY_MISSING, Code.CAPABILITY_DIFFERS, Code.REJECTED)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        passes = np.ones(len(hosts), bool)
        for capability in capabilities(request):
            # Only hosts that still pass are asked: asking may raise, as in nova.
            left = np.flatnonzero(passes)
            passes[left] = _mask(hosts[left], capability)
        return passes

    def reason_groups(self, hosts: HostTable, request: RequestSpec) -> Rows | None:
        """Return a number for each combination of the values that are asked for.

        None if some belong to each host, such as its stats.
        """
        columns = []
        for capability in capabilities(request):
            column = _column(capability.name)
            if column is None or column.decode is not None:
                return None
            values = getattr(hosts, column.name)
            if not isinstance(values, Categories) or None in values.values:
                return None
            columns.append(values.codes)
        return combined(columns) if columns else None

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        for capability in capabilities(request):
            if not _mask(host.as_table(), capability)[0]:
                found = capability.found_in(_start(host, capability.name))
                text = f'{capability} is {found}, not {capability.requirement}'
                if found is None:
                    return Reason(Code.CAPABILITY_MISSING, text)
                return Reason(Code.CAPABILITY_DIFFERS, text)
        return REJECTED


def _column(name: str) -> Column[Any, Any] | None:
    column = getattr(HostTable, name, None)
    return column if isinstance(column, Column) else None


def _start(host: HostState, name: str) -> Any:
    value = getattr(host, name) if _column(name) else vars(host).get(name)
    return host.stats.get(name) if value is None else value


def _mask(hosts: HostTable, capability: Capability) -> Mask:
    """Ask once per distinct value of the column, then the stats of the rest."""
    column = _column(capability.name)
    unnamed_pass = np.full(len(hosts), column is None and not capability.scoped)
    if column is None:
        outcomes = np.full(len(hosts), UNKNOWN, np.int8)
        for position, value in hosts.set_by_plugins(capability.name).items():
            outcomes[position] = _outcome(value, capability)
            unnamed_pass[position] = False
    else:
        outcomes = _outcomes(hosts, column, capability)
    passes: Mask = outcomes == YES
    unknown = np.flatnonzero(outcomes == UNKNOWN)
    if len(unknown):
        left = hosts[unknown]
        passes[unknown] = _stats_mask(left, capability, unnamed_pass[unknown])
    return passes


def _outcome(value: Any, capability: Capability) -> int:
    """Return YES, NO, or UNKNOWN where there is no value to start from."""
    if value is None:
        return UNKNOWN
    return YES if capability.satisfied_by(value) else NO


def _outcomes(
    hosts: HostTable, column: Column[Any, Any], capability: Capability
) -> NDArray[np.int8]:
    """Return the outcome for each host, asking once per distinct value."""
    decode: Callable[[Any], Any] = column.decode or (lambda value: value)

    def outcome(value: Any) -> int:
        return _outcome(decode(value), capability)

    values = getattr(hosts, column.name)
    if isinstance(values, Categories):
        return values.map(outcome, np.int8)
    if values.dtype == object:
        return np.array([outcome(value) for value in values.tolist()], np.int8)
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([outcome(value) for value in distinct.tolist()], np.int8)[inverse]


def _stats_mask(hosts: HostTable, capability: Capability, unnamed_pass: Mask) -> Mask:
    """Ask the stats; hosts pass by ``unnamed_pass`` whose stats lack the name."""
    name, passes = capability.name, unnamed_pass.copy()
    satisfied = functools.cache(capability.satisfied_by)
    for position, stats in enumerate(hosts.stats.tolist()):
        if name in stats:
            value = stats[name]
            # What a plugin put there may be anything, and have no hash.
            ask = satisfied if isinstance(value, str) else capability.satisfied_by
            passes[position] = ask(value)
    return passes
