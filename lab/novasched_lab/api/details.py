# SPDX-License-Identifier: Apache-2.0
"""All that is known of one server."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched_lab.api.servers import Server, Servers
from novasched_lab.api.service import ApiContext
from novasched_lab.store.cell_servers import UNDER_WAY, InstanceAction, Migration


@dataclass
class Details:
    """A server; lists are of dicts of plain values, the oldest first.

    ``allocations`` are what it holds, and what its moves still hold, by provider.
    """

    server: Server
    node: str | None = None
    flavor: str | None = None
    image: str | None = None
    group: str | None = None
    created_at: datetime.datetime | None = None
    launched_at: datetime.datetime | None = None
    allocations: list[dict[str, Any]] = field(default_factory=list)
    moves: list[dict[str, Any]] = field(default_factory=list)
    actions: list[dict[str, Any]] = field(default_factory=list)


def details(
    api: ApiContext,
    context: RequestContext,
    name: str,
    warn: Callable[[str], None],
) -> Details:
    """Look at the server of a name or uuid; ``warn`` gets a line on what is hidden.

    Raises errors.OptionError and errors.StoreFailed.
    """
    server = Servers(api, warn).one(name)
    found = Details(server)
    request = api.database.request_spec(server.uuid)
    if request is not None:
        found.flavor = _size(request.flavor)
        image = request.image
        found.image = image.name if image and 'name' in image else None
    group = api.database.server_group_of(server.uuid)
    if group is not None:
        found.group = f'{group.name} ({group.policy})'
    consumers = [('server', server.uuid)]
    link = api.cells.of_instance(server.uuid)
    if link is not None:
        row = link.servers.live([server.uuid]).get(server.uuid)
        moves = link.servers.moves(server.uuid)
        instance = link.servers.instance(server.uuid)
        if instance is not None and 'flavor' in instance:
            # The request keeps the one that it was made with.
            found.flavor = _size(instance.flavor)
        if row is not None:
            found.node, found.created_at = row.node, row.created_at
            found.launched_at = row.launched_at
        found.moves = [_move(*each) for each in moves]
        found.actions = [_action(each) for each in link.servers.history(server.uuid)]
        consumers += [
            ('move', move.uuid) for move, _ in moves if move.status in UNDER_WAY
        ]
    for kind, consumer in consumers:
        try:
            found.allocations += _held(api, context, kind, consumer)
        except errors.AllocationUpdateFailed as problem:
            warn(f'Placement was not asked what {kind} {consumer} holds: {problem}')
    return found


def _size(flavor: Flavor) -> str:
    return (
        f'{flavor.name} ({flavor.vcpus} CPUs, {flavor.memory_mb} MiB, '
        f'{flavor.root_gb} GiB)'
    )


def _held(
    api: ApiContext, context: RequestContext, kind: str, consumer: str
) -> list[dict[str, Any]]:
    admin = context.elevated()
    held = api.allocations.held_by(admin, consumer)
    return [
        {
            'consumer': kind,
            'provider': api.provider_name(provider),
            'resources': dict(amounts),
        }
        for provider, amounts in held.allocations.items()
    ]


def _move(move: Migration, updated_at: datetime.datetime | None) -> dict[str, Any]:
    return {
        'at': _text(updated_at),
        'type': move.migration_type,
        'status': move.status,
        'from': move.source_compute,
        'to': move.dest_compute,
        'id': move.uuid,
    }


def _action(done: InstanceAction) -> dict[str, Any]:
    return {
        'at': _text(done.started_at),
        'action': done.action,
        'message': done.message,
        'events': [
            {
                'at': _text(event.finished_at),
                'event': event.event,
                'result': event.result,
                'host': event.host,
            }
            for event in done.events
        ],
    }


def _text(time: datetime.datetime | None) -> str | None:
    return None if time is None else time.isoformat(sep=' ')
