# SPDX-License-Identifier: Apache-2.0
"""What every task of a conductor does: hosts chosen, claimed and told; burials."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from novasched import errors
from novasched.inspection.session.server_request import grouped
from novasched.objects.context import RequestContext
from novasched.objects.filter_properties import filter_properties_dict
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import ClaimRefused, ClaimRequest, ClaimUnknown, Placement
from novasched_lab.allocations import Allocations
from novasched_lab.cells import CellLink, CellLinks
from novasched_lab.db.api_servers import ApiServers
from novasched_lab.failures import (
    FAILURES,
    MaxRetriesExceeded,
    SchedulerBroke,
    fault_of,
)
from novasched_lab.scheduler_client import SchedulerClient

LOG = logging.getLogger(__name__)

ROUNDS = 2
"""A claim that conflicts is sent twice in each; nova sends it four times, too."""

Properties = dict[str, Any]


@dataclass(frozen=True)
class ConductorContext:
    """The neighbours of a conductor; ``host`` is its own name."""

    api: ApiServers
    cells: CellLinks
    schedulers: SchedulerClient
    placement: Placement
    allocations: Allocations
    host: str
    max_attempts: int = 3
    resizes_on_same_host: bool = False


@dataclass(frozen=True)
class Task:
    """One message to a conductor; ``passed_on`` goes to the computes as it is.

    Those are the arguments of the API that scheduling does not look at.
    """

    conductor: ConductorContext
    context: RequestContext
    passed_on: Mapping[str, Any] = field(default_factory=dict)

    # -- hosts

    def choose(
        self,
        request: RequestSpec,
        uuids: Sequence[str],
        only: CellLink | None = None,
    ) -> list[list[Selection]]:
        """Have hosts chosen and claimed, one list per instance, alternates last.

        Members of its server group are looked for in one cell, or in all. Raises one
        of failures.FAILURES, whatever the scheduler raises.
        """
        request = self._with_group(request, only)
        started = time.monotonic()
        ask = self.conductor.schedulers.select_destinations
        try:
            chosen = ask(self.context, request, uuids)
        except FAILURES:
            raise
        except Exception as problem:  # another process may raise anything
            raise SchedulerBroke(problem) from problem
        LOG.debug(
            'Took %0.2f seconds to select destinations for %s instance(s).',
            time.monotonic() - started,
            len(uuids),
        )
        if len(chosen) != len(uuids) or not all(chosen):
            raise errors.InvalidRequest(
                'the scheduler did not answer for all instances'
            )
        return chosen

    def _with_group(self, request: RequestSpec, only: CellLink | None) -> RequestSpec:
        """Return the request with its server group, and the hosts of the members.

        Nova: scheduler/utils.py, setup_instance_group.
        """
        group = self.conductor.api.server_group_of(request.instance_uuid)
        if group is None:
            return request
        hosts: set[str] = set()
        for link in self.conductor.cells.with_computes() if only is None else [only]:
            try:
                hosts |= link.servers.hosts_of(group.members)
            except errors.StoreFailed as problem:
                LOG.warning('Members of a server group may be missed: %s', problem)
        return grouped(request, group.as_object(), hosts)

    def claim_alternate(
        self, request: RequestSpec, selections: Sequence[Selection]
    ) -> list[Selection]:
        """Claim the first alternate that can be; return it and those after it.

        Those that others are claiming at the same moment are tried once more. Raises
        MaxRetriesExceeded when there is none, and errors.AllocationUpdateFailed.
        """
        left = list(enumerate(selections))
        for _ in range(ROUNDS):
            conflicted = []
            for number, selection in left:
                refused = self._claim(request, selection)
                if refused is None:
                    return list(selections[number:])
                if refused.conflicted:
                    conflicted.append((number, selection))
            left = conflicted
        raise MaxRetriesExceeded(
            'Exhausted all hosts available for retrying build failures for instance '
            f'{request.instance_uuid}.'
        )

    def _claim(self, request: RequestSpec, selection: Selection) -> ClaimRefused | None:
        """Claim an alternate as its selection says; return why it cannot be.

        Raises errors.AllocationUpdateFailed; then nothing is held.
        """
        known = 'allocation_request' in selection and selection.allocation_request
        candidate = json.loads(known or 'null')
        if candidate is None:
            return None
        uuid, user_id = request.instance_uuid, self.context.user_id
        outcome = self.conductor.placement.claim(
            self.context.elevated(),
            ClaimRequest(uuid, candidate),
            selection.allocation_request_version or '1.36',
            request.project_id,
            (request.user_id if 'user_id' in request else None) or user_id,
        )
        if isinstance(outcome, ClaimUnknown):
            self.release(uuid)
            raise errors.AllocationUpdateFailed(uuid, outcome.text)
        return outcome if isinstance(outcome, ClaimRefused) else None

    def send_build(
        self,
        link: CellLink,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection],
    ) -> None:
        """Have the first host build an instance, as its cell has it by now."""
        chosen = selections[0]
        link.needed_computes().build_and_run_instance(
            self.context,
            chosen.service_host,
            instance=link.servers.instance(instance.uuid) or instance,
            request_spec=request,
            filter_properties=properties,
            node=chosen.nodename,
            limits=chosen.limits,
            host_list=list(selections[1:]),
            **self.passed_on,
        )

    def release(self, *uuids: str) -> None:
        for uuid in uuids:
            self.conductor.allocations.remove(self.context.elevated(), uuid)

    # -- instances that cannot be built

    def bury_all(self, instances: Iterable[Instance], problem: BaseException) -> None:
        """Bury instances in cell0; a failure for one does not stop the others."""
        for each in instances:
            try:
                self.bury(each, problem)
            except errors.StoreFailed as failure:
                LOG.error('Instance %s is not buried in cell0: %s', each.uuid, failure)

    def bury(self, instance: Instance, problem: BaseException) -> None:
        """Write an instance to cell0 as failed, and delete its build request.

        One that a cell has already fails there. One that was deleted meanwhile stays
        deleted. Raises errors.StoreFailed. Nova: _bury_in_cell0.
        """
        conductor, uuid, mapped = self.conductor, instance.uuid, True
        link = conductor.cells.of_instance(uuid)
        if link is None:
            # Mapped last, so that the fault is there when the instance is seen.
            link = conductor.cells.cell0()
            failed = instance.replaced(vm_state='error', task_state=None)
            link.servers.create(failed)
            link.servers.start_action(self.context, uuid, 'create')
            self.write_fault(link, uuid, problem)
            mapped = conductor.api.map_to_cell(uuid, link.cell.uuid)
        else:
            self.fail(link, uuid, problem)
        if not conductor.api.delete_build(uuid) and not mapped:
            link.servers.destroy(uuid)

    def fail(self, link: CellLink, uuid: str, problem: BaseException) -> bool:
        """Put an instance in state ERROR with a fault; False if a host has it already.

        Such a host got the message that seemed lost, and builds it. Raises
        errors.StoreFailed.
        """
        no_host = {'host': None}
        if link.servers.update(uuid, no_host, vm_state='error', task_state=None):
            self.write_fault(link, uuid, problem)
            return True
        return link.servers.instance(uuid) is None

    def write_fault(self, link: CellLink, uuid: str, problem: BaseException) -> None:
        link.servers.add_fault(uuid, fault_of(problem), self.conductor.host)


def properties_of(request: RequestSpec) -> Properties:
    """Return the properties of a request as dicts, lists and objects."""
    found = filter_properties_dict(request)
    return {
        name: sorted(value) if isinstance(value, set | frozenset) else value
        for name, value in found.items()
    }


def with_attempt(
    properties: Mapping[str, Any], uuid: str, max_attempts: int
) -> Properties:
    """Return the properties with one more attempt counted.

    Without ``retry`` where there must be no other attempt. Raises
    MaxRetriesExceeded. Nova: scheduler/utils.py, populate_retry.
    """
    hosts = list(properties.get('force_hosts') or ())
    nodes = list(properties.get('force_nodes') or ())
    if max_attempts == 1:
        LOG.debug('Re-scheduling is disabled due to "max_attempts" config')
        return dict(properties)
    if len(hosts) == 1 or len(nodes) == 1:
        LOG.debug(
            'Re-scheduling is disabled due to forcing a host (%s) and/or node (%s)',
            hosts,
            nodes,
        )
        return dict(properties)
    retry = {'num_attempts': 0, 'hosts': [], **(properties.get('retry') or {})}
    cause, reason = retry.pop('exc', None), retry.pop('exc_reason', None)
    if (cause or reason) and retry['hosts']:
        LOG.error(
            'Instance %s: Error from last host: %s (node %s): %s',
            uuid,
            *retry['hosts'][-1],
            cause or reason,
        )
    retry['num_attempts'] += 1
    if retry['num_attempts'] > max_attempts:
        raise MaxRetriesExceeded(
            f'Exceeded max scheduling attempts {max_attempts} for instance {uuid}. '
            f'Last exception: {reason}'
        )
    return {**properties, 'retry': retry}


def with_selection(properties: Mapping[str, Any], selection: Selection) -> Properties:
    """Return the properties for a host that was chosen.

    Nova: scheduler/utils.py, populate_filter_properties.
    """
    made = dict(properties)
    if made.get('retry'):
        tried = [selection.service_host, selection.nodename]
        hosts = [*made['retry'].get('hosts', ()), tried]
        made['retry'] = {**made['retry'], 'hosts': hosts}
    if not made.get('force_hosts'):
        limits = selection.limits if 'limits' in selection else None
        made['limits'] = limits.to_dict() if limits is not None else {}
    return made
