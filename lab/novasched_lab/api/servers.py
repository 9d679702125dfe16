# SPDX-License-Identifier: Apache-2.0
"""Servers, wherever they are: found, shown, moved and deleted.

They are asked for, in a cell, or buried in cell0. Nova: compute/api.py, resize and
_delete. Other than in nova, a claim is looked for in any case.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import oslo_messaging  # type: ignore[import-untyped]
from oslo_utils import uuidutils

from novasched import errors
from novasched.inspection.session.server_request import destined
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.ports import CELL0_UUID
from novasched.rpc import faults
from novasched_lab.api.boot import NoConductorAnswers
from novasched_lab.api.service import ApiContext
from novasched_lab.cells import CellLink
from novasched_lab.db.api_servers import InstanceMapping
from novasched_lab.db.cell_servers import UNDER_WAY, LiveRow, Migration
from novasched_lab.failures import summary

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
OVER = ('confirmed', 'error', 'reverted')
ENDED = ('ACTIVE', 'ERROR', UNKNOWN, DELETED)


class ServerSummary(NamedTuple):
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

    def all(self) -> list[ServerSummary]:
        """Return all servers, the oldest first."""
        return self._servers(self._api.database.with_builds(), None)

    def some(self, uuids: Sequence[str]) -> list[ServerSummary]:
        """Return the servers that exist among these, in the order asked for."""
        mapped = self._api.database.with_builds(uuids)
        found = {each.uuid: each for each in self._servers(mapped, uuids)}
        return [found[uuid] for uuid in uuids if uuid in found]

    def asked_for(self, names: Mapping[str, str]) -> list[ServerSummary]:
        """Return a server for each of these, in order: DELETED if it is not there.

        ``names`` are their names by uuid, of servers that there have been.
        """
        found = {each.uuid: each for each in self.some(list(names))}
        return [
            found.get(uuid) or ServerSummary(uuid, name, DELETED)
            for uuid, name in names.items()
        ]

    def one(self, name: str, project_id: str | None = None) -> ServerSummary:
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

    def located(self, server: ServerSummary) -> tuple[CellLink, Instance] | None:
        """Return the cell and the row of a server; None while it has none."""
        link = self._api.cells.of_instance(server.uuid)
        found = None if link is None else link.servers.instance(server.uuid)
        return None if link is None or found is None else (link, found)

    def _servers(
        self,
        mapped: Sequence[tuple[InstanceMapping, Instance | None]],
        uuids: Sequence[str] | None,
    ) -> list[ServerSummary]:
        by_cell: dict[str, list[InstanceMapping]] = {}
        for mapping, _ in mapped:
            if mapping.cell_uuid is not None:
                by_cell.setdefault(mapping.cell_uuid, []).append(mapping)
        found = {
            server.uuid: server
            for cell_uuid, inside in by_cell.items()
            for server in self._inside(cell_uuid, inside, uuids is None)
        }
        listed = (
            found.get(mapping.instance_uuid) if wanted is None else _waiting(wanted)
            for mapping, wanted in mapped
        )
        return [server for server in listed if server is not None]

    def _inside(
        self, cell_uuid: str, mappings: Sequence[InstanceMapping], all_of_cell: bool
    ) -> Iterator[ServerSummary]:
        wanted = [mapping.instance_uuid for mapping in mappings]
        try:
            link = self._api.cells.link(cell_uuid)
            rows = link.servers.live(None if all_of_cell else wanted)
            failed = [u for u in wanted if u in rows and rows[u].vm_state == 'error']
            faults = link.servers.faults(failed)
        except errors.NovaschedError as problem:
            self._warn(f'{problem}. Its {len(wanted)} servers are {UNKNOWN}.')
            for uuid, _, project_id in mappings:
                yield ServerSummary(uuid, '', UNKNOWN, project_id=project_id)
            return
        cell = 'cell0' if cell_uuid == CELL0_UUID else link.cell.name or cell_uuid
        for uuid in wanted:
            if (row := rows.get(uuid)) is not None:
                yield ServerSummary(
                    uuid,
                    row.display_name or '',
                    status_of(row),
                    row.task_state,
                    row.host,
                    row.availability_zone,
                    cell,
                    row.project_id,
                    faults[uuid].message if uuid in faults else None,
                )


def _waiting(instance: Instance) -> ServerSummary:
    return ServerSummary(
        instance.uuid,
        instance.display_name or '',
        'BUILD',
        'scheduling',
        zone=instance.availability_zone,
        project_id=instance.project_id,
    )


def ended(servers: Iterable[ServerSummary]) -> list[ServerSummary]:
    """Return those that nothing is being done to any more."""
    return [each for each in servers if each.status in ENDED and each.task is None]


class MoveRefused(errors.RequestError):
    def __str__(self) -> str:
        return f'The server stays where it is: {self.args[0]}'


class MoveProgress(NamedTuple):
    """How far a move is; ``status`` is the status of its migration."""

    status: str
    source: str | None
    destination: str | None


class MoveRequest:
    """Moves one server; raises errors.StoreFailed."""

    def __init__(
        self, api: ApiContext, context: RequestContext, server: ServerSummary
    ) -> None:
        self._api = api
        self._context = context
        self._server = server
        self._servers = Servers(api, lambda line: None)

    def begin(self, host: str | None, flavor: Flavor | None) -> None:
        """Have the server moved, to a host if one is named.

        Raises MoveRefused, NoConductorAnswers and errors.OptionError.
        """
        uuid, name = self._server.uuid, self._server.name
        found = self._servers.located(self._server)
        if found is None or self._server.status != 'ACTIVE' or self._server.task:
            raise errors.OptionError(
                'NAME', f'{name} is {self._server.status}', 'Wait until it is ACTIVE'
            )
        link, instance = found
        if host is not None and self._api.database.host_cell(host) != link.cell.uuid:
            raise errors.OptionError(
                '--to',
                f'{host} is not in {link.cell.name or link.cell.uuid}, the cell of '
                f'{name}',
                'Name a host of that cell: see novasched-manage cell_v2 list_hosts',
            )
        request = None
        if host is not None and (kept := self._api.database.request_spec(uuid)):
            request = destined(kept, host)
        try:
            self._api.conductor.migrate_server(self._context, instance, flavor, request)
        except (oslo_messaging.RemoteError, faults.WireError) as problem:
            raise MoveRefused(summary(problem)) from problem
        except oslo_messaging.MessagingException as problem:
            raise NoConductorAnswers(str(problem)) from problem

    def progress(self) -> MoveProgress | None:
        """Return how far the last move of the server is; None if there is none."""
        link = self._api.cells.of_instance(self._server.uuid)
        moves = link.servers.moves(self._server.uuid) if link is not None else []
        if not moves:
            return None
        last, _ = moves[-1]
        return MoveProgress(last.status, last.source_compute, last.dest_compute)

    def is_over(self) -> bool:
        progress = self.progress()
        return progress is not None and progress.status in OVER

    def failure(self) -> str | None:
        """Return the newest fault of the server; None if it has none."""
        link = self._api.cells.of_instance(self._server.uuid)
        fault = None if link is None else link.servers.last_fault(self._server.uuid)
        return None if fault is None else fault.message


class DeleteRequest:
    """Deletes servers; ``force`` does not ask their hosts.

    Every method raises errors.StoreFailed.
    """

    def __init__(
        self, api: ApiContext, context: RequestContext, force: bool = False
    ) -> None:
        self._api = api
        self._context = context
        self._force = force

    def run(self, uuid: str) -> bool:
        """Delete a server; return False if its host does it, then see is_done()."""
        # A conductor that works on one that is asked for lets go of it.
        if not self._api.database.delete_build(uuid):
            link = self._api.cells.of_instance(uuid)
            found = None if link is None else link.servers.instance(uuid)
            if link is not None and found is not None and self._tell(link, found):
                return False
        self._wipe(uuid)
        return True

    def is_done(self, uuid: str) -> bool:
        """Return whether the host has deleted a server; then nothing is left of it."""
        link = self._api.cells.of_instance(uuid)
        if link is not None and link.servers.instance(uuid) is not None:
            return False
        self._wipe(uuid)
        return True

    def _tell(self, link: CellLink, instance: Instance) -> bool:
        """Tell the host of an instance; False if it has none that listens."""
        uuid, host = instance.uuid, instance.host
        if host is None or link.computes is None or self._force:
            return False
        link.servers.update(uuid, task_state='deleting')
        link.servers.start_action(self._context, uuid, 'delete')
        try:
            # An administrator, as computes of nova ask Neutron in their own name then.
            link.computes.terminate_instance(self._context.elevated(), host, instance)
        except oslo_messaging.MessagingException:
            return False
        return True

    def _wipe(self, uuid: str) -> None:
        """Take away all rows of a server, wherever it got meanwhile, and its claims.

        What its moves hold is freed, too.
        """
        api, admin = self._api, self._context.elevated()
        link = api.cells.of_instance(uuid)
        api.database.forget(uuid)
        for each in (link, api.cells.cell0()):
            if each is not None:
                each.servers.destroy(uuid)
        api.groups.leave([uuid])
        api.allocations.remove(admin, uuid)
        if link is None:
            return
        for move, _ in link.servers.moves(uuid):
            if move.status not in ('confirmed', 'error', 'completed'):
                link.servers.update_migration(move.uuid, status='error')
                api.allocations.remove(admin, move.uuid)


Warn = Callable[[str], None]


def details(
    api: ApiContext, context: RequestContext, name: str, warn: Warn
) -> dict[str, Any]:
    """Return the fields of the server of a name or uuid, in the order to show.

    Lists are of dicts of plain values, the oldest first; ``allocations`` are what it
    holds, and what its moves still hold, by provider. ``warn`` gets a line on what is
    hidden. Raises errors.OptionError and errors.StoreFailed.
    """
    server = Servers(api, warn).one(name)
    request = api.database.request_spec(server.uuid)
    group = api.database.server_group_of(server.uuid)
    row: LiveRow | None = None
    flavor, image = (request.flavor, request.image) if request else (None, None)
    moves: list[tuple[Migration, datetime.datetime | None]] = []
    actions: list[dict[str, Any]] = []
    link = api.cells.of_instance(server.uuid)
    if link is not None:
        row = link.servers.live([server.uuid]).get(server.uuid)
        instance = link.servers.instance(server.uuid)
        if instance is not None and 'flavor' in instance:
            # The request keeps the one that it was made with.
            flavor = instance.flavor
        moves, actions = (
            link.servers.moves(server.uuid),
            link.servers.history(server.uuid),
        )
    under_way = [('move', m.uuid) for m, _ in moves if m.status in UNDER_WAY]
    return {
        'id': server.uuid,
        'name': server.name,
        'status': server.status,
        'task': server.task,
        'cell': server.cell,
        'host': server.host,
        'node': row and row.node,
        'zone': server.zone,
        'flavor': flavor and _size(flavor),
        'image': image.name if image and 'name' in image else None,
        'group': group and f'{group.name} ({group.policy})',
        'project_id': server.project_id,
        'created_at': row and _text(row.created_at),
        'launched_at': row and _text(row.launched_at),
        'fault': server.fault,
        'allocations': [
            held
            for kind, uuid in (('server', server.uuid), *under_way)
            for held in _held(api, context, kind, uuid, warn)
        ],
        'moves': [_move(*each) for each in moves],
        'actions': [{**each, 'at': _text(each['at'])} for each in actions],
    }


def _size(flavor: Flavor) -> str:
    return (
        f'{flavor.name} ({flavor.vcpus} CPUs, {flavor.memory_mb} MiB, '
        f'{flavor.root_gb} GiB)'
    )


def _held(
    api: ApiContext, context: RequestContext, kind: str, consumer: str, warn: Warn
) -> Iterator[dict[str, Any]]:
    try:
        held = api.allocations.held_by(context.elevated(), consumer)
    except errors.AllocationUpdateFailed as problem:
        warn(f'Placement was not asked what {kind} {consumer} holds: {problem}')
        return
    for provider, amounts in held.allocations.items():
        name = api.provider_name(provider)
        yield {'consumer': kind, 'provider': name, 'resources': dict(amounts)}


def _move(move: Migration, updated_at: datetime.datetime | None) -> dict[str, Any]:
    return {
        'at': _text(updated_at),
        'type': move.migration_type,
        'status': move.status,
        'from': move.source_compute,
        'to': move.dest_compute,
        'id': move.uuid,
    }


def _text(time: datetime.datetime | None) -> str | None:
    return None if time is None else time.isoformat(sep=' ')
