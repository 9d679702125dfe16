# SPDX-License-Identifier: Apache-2.0
"""Hosts as the scheduler sees them: columns, a view of one row, and consumption.

HostTable is a selection of the rows of a snapshot, HostState one row; both share
the names in Columns.
"""

from __future__ import annotations

import copy
import datetime
import ipaddress
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar, overload

import netaddr  # type: ignore[import-untyped]
import numpy as np

from novasched.objects.instance import KnownInstance
from novasched.objects.monitor_metric import MonitorMetricList
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import metrics
from novasched.scheduler.aggregates import Aggregates, shown
from novasched.scheduler.columns import (
    Categories,
    Floats,
    Instances,
    Ints,
    Lazy,
    Mask,
    Objects,
    Rows,
)
from novasched.scheduler.flavor_sizes import FlavorSizes
from novasched.scheduler.snapshot import Snapshot

__all__ = [
    'Categories',
    'Column',
    'Columns',
    'Floats',
    'HostState',
    'HostTable',
    'Ints',
    'Lazy',
    'Mask',
    'Objects',
    'Rows',
    'Snapshot',
]


AT_ONCE = 64
"""Hosts of a table that are shown at once: most readers look at the first few."""

A = TypeVar('A')
S = TypeVar('S')


class Column(Generic[A, S]):
    """One column: A is its type on a table, S its type on a host.

    ``decode`` turns the value in the table into what a host shows; values set on a host
    are decoded already. ``kept`` makes a copy once for each host and request, as
    plugins may change it in place. HostTable.keep() brings the copy into the table.
    """

    def __init__(
        self, doc: str, decode: Callable[[Any], S] | None = None, *, kept: bool = False
    ) -> None:
        self.__doc__ = doc
        self.decode = decode
        self.kept = kept

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, owner: HostTable, cls: type) -> A: ...
    @overload
    def __get__(self, owner: HostState, cls: type) -> S: ...
    @overload
    def __get__(self, owner: None, cls: type) -> Column[A, S]: ...
    def __get__(self, owner: Any, cls: type) -> Any:
        if owner is None:
            return self
        return owner._get(self)

    def __set__(self, owner: HostState, value: S) -> None:
        owner._set(self.name, value)


def optional_int(value: Any) -> Any:
    """Return a number, a whole one as int; None for NaN."""
    value = optional_float(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def optional_float(value: Any) -> Any:
    """Return the value; None for NaN."""
    return None if isinstance(value, float) and math.isnan(value) else value


def metrics_list(value: Any) -> Any:
    """Return a list of the metrics, or what a plugin put there and is none.

    Raises ValueError for a text that is nonsense.
    """
    if isinstance(value, str | None):
        metrics.parse(value)
        return MonitorMetricList.from_json(value)
    return copy.deepcopy(value)


def address(value: Any) -> Any:
    """Return an address as nova has it."""
    known = isinstance(value, ipaddress.IPv4Address | ipaddress.IPv6Address)
    return netaddr.IPAddress(str(value)) if known else value


def own_dict(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


def own_lists(value: Any) -> Any:
    return [own_lists(each) for each in value] if isinstance(value, list) else value


class Columns:
    """Every attribute of a host, under nova's names."""

    host = Column[Objects, str]('Name of the compute service.')
    nodename = Column[Objects, str]('Name of the hypervisor node.')
    uuid = Column[Objects, str](
        'UUID of the node and of its root resource provider; None if the node '
        'never reported its usage.'
    )
    cell_uuid = Column[Categories[str], str]('UUID of the cell that it was read from.')
    total_usable_ram_mb = Column[Ints, int]('MiB.')
    free_ram_mb = Column[Ints, int]('MiB; negative when oversubscribed.')
    total_usable_disk_gb = Column[Ints, int]('GiB.')
    disk_mb_used = Column[Ints, int]('MiB.')
    free_disk_mb = Column[Ints, int]('MiB; negative when oversubscribed.')
    vcpus_total = Column[Ints, int]('CPUs, before over-commit.')
    vcpus_used = Column[Ints, int]('CPUs that instances have.')
    num_instances = Column[Ints, int]('Instances on the host.')
    num_io_ops = Column[Ints, int]('Builds, resizes and other heavy tasks under way.')
    failed_builds = Column[Ints, int]('Builds failed since the last that succeeded.')
    recent_failed_builds = Column[Ints, int](
        'As failed_builds; 0 after [filter_scheduler] build_failure_forget_after.'
    )
    cpu_allocation_ratio = Column[Floats, float | None](
        'Virtual per physical CPU; NaN on a table and None on a host: unknown.',
        optional_float,
    )
    ram_allocation_ratio = Column[Floats, float | None](
        'As cpu_allocation_ratio, for memory.', optional_float
    )
    disk_allocation_ratio = Column[Floats, float | None](
        'As cpu_allocation_ratio, for disk.', optional_float
    )
    hypervisor_type = Column[Categories[str | None], str | None](
        'For example QEMU or ironic.'
    )
    hypervisor_version = Column[Floats, int | None](
        'Base-1000 digits: 8002002 is 8.2.2; NaN and None: unknown.', optional_int
    )
    hypervisor_hostname = Column[Objects, str | None](
        'As nodename; None if the node never reported its usage.'
    )
    host_ip = Column[Objects, Any]('Management address, or None.', address)
    cpu_info = Column[Categories[str | None], str | None]('JSON text, as reported.')
    supported_instances = Column[Categories[Any], Any](
        'Lists of [architecture, hypervisor type, vm mode]; None: never reported.',
        own_lists,
        kept=True,
    )
    numa_topology = Column[Categories[Any], Any](
        'The NUMA nodes, with ``cells``; parsed when read first. None: not reported.'
    )
    pci_stats = Column[Categories[Any], Any](
        'The free PCI devices, with ``pools``; parsed when read first.'
    )
    metrics = Column[Categories[str | None], Any](
        'JSON text of the metrics; on a host the list of them.', metrics_list, kept=True
    )
    stats = Column[Objects, Mapping[str, str | None]](
        'What else the driver reports: counters, capabilities.', own_dict, kept=True
    )
    service = Column[Objects, Mapping[str, Any]]('The row of the compute service.')
    service_disabled = Column[Mask, bool]('An operator disabled the service.')
    service_up = Column[Mask, bool]('The service was heard from in time.')
    aggregates = Column[Categories[Aggregates], Aggregates](
        'The aggregates it is in: a tuple, and on a host a list.', shown, kept=True
    )
    updated = Column[Objects, datetime.datetime | None](
        'When the compute last wrote its row, or the host was last consumed.'
    )
    instances = Column[Objects, dict[str, Any]](
        'Instances by uuid; read when a filter or weigher first asks.'
    )
    instance_images = Column[Objects, dict[str, Mapping[str, str]]](
        'Properties of the images of its instances, by uuid, as texts; read when a '
        'weigher first asks.'
    )
    is_source = Column[Mask, bool](
        'The instance to be moved is on the host, or was until it was shelved; read '
        'when a weigher first asks.'
    )
    public_flavors = Column[Categories[FlavorSizes], FlavorSizes](
        'Sizes of the public flavors, alike for all hosts; empty if no weigher asks.'
    )
    limits = Column[Objects, dict[str, Any]](
        'What the compute must enforce; written by filters, new per request.'
    )
    allocation_candidates = Column[Objects, list[Any]](
        'Placement candidates left on this host; a new list per request.'
    )


class HostTable(Columns):
    """Some of the hosts of a snapshot, in an order."""

    def __init__(self, snapshot: Snapshot, rows: Rows | None = None) -> None:
        self.snapshot = snapshot
        self.rows = np.arange(len(snapshot)) if rows is None else rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, keep: Mask | Rows) -> HostTable:
        return HostTable(self.snapshot, self.rows[keep])

    def _get(self, column: Column[Any, Any]) -> Any:
        return self.snapshot.column(column.name)[self.rows]

    def states(self) -> Iterator[HostState]:
        for start in range(0, len(self.rows), AT_ONCE):
            for row in self.rows[start : start + AT_ONCE].tolist():
                yield HostState(self.snapshot, row)

    def state(self, position: int) -> HostState:
        """Return the host at a position of this table."""
        return HostState(self.snapshot, int(self.rows[position]))

    def without(self, others: HostTable) -> HostTable:
        """Return the hosts that another table of the same snapshot lacks."""
        return self[~np.isin(self.rows, others.rows)]

    def set_by_plugins(self, name: str) -> dict[int, Any]:
        """Return by position an attribute, no column, of the hosts that have it."""
        own = self.snapshot.plugin_attributes
        if not own:
            return {}
        each = enumerate(own.get(row, {}) for row in self.rows.tolist())
        return {position: host[name] for position, host in each if name in host}

    def with_columns(self, **columns: Any) -> HostTable:
        return HostTable(self.snapshot.with_columns(columns), self.rows)

    def replace(self, row: int, **values: Any) -> HostTable:
        """Return the table with new values for one row of the snapshot."""
        changes = {name: [value] for name, value in values.items()}
        return HostTable(self.snapshot.replace(changes, np.array([row])), self.rows)

    def keep(self, states: Iterable[HostState]) -> HostTable:
        """Return the given hosts of this table, with what was changed of them.

        A copy of a host takes its place: what was set on the copy is seen from then on.
        """
        states = list(states)
        snapshot = self.snapshot
        for name, values in _changes(states, snapshot).items():
            column: Column[Any, Any] = vars(Columns)[name]
            if column.kept and column.decode:
                snapshot = snapshot.with_materialized(name, values, column.decode)
            else:
                rows = np.array(list(values), np.intp)
                snapshot = snapshot.replace({name: list(values.values())}, rows)
        snapshot.plugin_attributes.update((state._row, vars(state)) for state in states)
        return HostTable(snapshot, np.array([state._row for state in states], np.intp))


def _changes(states: Iterable[HostState], among: Snapshot) -> dict[str, dict[int, Any]]:
    """Return the changes of hosts: by name of the column, then by row."""
    found: dict[str, dict[int, Any]] = {}
    for state in states:
        for name, value in state._changed(among).items():
            found.setdefault(name, {})[state._row] = value
    return found


class Member(KnownInstance):
    """A member of a server group that was placed a moment ago, as an instance."""

    __slots__ = ()


def taken(request: RequestSpec) -> dict[str, int]:
    """Return by how much the columns of the host of an instance change.

    Swap is not subtracted, and ``updated`` stays: this is no report of the compute.
    Nova: scheduler/host_manager.py, consume_from_request.
    """
    return {
        'free_ram_mb': -request.memory_mb,
        'free_disk_mb': -(request.root_gb + request.ephemeral_gb) * 1024,
        'vcpus_used': request.vcpus,
        'num_instances': 1,
        'num_io_ops': 1,
    }


def added_member(instances: Mapping[str, Any], uuid: str, host: str) -> dict[str, Any]:
    """Return the instances of a host with one more, unless it is there already."""
    return {uuid: Member(uuid, host), **instances}


class HostState(Columns):
    """One host, under nova's attribute names. Nova: scheduler/host_manager.py.

    Plugins may set other attributes, too, as on any object. They stand in the
    instance's dict, which all views of a host share for the length of a request.
    """

    __slots__ = ('_changes', '_copies', '_row', '_snapshot')

    def __init__(self, snapshot: Snapshot, row: int) -> None:
        self._snapshot = snapshot
        self._row = row
        self._changes: dict[str, Any] = {}
        self._copies = False
        self.__dict__ = snapshot.plugin_attributes[row]

    @property
    def _lock_name(self) -> str:
        return f'{self.host}-{self.nodename}'

    def _get(self, column: Column[Any, Any]) -> Any:
        if column.name in self._changes:
            return self._changes[column.name]
        value = self._snapshot.column(column.name).item(self._row)
        if column.decode is None:
            if self._copies and isinstance(value, dict | list):
                value = self._changes[column.name] = copy.deepcopy(value)
            return value
        if column.kept:
            return self._snapshot.materialized(
                self._row, column.name, value, column.decode
            )
        return column.decode(value)

    def _set(self, name: str, value: Any) -> None:
        self._changes[name] = value

    def as_table(self) -> HostTable:
        """Return a table of this one host, with what was changed of it."""
        rows = np.array([self._row])
        if not self._changed(self._snapshot):
            return HostTable(self._snapshot, rows)
        return HostTable(self._snapshot.for_new_request(), rows).keep([self])

    def _changed(self, among: Snapshot) -> dict[str, Any]:
        """Return by name what was set on this host, or changed in place."""
        changes = self._snapshot.changed_in_place(self._row, among) | self._changes
        service = changes.get('service')
        if isinstance(service, Mapping) and 'disabled' in service:
            changes.setdefault('service_disabled', bool(service['disabled']))
        return changes

    def over(self, snapshot: Snapshot) -> HostState:
        """Return this host as it is, over a snapshot that its own was made of.

        It shows the values of columns made since, but keeps no such column alive.
        Instances, which may not have been read, come from ``snapshot``.
        """
        host = HostState(snapshot, self._row)
        changed = self._snapshot.changed_since(snapshot) - {'instances'}
        host._changes = {name: getattr(self, name) for name in changed} | self._changes
        return host

    def consume_from_request(self, spec_obj: RequestSpec) -> None:
        """Subtract what an instance takes. Raises errors.UnsetField."""
        for name, more in taken(spec_obj).items():
            self._set(name, getattr(self, name) + more)
        if spec_obj.instance_group is not None:
            uuid = spec_obj.instance_uuid
            self._set('instances', added_member(self.instances, uuid, self.host))

    def __copy__(self) -> Self:
        return self._copy(self._private(), dict(vars(self)), self._copies)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a copy that copies what it reads, and shares the table."""
        private, own = copy.deepcopy((self._private(), vars(self)), memo)
        return self._copy(private, own, True)

    def _private(self) -> dict[str, Any]:
        """Return the values set on this host, and those shown that may have changed."""
        return {**self._snapshot.shown_of(self._row), **self._changes}

    def _copy(self, changes: dict[str, Any], own: dict[str, Any], copies: bool) -> Self:
        """Return this host once more; what is set on it is not set on this one."""
        other = type(self).__new__(type(self))
        HostState.__init__(other, self._snapshot.for_new_request(), self._row)
        other._changes, other._copies = changes, copies
        other.__dict__.update(own)
        return other

    def __repr__(self) -> str:
        return (
            f'({self.host}, {self.nodename}) ram: {self.free_ram_mb}MB '
            f'disk: {self.free_disk_mb}MB io_ops: {self.num_io_ops} '
            f'instances: {self.num_instances}, '
            f'allocation_candidates: {len(self.allocation_candidates)}'
        )


def consume(hosts: HostTable, row: int, request: RequestSpec) -> HostTable:
    """Return the hosts after one of them took the instance of the request.

    ``row`` is a row of the snapshot. Members of a server group see the new member.
    """
    changes: dict[str, Any] = {
        name: hosts.snapshot.column(name)[row] + more
        for name, more in taken(request).items()
    }
    consumed = hosts.replace(row, **changes)
    if request.instance_group is None:
        return consumed
    return _with_member(consumed, row, request.instance_uuid)


def consume_each(hosts: HostTable, copies: Ints, request: RequestSpec) -> HostTable:
    """Return the hosts after each took the instance of the request some times.

    ``copies`` has a number for each host of the table. NUMA nodes and devices stay.
    """
    columns: dict[str, Any] = {}
    for name, more in taken(request).items():
        column = hosts.snapshot.column(name).copy()
        column[hosts.rows] += copies * more
        columns[name] = column
    consumed = hosts.with_columns(**columns)
    if request.instance_group is not None:
        for row in hosts.rows[copies > 0].tolist():
            consumed = _with_member(consumed, row, request.instance_uuid)
    return consumed


def _with_member(hosts: HostTable, row: int, uuid: str) -> HostTable:
    """Add an instance to a host, without reading the instances before need be."""
    host = hosts.snapshot.column('host')[row]

    def with_member(column: Objects | Instances) -> Instances:
        new = column.copy() if isinstance(column, Instances) else Instances(column)
        new[row] = added_member(new.item(row), uuid, host)
        return new

    instances = hosts.snapshot.lazy('instances').then(with_member)
    return hosts.with_columns(instances=instances)
