# SPDX-License-Identifier: Apache-2.0
"""Tasks of a conductor: new instances, those that a host refused, and moves.

Nova: conductor/manager.py, schedule_and_build_instances, build_instances and
migrate_server. Unlike nova, this frees the claims of every instance that does not
reach its host.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from novasched import errors
from novasched.inspection.session.server_request import moved
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import CellLink
from novasched_lab.conductor.task import (
    Task,
    properties_of,
    with_attempt,
    with_selection,
)
from novasched_lab.db.cell_servers import Migration
from novasched_lab.failures import FAILURES, fault_of, is_no_valid_host, summary

LOG = logging.getLogger(__name__)


Asked = tuple[Instance, RequestSpec]
"""An instance that is asked for."""


class NoHostMapping(errors.RequestError):
    """A host was selected that is mapped to no cell."""

    def __str__(self) -> str:
        return (
            f'No host-to-cell mapping found for selected host {self.args[0]}. '
            'Setup is incomplete.'
        )


class BuildTask(Task):
    """Places new instances all together, then sends them to their hosts one by one."""

    def run(self, asked: Sequence[Asked]) -> None:
        """Place and build instances; those that fail are buried in cell0."""
        instances = [instance for instance, _ in asked]
        uuids = [each.uuid for each in instances]
        try:
            chosen = self.choose(asked[0][1], uuids)
        except FAILURES as problem:
            LOG.error('Failed to schedule instances: %s', summary(problem))
            if not is_no_valid_host(problem):
                self.release(*uuids)
            self.bury_all(instances, problem)
            return
        unsent = list(uuids)
        try:
            for each, selections in zip(asked, chosen, strict=True):
                self._build(each, selections)
                unsent.pop(0)
        finally:  # a defect leaves some
            self.release(*unsent)

    def _build(self, asked: Asked, selections: Sequence[Selection]) -> None:
        """Write an instance to the cell of its host, and send it there."""
        instance, request = asked
        uuid, conductor = instance.uuid, self.conductor
        try:
            link = conductor.cells.of_host(selections[0].service_host)
            if link is None or link.computes is None:
                raise NoHostMapping(selections[0].service_host)
            if not conductor.api.is_asked_for(uuid):
                LOG.debug('Instance %s was deleted while it was placed', uuid)
                conductor.api.unmap(uuid)
                self.release(uuid)
                return
            zone = selections[0].availability_zone
            placed = instance.replaced(availability_zone=zone)
            link.servers.create(placed)
        except FAILURES as problem:
            LOG.error('Instance %s: %s', uuid, summary(problem))
            self.release(uuid)
            self.bury_all([instance], problem)
            return
        try:
            self._send(link, placed, request, selections)
        except FAILURES as problem:
            LOG.error('Instance %s is not built: %s', uuid, summary(problem))
            self._fail(link, uuid, problem)

    def _send(
        self,
        link: CellLink,
        instance: Instance,
        request: RequestSpec,
        selections: Sequence[Selection],
    ) -> None:
        uuid, conductor = instance.uuid, self.conductor
        LOG.debug(
            'Selected host: %s; Selected node: %s; Alternates: %s',
            selections[0].service_host,
            selections[0].nodename,
            [(each.service_host, each.nodename) for each in selections[1:]],
        )
        properties = with_attempt(properties_of(request), uuid, conductor.max_attempts)
        properties = with_selection(properties, selections[0])
        link.servers.start_action(self.context, uuid, 'create')
        conductor.api.map_to_cell(uuid, link.cell.uuid)
        if not conductor.api.delete_build(uuid):
            LOG.debug('Instance %s was deleted before it was built', uuid)
            link.servers.destroy(uuid)
            self.release(uuid)
            return
        self.send_build(link, instance, request, properties, selections)

    def _fail(self, link: CellLink, uuid: str, problem: BaseException) -> None:
        """Fail an instance in its cell, and free its build request and claim."""
        try:
            self.conductor.api.map_to_cell(uuid, link.cell.uuid)
            free = self.fail(link, uuid, problem)
            self.conductor.api.delete_build(uuid)
        except errors.StoreFailed as failure:
            LOG.error('Instance %s is left as it is: %s', uuid, failure)
            free = True
        if free:
            self.release(uuid)


class RescheduleTask(Task):
    """Tries an instance that a host refused on an alternate; failing that, a fault.

    The scheduler is asked only where the compute sent no list of hosts.
    """

    def run(
        self,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection] | None,
    ) -> None:
        """Try an instance on its next host; failing that, put it in state ERROR."""
        uuid, conductor = instance.uuid, self.conductor
        link = conductor.cells.of_instance(uuid)
        if link is None:
            LOG.info('Instance %s is gone, it is not tried again', uuid)
            self.release(uuid)
            return
        try:
            request = request.for_instance(uuid)
            made = with_attempt(properties, uuid, conductor.max_attempts)
            if selections is None:
                (found,) = self.choose(request, [uuid])
            else:
                found = self.claim_alternate(request, selections)
            made = with_selection(made, found[0])
            zone = found[0].availability_zone
            if not link.servers.update(uuid, availability_zone=zone):
                LOG.info('Instance %s was deleted, it is not tried again', uuid)
                self.release(uuid)
                return
            self.send_build(link, instance, request, made, found)
        except FAILURES as problem:
            LOG.error('Instance %s is not built: %s', uuid, summary(problem))
            if self.fail(link, uuid, problem):
                self.release(uuid)


class MigrationTask(Task):
    """Moves an instance away from its host: a cold migration or a resize.

    A migration holds the source in placement, the instance its destination. A failure
    before a host takes over gives that back. Nova: conductor/tasks/migrate.py.
    """

    def run(
        self,
        instance: Instance,
        flavor: Flavor | None,
        request: RequestSpec | None = None,
    ) -> None:
        """Have a host take an instance over; None for ``flavor`` keeps its size.

        Raises errors.NoValidHost, and errors.InvalidRequest for an instance that is
        not in a state to be moved.
        """
        uuid = instance.uuid
        link = self.conductor.cells.of_instance(uuid)
        found = link.servers.instance(uuid) if link is not None else None
        if link is None or found is None or not found.host:
            raise errors.InvalidRequest(f'instance {uuid} is on no host')
        if not link.servers.update(
            uuid, {'task_state': None}, task_state='resize_prep'
        ):
            raise errors.InvalidRequest(f'instance {uuid} is {found.task_state}')
        kind = 'migration' if flavor is None else 'resize'
        migration = Migration.of(uuid, kind, found.host, found.node)
        link.servers.add_migration(migration)
        link.servers.start_action(self.context, uuid, 'migrate')
        with contextlib.ExitStack() as undo:
            undo.callback(self._give_back, link, migration)
            try:
                self._swap(found, migration)
                request = self._request(link, found, flavor, request)
                self._begin(link, found, migration, request)
            except FAILURES as problem:
                LOG.error(
                    'Instance %s is not moved: %s', uuid, fault_of(problem).message
                )
                self.write_fault(link, uuid, problem)
                if is_no_valid_host(problem):
                    kind = 'cold migrate' if flavor is None else 'resize'
                    reason = f'No valid host found for {kind}'
                    raise errors.NoValidHost(reason) from problem
                raise
            undo.pop_all()

    def _swap(self, instance: Instance, migration: Migration) -> None:
        admin, swap = self.context.elevated(), self.conductor.allocations.swap
        if not swap(admin, instance.uuid, migration.uuid):
            raise errors.NoValidHost('Unable to replace instance claim on source')

    def _request(
        self,
        link: CellLink,
        instance: Instance,
        flavor: Flavor | None,
        request: RequestSpec | None,
    ) -> RequestSpec:
        """Return the request that the instance was made by, changed for its move."""
        made = request or self.conductor.api.request_spec(instance.uuid)
        if made is None:
            raise errors.InvalidRequest(f'instance {instance.uuid} has no request spec')
        asked = request and request.requested_destination
        stays = flavor is not None and self.conductor.resizes_on_same_host
        return moved(
            made.for_instance(instance.uuid),
            flavor=flavor or instance.flavor,
            project_id=instance.project_id,
            user_id=instance.user_id,
            cell=(link.cell.uuid, link.cell.name),
            leaves=[] if stays or not instance.host else [instance.host],
            host=asked.host if asked and 'host' in asked else None,
        )

    def _begin(
        self,
        link: CellLink,
        instance: Instance,
        migration: Migration,
        request: RequestSpec,
    ) -> None:
        """Choose a host and tell it to take over; it has no alternates."""
        uuids = [instance.uuid]
        (found,) = self.choose(request, uuids, only=link)
        chosen = found[0]
        going = {'dest_compute': chosen.service_host, 'dest_node': chosen.nodename}
        link.servers.update_migration(migration.uuid, **going)
        link.needed_computes().prep_resize(
            self.context,
            chosen.service_host,
            instance=instance,
            flavor=request.flavor,
            request_spec=request,
            filter_properties=with_selection(properties_of(request), chosen),
            node=chosen.nodename,
            migration=migration._replace(**going)._asdict(),
            host_list=[],
        )

    def _give_back(self, link: CellLink, migration: Migration) -> None:
        """Give an instance its source back, and leave its row as before the move.

        What it held on another host is freed with that.
        """
        uuid, servers = migration.instance_uuid, link.servers
        if not servers.update_migration(
            migration.uuid, ['pre-migrating'], status='reverting'
        ):
            LOG.info('Move %s has begun after all', migration.uuid)
            return
        admin = self.context.elevated()
        try:
            if not self.conductor.allocations.swap(admin, migration.uuid, uuid):
                LOG.error('Allocations of move %s of %s are left', migration.uuid, uuid)
        except errors.RequestError as problem:
            LOG.error('Allocations of move %s are left: %s', migration.uuid, problem)
        servers.update_migration(migration.uuid, status='error')
        servers.update(uuid, {'task_state': 'resize_prep'}, task_state=None)
