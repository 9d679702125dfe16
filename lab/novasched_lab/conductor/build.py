# SPDX-License-Identifier: Apache-2.0
"""New instances: placed all together, then built one by one.

Nova: conductor/manager.py, schedule_and_build_instances. Other than in nova, whatever
fails after hosts were claimed gives them back: a claim is built on, or undone.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from novasched import errors
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import Link
from novasched_lab.conductor import provider_mapping
from novasched_lab.conductor.burial import EVENT, bury_all, fail
from novasched_lab.conductor.retries import (
    properties_of,
    with_attempt,
    with_selection,
)
from novasched_lab.conductor.task import Task
from novasched_lab.failures import FAILURES, fault_of, is_no_valid_host, told

LOG = logging.getLogger(__name__)


class NoHostMapping(errors.RequestError):
    """A host was selected that no cell has."""

    def __str__(self) -> str:
        return (
            f'No host-to-cell mapping found for selected host {self.args[0]}. '
            'Setup is incomplete.'
        )


@dataclass(frozen=True)
class Asked:
    """One instance that is asked for."""

    instance: Instance
    request: RequestSpec


@dataclass(frozen=True)
class Placed:
    """An instance with its host, and the cell of that; ``alternates`` are unclaimed."""

    asked: Asked
    link: Link
    chosen: Selection
    alternates: Sequence[Selection]

    @property
    def uuid(self) -> str:
        return self.asked.instance.uuid


class Build(Task):
    """One request for instances."""

    def run(self, asked: Sequence[Asked]) -> None:
        """Place and build instances; those that fail are buried. Raises QuotaExceeded,
        after which none is built."""
        uuids = [each.instance.uuid for each in asked]
        with contextlib.ExitStack() as undo:
            chosen = self._chosen(asked, uuids)
            if isinstance(chosen, Exception):
                LOG.error('Failed to schedule instances: %s', told(chosen))
                if not is_no_valid_host(chosen):
                    self._release(uuids)
                self._bury([each.instance for each in asked], chosen)
                return
            undo.callback(self._release, uuids)
            placed = [
                self._placed(each, selections)
                for each, selections in zip(asked, chosen, strict=True)
            ]
            self._check_quota(asked)
            undo.pop_all()
        for number, each in enumerate(placed):
            if each is not None:
                self._build_safely(each, placed[number + 1 :])

    def _chosen(
        self, asked: Sequence[Asked], uuids: Sequence[str]
    ) -> list[list[Selection]] | Exception:
        """Return the hosts of each instance, or why there are none."""
        try:
            return self._parts.choose(self._context, asked[0].request, uuids)
        except FAILURES as problem:
            return problem

    def _placed(self, asked: Asked, selections: Sequence[Selection]) -> Placed | None:
        """Write an instance into the cell of its host; None: it is not to be built."""
        uuid = asked.instance.uuid
        try:
            link = self._parts.cells.of_host(selections[0].service_host)
            if link is None or link.computes is None:
                raise NoHostMapping(selections[0].service_host)
            if not self._parts.api.is_asked_for(uuid):
                LOG.debug('Instance %s was deleted while it was placed', uuid)
                self._parts.api.unmap(uuid)
                self._release([uuid])
                return None
            instance = asked.instance.replaced(
                availability_zone=selections[0].availability_zone
            )
            link.servers.create(instance)
        except FAILURES as problem:
            LOG.error('Instance %s: %s', uuid, told(problem))
            self._release([uuid])
            self._bury([asked.instance], problem)
            return None
        asked = Asked(instance, asked.request)
        return Placed(asked, link, selections[0], selections[1:])

    def _check_quota(self, asked: Sequence[Asked]) -> None:
        """Give all up where there are too many by now. Raises QuotaExceeded."""
        try:
            self._parts.quota.check(asked[0].instance.project_id)
        except errors.RequestError as problem:
            self._bury([each.instance for each in asked], problem)
            raise

    def _build_safely(self, placed: Placed, later: Sequence[Placed | None]) -> None:
        """Build an instance, or fail it; a defect of ours fails those after it, too."""
        with contextlib.ExitStack() as undo:
            undo.callback(self._release, [each.uuid for each in later if each])
            undo.callback(self._release, [placed.uuid])
            try:
                self._build(placed)
            except FAILURES as problem:
                LOG.error('Instance %s is not built: %s', placed.uuid, told(problem))
                self._fail(placed, problem)
            undo.pop_all()

    def _build(self, placed: Placed) -> None:
        uuid, chosen, context = placed.uuid, placed.chosen, self._context
        LOG.debug(
            'Selected host: %s; Selected node: %s; Alternates: %s',
            chosen.service_host,
            chosen.nodename,
            [(each.service_host, each.nodename) for each in placed.alternates],
        )
        request = placed.asked.request
        properties = with_attempt(
            properties_of(request), uuid, self._parts.max_attempts
        )
        properties = with_selection(properties, chosen)
        request = provider_mapping.fill(request, chosen)
        servers, api = placed.link.servers, self._parts.api
        servers.start_action(context, uuid, 'create')
        api.map_to_cell(uuid, placed.link.cell.uuid)
        if not api.delete_build(uuid):
            LOG.debug('Instance %s was deleted before it was built', uuid)
            servers.destroy(uuid)
            self._release([uuid])
            return
        instance, alternates = placed.asked.instance, placed.alternates
        self._send(placed.link, instance, request, properties, chosen, alternates)

    def _fail(self, placed: Placed, problem: BaseException) -> None:
        """Fail an instance in its cell, and let go of its build request and claim."""
        uuid, parts = placed.uuid, self._parts
        try:
            parts.api.map_to_cell(uuid, placed.link.cell.uuid)
            free = fail(parts, placed.link, uuid, fault_of(problem), EVENT)
            parts.api.delete_build(uuid)
        except errors.StoreFailed as failure:
            LOG.error('Instance %s is left as it is: %s', uuid, failure)
            free = True
        if free:
            self._release([uuid])

    def _bury(self, instances: Sequence[Instance], problem: BaseException) -> None:
        bury_all(self._parts, self._context, instances, problem)

    def _release(self, uuids: Sequence[str]) -> None:
        admin = self._context.elevated()
        for uuid in uuids:
            self._parts.allocations.remove(admin, uuid)
