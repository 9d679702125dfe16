# SPDX-License-Identifier: Apache-2.0
"""Builds new instances, and reschedules those that a host refused.

Nova: conductor/manager.py, schedule_and_build_instances and build_instances. Unlike
nova, this frees the claims of every instance that does not reach its host.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import CellLink
from novasched_lab.conductor.cell0 import EVENT, bury_all, fail
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.retries import properties_of, with_attempt, with_selection
from novasched_lab.failures import FAILURES, is_no_valid_host, summary

LOG = logging.getLogger(__name__)

RESCHEDULE = 'conductor_build_instances'


class NoHostMapping(errors.RequestError):
    """A host was selected that is mapped to no cell."""

    def __str__(self) -> str:
        return (
            f'No host-to-cell mapping found for selected host {self.args[0]}. '
            'Setup is incomplete.'
        )


class Asked(NamedTuple):
    """One instance that is asked for."""

    instance: Instance
    request: RequestSpec


class _Task:
    """One message to a conductor; ``passed_on`` goes to the computes as it is."""

    def __init__(
        self,
        conductor: ConductorContext,
        context: RequestContext,
        passed_on: Mapping[str, Any],
    ) -> None:
        self._conductor = conductor
        self._context = context
        self._passed_on = passed_on


class BuildTask(_Task):
    """Places new instances all together, then sends them to their hosts one by one."""

    def run(self, asked: Sequence[Asked]) -> None:
        """Place and build instances; those that fail are buried in cell0."""
        uuids = [each.instance.uuid for each in asked]
        try:
            chosen = self._conductor.choose(self._context, asked[0].request, uuids)
        except FAILURES as problem:
            LOG.error('Failed to schedule instances: %s', summary(problem))
            if not is_no_valid_host(problem):
                self._conductor.release(self._context, *uuids)
            instances = [each.instance for each in asked]
            bury_all(self._conductor, self._context, instances, problem)
            return
        unsent = list(uuids)
        try:
            for each, selections in zip(asked, chosen, strict=True):
                self._build(each, selections)
                unsent.pop(0)
        finally:  # a defect leaves some
            self._conductor.release(self._context, *unsent)

    def _build(self, asked: Asked, selections: Sequence[Selection]) -> None:
        """Write an instance to the cell of its host, and send it there."""
        uuid, api = asked.instance.uuid, self._conductor.api
        try:
            link = self._conductor.cells.of_host(selections[0].service_host)
            if link is None or link.computes is None:
                raise NoHostMapping(selections[0].service_host)
            if not api.is_asked_for(uuid):
                LOG.debug('Instance %s was deleted while it was placed', uuid)
                api.unmap(uuid)
                self._conductor.release(self._context, uuid)
                return
            instance = asked.instance.replaced(
                availability_zone=selections[0].availability_zone
            )
            link.servers.create(instance)
        except FAILURES as problem:
            LOG.error('Instance %s: %s', uuid, summary(problem))
            self._conductor.release(self._context, uuid)
            bury_all(self._conductor, self._context, [asked.instance], problem)
            return
        try:
            self._send(link, instance, asked.request, selections)
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
        uuid, api = instance.uuid, self._conductor.api
        LOG.debug(
            'Selected host: %s; Selected node: %s; Alternates: %s',
            selections[0].service_host,
            selections[0].nodename,
            [(each.service_host, each.nodename) for each in selections[1:]],
        )
        properties = properties_of(request)
        properties = with_attempt(properties, uuid, self._conductor.max_attempts)
        properties = with_selection(properties, selections[0])
        link.servers.start_action(self._context, uuid, 'create')
        api.map_to_cell(uuid, link.cell.uuid)
        if not api.delete_build(uuid):
            LOG.debug('Instance %s was deleted before it was built', uuid)
            link.servers.destroy(uuid)
            self._conductor.release(self._context, uuid)
            return
        self._conductor.send_build(
            self._context,
            link,
            instance,
            request,
            properties,
            selections,
            self._passed_on,
        )

    def _fail(self, link: CellLink, uuid: str, problem: BaseException) -> None:
        """Fail an instance in its cell, and free its build request and claim."""
        try:
            self._conductor.api.map_to_cell(uuid, link.cell.uuid)
            free = fail(self._conductor, link, uuid, problem, EVENT)
            self._conductor.api.delete_build(uuid)
        except errors.StoreFailed as failure:
            LOG.error('Instance %s is left as it is: %s', uuid, failure)
            free = True
        if free:
            self._conductor.release(self._context, uuid)


class RescheduleTask(_Task):
    """Tries an instance that a host refused on an alternate; failing that, a fault.

    The scheduler is asked only where the compute sent no list of hosts. Nova:
    conductor/manager.py, build_instances.
    """

    def run(
        self,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection] | None,
    ) -> None:
        """Try an instance on its next host; failing that, put it in state ERROR."""
        uuid = instance.uuid
        link = self._conductor.cells.of_instance(uuid)
        if link is None:
            LOG.info('Instance %s is gone, it is not tried again', uuid)
            self._conductor.release(self._context, uuid)
            return
        try:
            request = request.for_instance(uuid)
            self._try(link, instance, request, properties, selections)
        except FAILURES as problem:
            LOG.error('Instance %s is not built: %s', uuid, summary(problem))
            if fail(self._conductor, link, uuid, problem, RESCHEDULE):
                self._conductor.release(self._context, uuid)

    def _try(
        self,
        link: CellLink,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection] | None,
    ) -> None:
        uuid, conductor = instance.uuid, self._conductor
        made = with_attempt(properties, uuid, conductor.max_attempts)
        if selections is None:
            (found,) = conductor.choose(self._context, request, [uuid])
        else:
            found = conductor.claim_alternate(self._context, request, selections)
        made = with_selection(made, found[0])
        if not link.servers.update(uuid, availability_zone=found[0].availability_zone):
            LOG.info('Instance %s was deleted, it is not tried again', uuid)
            conductor.release(self._context, uuid)
            return
        conductor.send_build(
            self._context, link, instance, request, made, found, self._passed_on
        )
