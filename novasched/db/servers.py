# SPDX-License-Identifier: Apache-2.0
"""Servers and flavors, as nova's API and its cells keep them.

Everything here only reads.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import sqlalchemy as sa
from oslo_versionedobjects import exception as ovo_exception

from novasched import errors
from novasched.db import server_groups
from novasched.db.hosts import chunks
from novasched.db.server_groups import ServerGroup
from novasched.db.server_tables import (
    flavor_extra_specs,
    flavors,
    instance_extra,
    instance_faults,
    instance_group_policy,
    instance_mappings,
    request_specs,
)
from novasched.db.stores import SqlApiStore
from novasched.db.tables import cell_mappings, host_mappings, instances
from novasched.db.transactions import Database
from novasched.objects.base import NovaObject, parse
from novasched.objects.flavor import Flavor
from novasched.objects.numa import InstanceNUMATopology
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json

Object = TypeVar('Object', bound=NovaObject)

_c, _h, _m = cell_mappings.c, host_mappings.c, instance_mappings.c
_r, _f, _e = request_specs.c, flavors.c, flavor_extra_specs.c
_p = instance_group_policy.c
_i, _extra, _fault = instances.c, instance_extra.c, instance_faults.c
GONE = ('deleted', 'soft-delete')
"""States of servers that are on their host no longer, or will not come back."""
MOST_DELETED = 20


class ServerRow(NamedTuple):
    """A server as its cell has it; ``flavor`` is None where the cell keeps none."""

    uuid: str
    name: str | None
    host: str | None
    node: str | None
    state: str | None
    project_id: str | None
    user_id: str | None
    memory_mb: int
    vcpus: int
    flavor: Flavor | None


class HolderRow(NamedTuple):
    """A server and what it holds of its host; objects as nova keeps them, None where
    none are kept."""

    uuid: str
    name: str | None
    state: str | None
    vcpus: int
    memory_mb: int
    since: datetime.datetime | None
    flavor: Flavor | None
    numa_topology: InstanceNUMATopology | None
    pci_requests: InstancePCIRequests | None


class SqlServers(SqlApiStore):
    """The API database with its servers, groups and flavors.

    Every method raises errors.StoreFailed.
    """

    def server_group_of(self, instance_uuid: str) -> ServerGroup | None:
        return self._ask(lambda c: server_groups.by_member(c, instance_uuid))

    def server_group(self, name: str, project_id: str | None) -> ServerGroup | None:
        """Return the group of this uuid, or of this name in a project."""
        return self._ask(lambda c: server_groups.by_name(c, name, project_id))

    def cell_of(self, uuid: str) -> str | None:
        """Return the uuid of the cell that has an instance; None if none has it yet."""
        mapped = instance_mappings.outerjoin(cell_mappings, _m.cell_id == _c.id)
        query = sa.select(_c.uuid).select_from(mapped).where(_m.instance_uuid == uuid)
        return self._ask(lambda c: c.execute(query).scalar())

    def hosts_of_cell(self, uuid: str) -> list[str]:
        """Return the hosts that are mapped to a cell, by id."""
        joined = host_mappings.join(cell_mappings, _h.cell_id == _c.id)
        query = sa.select(_h.host).select_from(joined).where(_c.uuid == uuid)
        return self._ask(lambda c: list(c.execute(query.order_by(_h.id)).scalars()))

    def request_spec(self, uuid: str) -> RequestSpec | None:
        """Return the request that an instance was made by; None if none is kept that
        can be read."""
        query = sa.select(_r.spec).where(_r.instance_uuid == uuid)
        return _kept(self._ask(lambda c: c.execute(query).scalar()), RequestSpec)

    def flavor(self, name: str) -> Flavor | None:
        """Return the flavor of a name or an id of the API; None if there is none.

        A database without the tables of flavors has none.
        """
        return self._ask(lambda c: _flavor(c, name))

    def flavors(self, ids: Sequence[int]) -> list[Flavor]:
        """Return the flavors with these ids, in this order, those that there are."""

        def ask(connection: sa.Connection) -> list[Flavor]:
            if not sa.inspect(connection).has_table(flavors.name):
                return []
            found = _flavors(connection, _FLAVORS.where(_f.id.in_(ids)))
            by_id = {each.id: each for each in found}
            return [by_id[id_] for id_ in ids if id_ in by_id]

        return self._ask(ask)

    def extra_specs(self) -> dict[str, dict[str, str]]:
        """Return the extra specs of all flavors that have some and are not disabled,
        by name."""

        def ask(connection: sa.Connection) -> dict[str, dict[str, str]]:
            found: dict[str, dict[str, str]] = {}
            if sa.inspect(connection).has_table(flavors.name):
                for name, key, value in connection.execute(_EXTRA_SPECS):
                    found.setdefault(name, {})[key] = value or ''
            return found

        return self._ask(ask)

    def group_policies(self) -> dict[str, int]:
        """Return how many server groups have each policy."""
        query = sa.select(_p.policy, sa.func.count()).group_by(_p.policy)
        query = query.where(_p.policy.is_not(None)).order_by(_p.policy)
        return self._ask(lambda c: {row[0]: row[1] for row in c.execute(query)})


class CellServerRows:
    """The servers in the database of one cell. Raises errors.StoreFailed."""

    def __init__(self, engine: sa.Engine, name: str | None = None) -> None:
        self.database = Database(engine, name)

    def of(self, uuids: Sequence[str]) -> list[ServerRow]:
        """Return the servers with these uuids, by id."""
        return self._rows(_i.uuid, uuids)

    def named(self, name: str) -> list[ServerRow]:
        """Return the servers of a name, by id."""
        # Some databases compare texts as if they were all in lower case.
        return [row for row in self._rows(_i.display_name, [name]) if row.name == name]

    def deleted(self, name: str) -> list[str]:
        """Return the uuids of the servers that had a name, MOST_DELETED at most, the
        newest first."""
        query = sa.select(_i.uuid, _i.display_name).where(_i.display_name == name)
        query = query.order_by(_i.id.desc()).limit(MOST_DELETED)
        return self.database.reading(
            lambda c: [uuid for uuid, had in c.execute(query) if had == name]
        )

    def on(self, hosts: Sequence[str]) -> list[ServerRow]:
        """Return the servers on some hosts, by id."""
        return self._rows(_i.host, hosts)

    def hosts_of(self, uuids: Iterable[str]) -> set[str]:
        """Return the hosts of servers, those that are soft-deleted included: they are
        members of their groups still."""
        query = sa.select(_i.host).where(_i.deleted == 0, _i.host.is_not(None))
        queries = [query.where(_i.uuid.in_(chunk)) for chunk in chunks(list(uuids))]
        return self.database.reading(
            lambda c: {host for each in queries for host in c.execute(each).scalars()}
        )

    def faults(self, uuids: Sequence[str], since: datetime.datetime) -> dict[str, str]:
        """Return the text of the last fault of each server that had one since then."""
        query = sa.select(_fault.instance_uuid, _fault.message).order_by(_fault.id)
        query = query.where(_fault.created_at >= since)
        queries = [query.where(_fault.instance_uuid.in_(c)) for c in chunks(uuids)]
        return self.database.reading(
            lambda c: {
                uuid: text or '' for each in queries for uuid, text in c.execute(each)
            }
        )

    def holders(self, host: str) -> list[HolderRow]:
        """Return the servers on a host and what they hold, the newest first."""
        query = _HOLDERS.where(_i.host == host)
        return self.database.reading(lambda c: list(map(_holder, c.execute(query))))

    def flavors_in_use(self) -> dict[int, int]:
        """Return how many servers each flavor has, by its id in the API database."""
        query = (
            sa.select(_i.instance_type_id, sa.func.count())
            .where(_i.deleted == 0, _i.instance_type_id.is_not(None))
            .group_by(_i.instance_type_id)
        )
        return self.database.reading(
            lambda c: {row[0]: row[1] for row in c.execute(query)}
        )

    def close(self) -> None:
        self.database.engine.dispose()

    def _rows(
        self, column: sa.ColumnElement[Any], values: Sequence[str]
    ) -> list[ServerRow]:
        queries = [_SERVERS.where(column.in_(chunk)) for chunk in chunks(values)]
        return self.database.reading(
            lambda c: [_server(row) for each in queries for row in c.execute(each)]
        )


_WITH_EXTRA = instances.outerjoin(
    instance_extra, sa.and_(_extra.instance_uuid == _i.uuid, _extra.deleted == 0)
)
_since = sa.func.coalesce(_i.launched_at, _i.created_at)


def _live(columns: str, *more: Any) -> sa.Select[Any]:
    """Return the query of live instances; it has these columns of them first."""
    named = (_i[name] for name in columns.split())
    return sa.select(*named, *more).select_from(_WITH_EXTRA).where(_i.deleted == 0)


_SERVERS = (
    _live(
        'uuid display_name host node vm_state project_id user_id memory_mb vcpus',
        _extra.flavor,
    )
    .where(sa.or_(_i.vm_state.is_(None), _i.vm_state.not_in(GONE)))
    .order_by(_i.id)
)
_HOLDERS = _live(
    'uuid display_name vm_state vcpus memory_mb',
    *(_since, _extra.flavor, _extra.numa_topology, _extra.pci_requests),
).order_by(_since.desc(), _i.id.desc())


def _holder(row: Sequence[Any]) -> HolderRow:
    *names, vcpus, memory_mb, since, flavor, topology, devices = row
    sizes = (vcpus or 0, memory_mb or 0)
    kept = (_kept(flavor, Flavor), _kept(topology, InstanceNUMATopology))
    return HolderRow._make([*names, *sizes, since, *kept, _requests(_read(devices))])


def _kept(text: str | None, kind: type[Object]) -> Object | None:
    """Return an object that is kept as JSON text; None for what is no such."""
    found = _read(text)
    return found if isinstance(found, kind) else None


def _read(text: str | None) -> Any:
    try:
        said = parse_json(text or 'null')
        said = said['cur'] if isinstance(said, dict) and 'cur' in said else said
        return _as_read(parse(said)) if isinstance(said, dict) else said
    except (
        ValueError,
        TypeError,
        errors.NovaschedError,
        ovo_exception.IncompatibleObjectVersion,
    ):
        return None


def _as_read(kept: NovaObject) -> NovaObject:
    if isinstance(kept, RequestSpec) and (topology := kept.if_set('numa_topology')):
        return kept.replaced(numa_topology=topology.as_read())
    return kept.as_read() if isinstance(kept, InstanceNUMATopology) else kept


def _requests(kept: Any) -> InstancePCIRequests | None:
    """Return requests for devices, which older rows have as a plain list."""
    if isinstance(kept, InstancePCIRequests):
        return kept
    if not isinstance(kept, list):
        return None
    listed = [InstancePCIRequest(count=int(each.get('count', 0))) for each in kept]
    return InstancePCIRequests(requests=listed)


def _server(row: Sequence[Any]) -> ServerRow:
    *names, memory_mb, vcpus, text = row
    flavor = _kept(text, Flavor)
    return ServerRow._make([*names, memory_mb or 0, vcpus or 0, flavor])


def _flavor(connection: sa.Connection, name: str) -> Flavor | None:
    if not sa.inspect(connection).has_table(flavors.name):
        return None
    # A name goes before an id that another flavor has.
    query = _FLAVORS.order_by(_f.name != name)
    query = query.where(sa.or_(_f.name == name, _f.flavorid == name)).limit(1)
    return next(iter(_flavors(connection, query)), None)


_FLAVORS = sa.select(
    *(each for each in _f if each.name not in ('created_at', 'updated_at'))
)
_EXTRA_SPECS = (
    sa.select(_f.name, _e.key, _e.value)
    .join_from(flavors, flavor_extra_specs, _e.flavor_id == _f.id)
    .where(sa.or_(_f.disabled.is_(None), _f.disabled == sa.false()))
    .order_by(_f.name, _e.id)
)


def _flavors(connection: sa.Connection, query: sa.Select[Any]) -> list[Flavor]:
    found = []
    for row in connection.execute(query).mappings().all():
        specs = sa.select(_e.key, _e.value).where(_e.flavor_id == row['id'])
        extra = {key: value or '' for key, value in connection.execute(specs)}
        sizes = {key: row[key] or 0 for key in ('root_gb', 'ephemeral_gb')}
        made = Flavor(**{**row, **sizes, 'extra_specs': extra})
        made.obj_reset_changes()
        found.append(made)
    return found
