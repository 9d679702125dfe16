# SPDX-License-Identifier: Apache-2.0
"""Servers, wherever they are: asked for, in a cell, or buried in cell0."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from oslo_utils import uuidutils

from novasched import errors
from novasched.objects.instance import Instance
from novasched.ports import CELL0_UUID
from novasched_lab.api.service import ApiContext
from novasched_lab.cells import CellLink
from novasched_lab.store.api_servers import InstanceMapping
from novasched_lab.store.cell_servers import LiveRow

UNKNOWN = 'UNKNOWN'
DELETED = 'DELETED'
STATES = {
    'building': 'BUILD',
    'active': 'ACTIVE',
    'resized': 'VERIFY_RESIZE',
    'error': 'ERROR',
    'stopped': 'SHUTOFF',
    'deleted': DELETED,
}
MOVING = ('resize_prep', 'resize_migrating', 'resize_migrated', 'resize_finish')
ENDED = ('ACTIVE', 'ERROR', UNKNOWN, DELETED)


class Server(NamedTuple):
    """A server as its owner sees it.

    ``cell`` is the name of its cell, None while no cell has it; ``fault`` is why it
    failed. A server of a cell that cannot be asked is UNKNOWN.
    """

    uuid: str
    name: str
    status: str
    task: str | None = None
    host: str | None = None
    zone: str | None = None
    cell: str | None = None
    project_id: str | None = None
    fault: str | None = None


def status_of(row: LiveRow) -> str:
    """Return the status of a row, in the words of nova's API."""
    if row.task_state in MOVING and row.vm_state == 'active':
        return 'RESIZE'
    return STATES.get(row.vm_state or '', (row.vm_state or UNKNOWN).upper())


class Servers:
    """Looks for servers; ``warn`` gets a line on what could not be asked.

    Every method raises errors.StoreFailed when the API database cannot be asked.
    """

    def __init__(self, api: ApiContext, warn: Callable[[str], None]) -> None:
        self._api = api
        self._warn = warn

    def all(self) -> list[Server]:
        """Return all servers, the oldest first."""
        return self._servers(self._api.database.with_builds(), None)

    def some(self, uuids: Sequence[str]) -> list[Server]:
        """Return those of some servers that there are, in the order asked for."""
        mapped = self._api.database.with_builds(uuids)
        found = {each.uuid: each for each in self._servers(mapped, uuids)}
        return [found[uuid] for uuid in uuids if uuid in found]

    def asked_for(self, names: Mapping[str, str]) -> list[Server]:
        """Return a server for each of these, in order: DELETED if it is not there.

        ``names`` are their names by uuid, of servers that there have been.
        """
        found = {each.uuid: each for each in self.some(list(names))}
        return [
            found.get(uuid) or Server(uuid, name, DELETED)
            for uuid, name in names.items()
        ]

    def one(self, name: str, project_id: str | None = None) -> Server:
        """Return the server of a name or uuid, in a project or in any.

        Raises errors.OptionError if there is none, or more than one.
        """
        found = self.some([name]) if uuidutils.is_uuid_like(name) else []
        named = found or [each for each in self.all() if each.name == name]
        own = [each for each in named if project_id in (None, each.project_id)]
        if len(own) == 1:
            return own[0]
        if not named:
            raise errors.OptionError(
                'NAME', f'there is no server {name}', 'See novasched list'
            )
        if not own:
            raise errors.OptionError(
                'NAME',
                f'server {name} is of project {named[0].project_id}, not {project_id}',
                'Give its --project-id, or --all-projects',
            )
        listed = ', '.join(each.uuid for each in own)
        raise errors.OptionError(
            'NAME', f'{len(own)} servers are called {name}: {listed}', 'Name a uuid'
        )

    def located(self, server: Server) -> tuple[CellLink, Instance] | None:
        """Return the cell and the row of a server; None while it has none."""
        link = self._api.cells.of_instance(server.uuid)
        found = None if link is None else link.servers.instance(server.uuid)
        return None if link is None or found is None else (link, found)

    def _servers(
        self,
        mapped: Sequence[tuple[InstanceMapping, Instance | None]],
        uuids: Sequence[str] | None,
    ) -> list[Server]:
        by_cell: dict[str, list[InstanceMapping]] = {}
        for mapping, _ in mapped:
            if mapping.cell_uuid is not None:
                by_cell.setdefault(mapping.cell_uuid, []).append(mapping)
        found = {
            server.uuid: server
            for cell_uuid, inside in by_cell.items()
            for server in self._inside(cell_uuid, inside, uuids)
        }
        listed = (
            found.get(mapping.instance_uuid) if wanted is None else _waiting(wanted)
            for mapping, wanted in mapped
        )
        return [server for server in listed if server is not None]

    def _inside(
        self,
        cell_uuid: str,
        mappings: Sequence[InstanceMapping],
        uuids: Sequence[str] | None,
    ) -> Iterator[Server]:
        wanted = [mapping.instance_uuid for mapping in mappings]
        try:
            link = self._api.cells.link(cell_uuid)
            rows = link.servers.live(None if uuids is None else wanted)
            failed = [uuid for uuid in wanted if _is_failed(rows.get(uuid))]
            faults = link.servers.faults(failed)
        except errors.NovaschedError as problem:
            self._warn(f'{problem}. Its {len(wanted)} servers are {UNKNOWN}.')
            for mapping in mappings:
                yield Server(
                    mapping.instance_uuid, '', UNKNOWN, project_id=mapping.project_id
                )
            return
        name = 'cell0' if cell_uuid == CELL0_UUID else link.cell.name or cell_uuid
        for uuid in wanted:
            if (row := rows.get(uuid)) is not None:
                fault = faults.get(uuid)
                yield _server(row, name, fault.message if fault else None)


def _waiting(instance: Instance) -> Server:
    return Server(
        instance.uuid,
        instance.display_name or '',
        'BUILD',
        'scheduling',
        zone=instance.availability_zone,
        project_id=instance.project_id,
    )


def _is_failed(row: LiveRow | None) -> bool:
    return row is not None and row.vm_state == 'error'


def _server(row: LiveRow, cell: str, fault: str | None) -> Server:
    return Server(
        row.uuid,
        row.name or '',
        status_of(row),
        row.task_state,
        row.host,
        row.zone,
        cell,
        row.project_id,
        fault,
    )


def ended(servers: Iterable[Server]) -> list[Server]:
    """Return those that nothing is being done to any more."""
    return [each for each in servers if _is_ended(each)]


def _is_ended(server: Server) -> bool:
    return server.status in ENDED and server.task is None
