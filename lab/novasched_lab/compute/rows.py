# SPDX-License-Identifier: Apache-2.0
"""The rows of a fleet in the database of its cell: services and compute nodes."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_utils import timeutils

from novasched.cluster.heartbeat import SERVICE_VERSION
from novasched.db import tables
from novasched.db.services import COMPUTE
from novasched.db.transactions import Database
from novasched_lab.compute.fleet import Host, name_uuid

TOPIC = 'compute'
LIBVIRT_VERSION = 8002002
FEATURES = ('aes', 'avx2', 'vmx')

_s, _n = tables.services.c, tables.compute_nodes.c


class Registered(NamedTuple):
    """What a cell knows of a host: ids of its rows, and whether it may be used."""

    service_id: int
    node_id: int
    disabled: bool


class FleetRows:
    """The services and compute nodes of the hosts of one cell.

    Every method raises errors.StoreFailed.
    """

    def __init__(
        self,
        engine: sa.Engine,
        name: str | None = None,
        utcnow: Callable[[], datetime.datetime] = timeutils.utcnow,
    ) -> None:
        self._database = Database(engine, name)
        self._utcnow = utcnow

    def register(
        self, hosts: Sequence[Host], usage: Mapping[str, Mapping[str, object]]
    ) -> dict[str, Registered]:
        """Make the rows that are missing, and bring the others up to date.

        ``usage`` are the columns that follow usage, by host. A host that was there
        before keeps its ids, and stays disabled if it was.
        """
        names = [host.name for host in hosts]

        def step(connection: sa.Connection) -> dict[str, Registered]:
            self._register_services(connection, hosts)
            services = {
                name: (id_, disabled)
                for name, id_, disabled in connection.execute(_services_of(names))
            }
            ids = {name: id_ for name, (id_, _) in services.items()}
            self._register_nodes(connection, hosts, ids, usage)
            nodes = _ids(connection, names)
            return {
                name: Registered(services[name][0], nodes[name], services[name][1])
                for name in names
            }

        return self._database.retrying(step)

    def _register_services(
        self, connection: sa.Connection, hosts: Sequence[Host]
    ) -> None:
        now, names = self._utcnow(), [host.name for host in hosts]
        known = {name for name, *_ in connection.execute(_services_of(names))}
        new = [host for host in hosts if host.name not in known]
        if new:
            rows = [_service(host, now) for host in new]
            connection.execute(sa.insert(tables.services), rows)
        if known:
            is_other = sa.or_(_s.version.is_(None), _s.version != SERVICE_VERSION)
            change = sa.update(tables.services).where(_of(known), is_other)
            connection.execute(change.values(version=SERVICE_VERSION, updated_at=now))

    def _register_nodes(
        self,
        connection: sa.Connection,
        hosts: Sequence[Host],
        service_ids: Mapping[str, int],
        usage: Mapping[str, Mapping[str, object]],
    ) -> None:
        now = self._utcnow()
        known = _ids(connection, [host.name for host in hosts])
        new = []
        for host in hosts:
            values = {**_node(host), **usage[host.name]}
            values['service_id'] = service_ids[host.name]
            if host.name in known:
                change = sa.update(tables.compute_nodes).where(
                    _n.id == known[host.name]
                )
                connection.execute(change.values(**values, updated_at=now))
            else:
                new.append(
                    {**values, 'mapped': 0, 'created_at': now, 'updated_at': now}
                )
        if new:
            connection.execute(sa.insert(tables.compute_nodes), new)

    def beat(self, hosts: Iterable[str]) -> int:
        """Write a heartbeat of all these hosts at once; return how many rows it was."""
        names, now = sorted(hosts), self._utcnow()
        if not names:
            return 0
        change = (
            sa.update(tables.services)
            .where(_of(names))
            .values(report_count=_s.report_count + 1, last_seen_up=now, updated_at=now)
        )
        return self._database.retrying(
            lambda connection: int(connection.execute(change).rowcount)
        )

    def write_usage(self, node_id: int, usage: Mapping[str, object]) -> None:
        """Write the columns of a node that follow usage."""
        change = (
            sa.update(tables.compute_nodes)
            .where(_n.id == node_id)
            .values(**usage, updated_at=self._utcnow())
        )
        self._database.retrying(lambda connection: connection.execute(change))

    def set_disabled(self, host: str, disabled: bool) -> None:
        """Write whether the service of a host may be used."""
        change = (
            sa.update(tables.services)
            .where(_of([host]))
            .values(disabled=disabled, updated_at=self._utcnow())
        )
        self._database.retrying(lambda connection: connection.execute(change))

    def disabled(self, hosts: Iterable[str]) -> set[str]:
        """Return those of the hosts whose service is disabled."""
        with self._database.read() as connection:
            found = connection.execute(_services_of(list(hosts)))
            return {name for name, _, disabled in found if disabled}


def _of(hosts: Iterable[str]) -> sa.ColumnElement[bool]:
    return sa.and_(_s.host.in_(list(hosts)), _s.binary == COMPUTE, _s.deleted == 0)


def _services_of(hosts: Sequence[str]) -> sa.Select[Any]:
    disabled = sa.func.coalesce(_s.disabled, sa.false(), type_=sa.Boolean)
    return sa.select(_s.host, _s.id, disabled).where(_of(hosts))


def _nodes_of(hosts: Sequence[str]) -> sa.Select[Any]:
    return sa.select(_n.host, _n.id).where(
        _n.host.in_(list(hosts)), _n.hypervisor_hostname == _n.host, _n.deleted == 0
    )


def _ids(connection: sa.Connection, hosts: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, id_ in connection.execute(_nodes_of(hosts)):
        found[name] = id_
    return found


def _service(host: Host, now: datetime.datetime) -> dict[str, object]:
    return {
        'created_at': now,
        'uuid': name_uuid('service', host.name),
        'host': host.name,
        'binary': COMPUTE,
        'topic': TOPIC,
        'report_count': 0,
        'disabled': False,
        'forced_down': False,
        'deleted': 0,
        'version': SERVICE_VERSION,
    }


def _node(host: Host) -> dict[str, object]:
    """Return the columns that do not follow usage."""
    cores = host.vcpus // host.threads
    topology = {
        'cells': max(host.numa_nodes, 1),
        'sockets': max(host.numa_nodes, 1),
        'cores': cores,
        'threads': host.threads,
    }
    cpu_info = {
        'arch': 'x86_64',
        'model': 'Skylake-Server-IBRS',
        'vendor': 'Intel',
        'topology': topology,
        'features': list(FEATURES),
    }
    machines = [['x86_64', 'kvm', 'hvm'], ['x86_64', 'qemu', 'hvm']]
    return {
        'uuid': host.uuid,
        'host': host.name,
        'hypervisor_hostname': host.name,
        'hypervisor_type': 'QEMU',
        'hypervisor_version': LIBVIRT_VERSION,
        'host_ip': '127.0.0.1',
        'vcpus': host.vcpus,
        'memory_mb': host.memory_mb,
        'local_gb': host.disk_gb,
        'cpu_info': json.dumps(cpu_info),
        'supported_instances': json.dumps(machines),
        'metrics': '[]',
        'cpu_allocation_ratio': host.cpu_allocation_ratio,
        'ram_allocation_ratio': host.ram_allocation_ratio,
        'disk_allocation_ratio': host.disk_allocation_ratio,
        'deleted': 0,
    }
