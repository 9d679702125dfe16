# SPDX-License-Identifier: Apache-2.0
"""What becomes of instances that cannot be built."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched_lab.cells import Link
from novasched_lab.conductor.parts import Parts
from novasched_lab.failures import fault_of
from novasched_lab.store.events import Fault

LOG = logging.getLogger(__name__)

EVENT = 'conductor_schedule_and_build_instances'
FAILED: dict[str, Any] = {'vm_state': 'error', 'task_state': None}


def bury_all(
    parts: Parts,
    context: RequestContext,
    instances: Iterable[Instance],
    problem: BaseException,
) -> None:
    """Bury instances; one that cannot be does not keep others from it."""
    for instance in instances:
        try:
            bury(parts, context, instance, problem)
        except errors.StoreFailed as failure:
            LOG.error('Instance %s is not buried in cell0: %s', instance.uuid, failure)


def bury(
    parts: Parts, context: RequestContext, instance: Instance, problem: BaseException
) -> None:
    """Make an instance known as failed, in cell0; its build request goes.

    One that a cell has already fails there. One that was deleted meanwhile stays
    deleted. Raises errors.StoreFailed. Nova: conductor/manager.py, _bury_in_cell0.
    """
    uuid, fault = instance.uuid, fault_of(problem)
    link, mapped = parts.cells.of_instance(uuid), True
    if link is None:
        link = parts.cells.cell0()
        link.servers.create(instance.replaced(**FAILED))
        mapped = parts.api.map_to_cell(uuid, link.cell.uuid)
        link.servers.start_action(context, uuid, 'create')
    fail(parts, link, uuid, fault, EVENT)
    if not parts.api.delete_build(uuid) and not mapped:
        link.servers.destroy(uuid)


def fail(parts: Parts, link: Link, uuid: str, fault: Fault, event: str) -> bool:
    """Put an instance in state ERROR, and say why; False if a host has it already.

    Such a host got the message that seemed lost, and builds it. Raises
    errors.StoreFailed.
    """
    servers = link.servers
    if servers.update(uuid, {'host': None}, **FAILED):
        servers.add_fault(uuid, fault, parts.host)
        servers.add_event(uuid, event, parts.host, fault.details or fault.message)
        return True
    return servers.instance(uuid) is None
