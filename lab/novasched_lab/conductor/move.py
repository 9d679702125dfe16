# SPDX-License-Identifier: Apache-2.0
"""Cold migrations and resizes: another host is chosen and told to take over.

A migration holds the source in placement, the instance its destination. A failure
before a host takes over gives that back. Nova: conductor/tasks/migrate.py.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.objects.cell_mapping import CellMapping
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import Destination, RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import CellLink
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.retries import properties_of, with_attempt, with_selection
from novasched_lab.failures import FAILURES, fault_of, is_no_valid_host
from novasched_lab.store.cell_servers import Migration

LOG = logging.getLogger(__name__)

NOT_BEGUN = ('pre-migrating', 'reverting')
"""A host takes over from the first; the second keeps it from that during a rollback."""

EVENT = 'conductor_migrate_server'
MIGRATION = 'migration_uuid'
"""Where the properties of a request name the move, for a compute that sends it back."""


class MigrationTask:
    """Moves an instance away from its host."""

    def __init__(self, conductor: ConductorContext, context: RequestContext) -> None:
        self._conductor = conductor
        self._context = context

    def run(
        self,
        instance: Instance,
        flavor: Flavor | None,
        request: RequestSpec | None = None,
        properties: Mapping[str, Any] | None = None,
        selections: Sequence[Selection] | None = None,
    ) -> None:
        """Have a host take an instance over; None for ``flavor`` keeps its size.

        ``selections`` are where to try it next, after a host refused it. Raises
        errors.NoValidHost, and errors.InvalidRequest for an instance that is not in a
        state to be moved.
        """
        uuid = instance.uuid
        link = self._conductor.cells.of_instance(uuid)
        found = link.servers.instance(uuid) if link is not None else None
        if link is None or found is None or not found.host:
            raise errors.InvalidRequest(f'instance {uuid} is on no host')
        busy = [None, 'resize_prep']
        if not link.servers.update(
            uuid, {'task_state': busy}, task_state='resize_prep'
        ):
            raise errors.InvalidRequest(f'instance {uuid} is {found.task_state}')
        migration = self._migration(link, found, flavor, properties or {})
        with contextlib.ExitStack() as undo:
            undo.callback(self._give_back, link, migration)
            try:
                self._swap(found, migration)
                request = self._request(link, found, flavor, request)
                self._begin(link, found, migration, request, properties, selections)
            except FAILURES as problem:
                self._record(link, uuid, problem)
                if is_no_valid_host(problem):
                    kind = 'cold migrate' if flavor is None else 'resize'
                    reason = f'No valid host found for {kind}'
                    raise errors.NoValidHost(reason) from problem
                raise
            undo.pop_all()

    def _migration(
        self,
        link: CellLink,
        instance: Instance,
        flavor: Flavor | None,
        properties: Mapping[str, Any],
    ) -> Migration:
        """Return the move, the same again where it is tried once more."""
        known = properties.get(MIGRATION)
        if known is not None:
            migration = link.servers.migration(known)
            if migration is not None and link.servers.update_migration(
                known, status=NOT_BEGUN[0], dest_compute=None, dest_node=None
            ):
                return migration
        kind = 'migration' if flavor is None else 'resize'
        migration = Migration.of(instance.uuid, kind, instance.host, instance.node)
        link.servers.add_migration(migration)
        link.servers.start_action(self._context, instance.uuid, 'migrate')
        return migration

    def _swap(self, instance: Instance, migration: Migration) -> None:
        allocations = self._conductor.allocations
        if not allocations.swap(
            self._context.elevated(), instance.uuid, migration.uuid
        ):
            raise errors.NoValidHost('Unable to replace instance claim on source')

    def _request(
        self,
        link: CellLink,
        instance: Instance,
        flavor: Flavor | None,
        request: RequestSpec | None,
    ) -> RequestSpec:
        """Return the request that the instance was made by, changed for its move."""
        made = request or self._conductor.api.request_spec(instance.uuid)
        if made is None:
            raise errors.InvalidRequest(f'instance {instance.uuid} has no request spec')
        cell = CellMapping(uuid=link.cell.uuid, name=link.cell.name)
        asked = request and request.requested_destination
        host = {'host': asked.host, 'node': None} if asked and 'host' in asked else {}
        stays = flavor is not None and self._conductor.resizes_on_same_host
        return made.replaced(
            flavor=flavor or instance.flavor,
            instance_uuid=instance.uuid,
            project_id=instance.project_id,
            user_id=instance.user_id,
            num_instances=1,
            force_hosts=None,
            force_nodes=None,
            retry=None,
            ignore_hosts=[] if stays else [instance.host],
            requested_destination=Destination(
                cell=cell, allow_cross_cell_move=False, **host
            ),
        )

    def _begin(
        self,
        link: CellLink,
        instance: Instance,
        migration: Migration,
        request: RequestSpec,
        properties: Mapping[str, Any] | None,
        selections: Sequence[Selection] | None,
    ) -> None:
        uuid, conductor = instance.uuid, self._conductor
        known = properties if properties else properties_of(request)
        made = with_attempt(known, uuid, conductor.max_attempts)
        if selections is None:
            (found,) = conductor.choose(self._context, request, [uuid], only=link)
        else:
            found = conductor.claim_alternate(self._context, request, selections)
        chosen = found[0]
        going = {'dest_compute': chosen.service_host, 'dest_node': chosen.nodename}
        link.servers.update_migration(migration.uuid, **going)
        link.needed_computes().prep_resize(
            self._context,
            chosen.service_host,
            instance=instance,
            flavor=request.flavor,
            request_spec=request,
            filter_properties={
                **with_selection(made, chosen),
                MIGRATION: migration.uuid,
            },
            node=chosen.nodename,
            migration=migration._replace(**going)._asdict(),
            host_list=found[1:],
        )

    def _give_back(self, link: CellLink, migration: Migration) -> None:
        """Give an instance its source back, and leave its row as before the move.

        What it held on another host is freed with that.
        """
        uuid = migration.instance_uuid
        if not link.servers.update_migration(
            migration.uuid, NOT_BEGUN, status='reverting'
        ):
            LOG.info('Move %s has begun after all', migration.uuid)
            return
        admin = self._context.elevated()
        try:
            if not self._conductor.allocations.swap(admin, migration.uuid, uuid):
                LOG.error('Allocations of move %s of %s are left', migration.uuid, uuid)
        except errors.RequestError as problem:
            LOG.error('Allocations of move %s are left: %s', migration.uuid, problem)
        link.servers.update_migration(migration.uuid, status='error')
        link.servers.update(uuid, {'task_state': 'resize_prep'}, task_state=None)

    def _record(self, link: CellLink, uuid: str, problem: BaseException) -> None:
        fault = fault_of(problem)
        LOG.error('Instance %s is not moved: %s', uuid, fault.message)
        link.servers.add_fault(uuid, fault, self._conductor.host)
        link.servers.add_event(uuid, EVENT, self._conductor.host, fault.details)
