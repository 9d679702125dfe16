# SPDX-License-Identifier: Apache-2.0
"""Instances that cannot be built: buried in cell0, or failed in their cell."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched_lab.cells import CellLink
from novasched_lab.conductor.context import ConductorContext
from novasched_lab.failures import fault_of

LOG = logging.getLogger(__name__)

EVENT = 'conductor_schedule_and_build_instances'
FAILED: dict[str, Any] = {'vm_state': 'error', 'task_state': None}


def bury_all(
    conductor: ConductorContext,
    context: RequestContext,
    instances: Iterable[Instance],
    problem: BaseException,
) -> None:
    """Bury instances in cell0; a failure for one does not stop the others."""
    for instance in instances:
        try:
            bury(conductor, context, instance, problem)
        except errors.StoreFailed as failure:
            LOG.error('Instance %s is not buried in cell0: %s', instance.uuid, failure)


def bury(
    conductor: ConductorContext,
    context: RequestContext,
    instance: Instance,
    problem: BaseException,
) -> None:
    """Write an instance to cell0 as failed, and delete its build request.

    One that a cell has already fails there. One that was deleted meanwhile stays
    deleted. Raises errors.StoreFailed. Nova: conductor/manager.py, _bury_in_cell0.
    """
    uuid, mapped = instance.uuid, True
    link = conductor.cells.of_instance(uuid)
    if link is None:
        # Mapped last, so that the fault is there when the instance is seen.
        link = conductor.cells.cell0()
        link.servers.create(instance.replaced(**FAILED))
        link.servers.start_action(context, uuid, 'create')
        _write_fault(conductor, link, uuid, problem, EVENT)
        mapped = conductor.api.map_to_cell(uuid, link.cell.uuid)
    else:
        fail(conductor, link, uuid, problem, EVENT)
    if not conductor.api.delete_build(uuid) and not mapped:
        link.servers.destroy(uuid)


def fail(
    conductor: ConductorContext,
    link: CellLink,
    uuid: str,
    problem: BaseException,
    event: str,
) -> bool:
    """Put an instance in state ERROR with a fault; False if a host has it already.

    Such a host got the message that seemed lost, and builds it. Raises
    errors.StoreFailed.
    """
    if link.servers.update(uuid, {'host': None}, **FAILED):
        _write_fault(conductor, link, uuid, problem, event)
        return True
    return link.servers.instance(uuid) is None


def _write_fault(
    conductor: ConductorContext,
    link: CellLink,
    uuid: str,
    problem: BaseException,
    event: str,
) -> None:
    fault = fault_of(problem)
    link.servers.add_fault(uuid, fault, conductor.host)
    link.servers.add_event(uuid, event, conductor.host, fault.details or fault.message)
