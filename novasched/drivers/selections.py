# SPDX-License-Identifier: Apache-2.0
"""Selection objects of the chosen hosts and their alternates."""

from __future__ import annotations

import copy
import itertools
import json
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from novasched import errors
from novasched.objects.numa import NUMATopologyLimits
from novasched.objects.request_spec import RequestSpec, SchedulerLimits
from novasched.objects.selection import Selection
from novasched.ports import Candidate, ClaimRequest
from novasched.scheduler import aggregates
from novasched.scheduler.hosts import HostState, HostTable

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Picked:
    """The host of one instance; ``candidate`` is None if nothing was claimed.

    ``problem`` is why not all that the instance needs could be taken from the host.
    """

    host: HostState
    candidate: Candidate | None
    problem: errors.RequestError | None = None


class _Alternate(NamedTuple):
    """An alternate, and what is verified of it: nothing, where it has no candidate."""

    selection: Selection
    pick: ClaimRequest | None


@dataclass(frozen=True)
class SelectionMaker:
    """Writes hosts as Selections; an alternate gets the first that ``fits``."""

    version: str | None  # microversion of the candidates
    default_availability_zone: str
    fits: Callable[[Candidate], bool] = lambda candidate: True
    # whether placement would still offer each alternate; others are left out
    verify: Callable[[Sequence[ClaimRequest]], Sequence[bool]] = lambda picks: (
        [True] * len(picks)
    )

    def selection(self, host: HostState, candidate: Candidate | None) -> Selection:
        """Return the host with its candidate as the JSON text of placement.

        Without a candidate the text is ``null`` and there is no version, as in
        nova: objects/selection.py, from_host_state.
        """
        metadata = aggregates.metadata(host.aggregates, 'availability_zone')
        zones = metadata.get('availability_zone', ())
        return Selection(
            compute_node_uuid=host.uuid,
            service_host=host.host,
            nodename=host.nodename,
            cell_uuid=host.cell_uuid,
            limits=limits(host),
            allocation_request=json.dumps(candidate),
            allocation_request_version=self.version if candidate else None,
            availability_zone=min(zones, default=self.default_availability_zone),
        )

    def with_alternates(
        self,
        picked: Sequence[Picked],
        hosts: HostTable,
        count: int,
        own: bool = False,
        taken: Collection[int] | None = None,
    ) -> list[list[Selection]]:
        """Return per instance its host, then up to ``count`` others in order.

        Alternates are of the same cell, and no host that was picked for any instance is
        one. With ``own`` no two instances have one alternate; they take one each in
        turn. ``taken`` are the rows of no alternates, by default the picked ones. Nova:
        scheduler/manager.py, _get_alternate_hosts.
        """
        taken = [pick.host._row for pick in picked] if taken is None else [*taken]
        while True:
            left = hosts[~np.isin(hosts.rows, taken)]
            alternates: dict[int, _Alternate] = {}
            selections = self._with_some_of(picked, left, count, own, alternates)
            used = {id(each) for of_instance in selections for each in of_instance}
            named = {
                row: alternate.pick
                for row, alternate in alternates.items()
                if id(alternate.selection) in used and alternate.pick is not None
            }
            offered = self.verify(list(named.values()))
            if all(offered):
                return selections
            taken += [
                row for row, is_so in zip(named, offered, strict=True) if not is_so
            ]

    def _with_some_of(
        self,
        picked: Sequence[Picked],
        left: HostTable,
        count: int,
        own: bool,
        alternates: dict[int, _Alternate],
    ) -> list[list[Selection]]:
        """Return the same with alternates of these hosts, none of them verified."""
        offers = [self._alternates(pick, left, alternates) for pick in picked]
        if own:
            used = {(pick.host.cell_uuid, pick.host.host) for pick in picked}
            offers = [_unused(offer, used) for offer in offers]
        selections = [[self.selection(pick.host, pick.candidate)] for pick in picked]
        for _ in range(min(count, len(left))):  # a host is an alternate once
            for of_instance, offer in zip(selections, offers, strict=True):
                of_instance.extend(itertools.islice(offer, 1))
        return selections

    def _alternates(
        self, picked: Picked, hosts: HostTable, alternates: dict[int, _Alternate]
    ) -> Iterator[Selection]:
        """Yield the other hosts of the cell; ``alternates`` has those made before, by
        row."""
        for host in hosts.states():
            if host.cell_uuid != picked.host.cell_uuid:
                continue
            if host._row in alternates:
                pass
            elif picked.candidate is None:
                alternates[host._row] = _Alternate(self.selection(host, None), None)
            elif host.allocation_candidates:
                offered: list[Candidate] = host.allocation_candidates
                fitting = next(filter(self.fits, offered), offered[0])
                pick = ClaimRequest('', fitting, host.uuid)
                alternates[host._row] = _Alternate(self.selection(host, fitting), pick)
            else:
                LOG.debug(
                    "A host state with uuid = '%s' that did not have any remaining "
                    'allocation_request was encountered while scheduling. This host '
                    'was skipped.',
                    host.uuid,
                )
                continue
            yield alternates[host._row].selection


def _unused(
    offer: Iterator[Selection], used: set[tuple[str, str]]
) -> Iterator[Selection]:
    """Yield the selections on hosts not in ``used``, and add these hosts to it."""
    for selection in offer:
        host = selection.cell_uuid, selection.service_host
        if host not in used:
            used.add(host)
            yield selection


def are_kept_apart(request: RequestSpec) -> bool:
    """Return whether no two instances of the request may be on one host."""
    return _policy_of(request) == 'anti-affinity'


def are_kept_together(request: RequestSpec) -> bool:
    """Return whether all instances of the request must be on one host."""
    return _policy_of(request) == 'affinity'


def _policy_of(request: RequestSpec) -> str | None:
    group = request.instance_group if 'instance_group' in request else None
    return None if group is None else group.policy


def limits(host: HostState) -> SchedulerLimits:
    """Return the limits that filters set for the compute; numbers are truncated.

    It shares nothing with the host, which may serve other instances.
    """
    wanted = host.limits

    def number(name: str) -> int | None:
        value = wanted.get(name)
        return None if value is None else int(value)

    numa: NUMATopologyLimits | None = wanted.get('numa_topology')
    return SchedulerLimits(
        numa_topology=copy.deepcopy(numa),
        vcpu=number('vcpu'),
        disk_gb=number('disk_gb'),
        memory_mb=number('memory_mb'),
    )
