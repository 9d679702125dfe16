# SPDX-License-Identifier: Apache-2.0
"""The neighbours of a conductor: databases, scheduler, placement and computes."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import ClaimRefused, ClaimUnknown, Placement
from novasched.rpc.client import SchedulerClient
from novasched_lab.allocations import Allocations
from novasched_lab.cells import CellLink, CellLinks
from novasched_lab.failures import FAILURES, MaxRetriesExceeded, SchedulerBroke
from novasched_lab.store.api_servers import ApiServers
from novasched_lab.store.server_groups import group_object

LOG = logging.getLogger(__name__)

ROUNDS = 2
"""A claim that conflicts is sent twice in each; nova sends it four times, too."""


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

    def choose(
        self,
        context: RequestContext,
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
        try:
            chosen = self.schedulers.select_destinations(context, request, uuids)
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
        sent = request.instance_group if 'instance_group' in request else None
        group = self.api.server_group_of(request.instance_uuid)
        if group is None and sent is None:
            return request
        members = list(group.members) if group else _members(sent)
        hosts = set(sent.hosts or ()) if sent and 'hosts' in sent else set()
        for link in self.cells.with_computes() if only is None else [only]:
            try:
                hosts |= link.servers.hosts_of(members)
            except errors.StoreFailed as problem:
                LOG.warning('Members of a server group may be missed: %s', problem)
        made = sent
        if group is not None:
            policies = [group.policy] if group.policy else []
            made = group_object(group).replaced(policies=policies)
        assert made is not None
        return request.replaced(instance_group=made.replaced(hosts=sorted(hosts)))

    def claim_alternate(
        self,
        context: RequestContext,
        request: RequestSpec,
        selections: Sequence[Selection],
    ) -> list[Selection]:
        """Claim the first alternate that can be; return it and those after it.

        Those that others are claiming at the same moment are tried once more. Raises
        MaxRetriesExceeded when there is none, and errors.AllocationUpdateFailed.
        """
        left = list(enumerate(selections))
        for _ in range(ROUNDS):
            conflicted = []
            for number, selection in left:
                refused = self._claim(context, request, selection)
                if refused is None:
                    return list(selections[number:])
                if refused.conflicted:
                    conflicted.append((number, selection))
            left = conflicted
        raise MaxRetriesExceeded(
            'Exhausted all hosts available for retrying build failures for instance '
            f'{request.instance_uuid}.'
        )

    def _claim(
        self, context: RequestContext, request: RequestSpec, selection: Selection
    ) -> ClaimRefused | None:
        """Claim an alternate as its selection says; return why it cannot be.

        Raises errors.AllocationUpdateFailed; then nothing is held.
        """
        text = (
            selection.allocation_request if 'allocation_request' in selection else None
        )
        candidate = json.loads(text or 'null')
        if candidate is None:
            return None
        uuid, admin = request.instance_uuid, context.elevated()
        outcome = self.placement.claim(
            admin,
            uuid,
            candidate,
            selection.allocation_request_version or '1.36',
            request.project_id,
            (request.user_id if 'user_id' in request else None) or context.user_id,
        )
        if isinstance(outcome, ClaimUnknown):
            self.allocations.remove(admin, uuid)
            raise errors.AllocationUpdateFailed(uuid, outcome.text)
        return outcome if isinstance(outcome, ClaimRefused) else None

    def send_build(
        self,
        context: RequestContext,
        link: CellLink,
        instance: Instance,
        request: RequestSpec,
        properties: Mapping[str, Any],
        selections: Sequence[Selection],
        passed_on: Mapping[str, Any],
    ) -> None:
        """Have the first host build an instance, as its cell has it by now.

        ``passed_on`` are the arguments of the API that scheduling does not look at.
        """
        chosen = selections[0]
        link.needed_computes().build_and_run_instance(
            context,
            chosen.service_host,
            instance=link.servers.instance(instance.uuid) or instance,
            request_spec=request,
            filter_properties=properties,
            node=chosen.nodename,
            limits=chosen.limits,
            host_list=selections[1:],
            **passed_on,
        )

    def release(self, context: RequestContext, *uuids: str) -> None:
        """Free what instances hold in placement."""
        for uuid in uuids:
            self.allocations.remove(context.elevated(), uuid)


def _members(group: InstanceGroup | None) -> list[str]:
    if group is None or 'members' not in group:
        return []
    return list(group.members or ())
