# SPDX-License-Identifier: Apache-2.0
"""Reschedules instances that a host refused: an alternate, or else a fault.

Nova: conductor/manager.py, build_instances. The scheduler is asked only where the
compute sent no list of hosts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import CellLink
from novasched_lab.conductor.cell0 import fail
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.conductor.retries import with_attempt, with_selection
from novasched_lab.failures import FAILURES, summary

LOG = logging.getLogger(__name__)

EVENT = 'conductor_build_instances'


class RescheduleTask:
    """Tries an instance again; ``passed_on`` goes to the computes as it is."""

    def __init__(
        self,
        conductor: ConductorContext,
        context: RequestContext,
        passed_on: Mapping[str, Any],
    ) -> None:
        self._conductor = conductor
        self._context = context
        self._passed_on = passed_on

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
            if fail(self._conductor, link, uuid, problem, EVENT):
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
