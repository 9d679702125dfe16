# SPDX-License-Identifier: Apache-2.0
"""Instances that a host refused: tried on the next of their hosts.

Nova: conductor/manager.py, build_instances. The scheduler is asked only where the
compute sent no list of hosts.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched_lab.cells import Link
from novasched_lab.conductor import provider_mapping
from novasched_lab.conductor.burial import fail
from novasched_lab.conductor.parts import Parts
from novasched_lab.conductor.retries import with_attempt, with_selection
from novasched_lab.conductor.task import Task
from novasched_lab.failures import FAILURES, MaxRetriesExceeded, fault_of, told

LOG = logging.getLogger(__name__)

EVENT = 'conductor_build_instances'

ROUNDS = 2
"""A claim that conflicts is sent twice in each; nova sends it four times, too."""


def next_host(
    parts: Parts,
    context: RequestContext,
    request: RequestSpec,
    selections: Sequence[Selection],
) -> tuple[Selection, list[Selection]]:
    """Claim the first alternate that can be; return it and those after it.

    Those that others are claiming at the same moment are tried once more. Raises
    MaxRetriesExceeded when there is none, and errors.AllocationUpdateFailed.
    """
    left = list(enumerate(selections, 1))
    for _ in range(ROUNDS):
        conflicted = []
        for number, selection in left:
            refused = parts.claim(context, request, selection)
            if refused is None:
                return selection, list(selections[number:])
            if refused.conflicted:
                conflicted.append((number, selection))
        left = conflicted
    raise MaxRetriesExceeded(
        'Exhausted all hosts available for retrying build failures for instance '
        f'{request.instance_uuid}.'
    )


class Reschedule(Task):
    """Tries an instance again."""

    def run(
        self,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection] | None,
    ) -> None:
        """Try an instance on its next host; failing that, put it in state ERROR."""
        uuid = instance.uuid
        request = request.for_instance(uuid)
        link = self._parts.cells.of_instance(uuid)
        with contextlib.ExitStack() as undo:
            undo.callback(self._release, uuid)
            if link is None:
                LOG.info('Instance %s is gone, it is not tried again', uuid)
                return
            try:
                self._try(link, instance, request, properties, selections)
            except FAILURES as problem:
                LOG.error('Instance %s is not built: %s', uuid, told(problem))
                if fail(self._parts, link, uuid, fault_of(problem), EVENT):
                    self._release(uuid)
            undo.pop_all()

    def _try(
        self,
        link: Link,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection] | None,
    ) -> None:
        uuid = instance.uuid
        made = with_attempt(properties, uuid, self._parts.max_attempts)
        if selections is None:
            (found,) = self._parts.choose(self._context, request, [uuid])
            chosen, rest = found[0], found[1:]
        else:
            chosen, rest = next_host(self._parts, self._context, request, selections)
        made = with_selection(made, chosen)
        request = provider_mapping.fill(request, chosen)
        zone = chosen.availability_zone
        if not link.servers.update(uuid, availability_zone=zone):
            LOG.info('Instance %s was deleted, it is not tried again', uuid)
            self._release(uuid)
            return
        self._send(link, instance, request, made, chosen, rest)

    def _release(self, uuid: str) -> None:
        self._parts.allocations.remove(self._context.elevated(), uuid)
