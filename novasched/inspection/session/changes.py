# SPDX-License-Identifier: Apache-2.0
"""Changes by which a dry request that failed would fit, in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from novasched import errors
from novasched.decisions.recording import RequestRecorder
from novasched.inspection.questions.reports import HelpfulChange
from novasched.inspection.session.dry_run import DryRun
from novasched.inspection.session.guest_topology import numa_topology_of
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates
from novasched.resources import Query
from novasched.resources.request import target_of
from novasched.scheduler.columns import Mask, PerHost
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.nearest import Change, asked_of_all, joined, nearest

Conditions = Callable[[Query, Sequence[str]], Mapping[str, Mask] | None]
"""Returns which compute nodes, by uuid, meet each condition of a query to placement.

None if nothing is known of its providers.
"""

MOST_SHOWN = 2
PLACEMENT, NAMED, IGNORED, ZONE = 'placement', 'named host', 'ignored hosts', 'zone'
ZONE_FILTER, COMPUTE_FILTER = 'AvailabilityZoneFilter', 'ComputeFilter'
NUMA_FILTER = 'NUMATopologyFilter'
PAGES, NODES = 'hw:mem_page_size', 'hw:numa_nodes'
ANY_CANDIDATE: Mapping[str, Any] = {'allocations': {}, 'mappings': {}}
"""Candidate of hosts that are not offered: placement is another condition."""
SAME = {'enabled compute service': COMPUTE_FILTER, ZONE_FILTER: ZONE}
"""Conditions of placement and filters that say the same."""


def suggest_changes(
    run: DryRun, recorder: RequestRecorder, conditions: Conditions | None = None
) -> list[HelpfulChange]:
    """Return the changes of the answer, and for how many hosts."""
    request = decided_request(recorder)
    hosts = all_hosts(run, recorder, request.target_cell_uuid)
    if not len(hosts):
        return []
    met = {
        **asked_of_all(run.reader.profile.filters, hosts, request),
        **_named(hosts, request),
        **_of_placement(recorder, hosts, conditions),
    }
    same = SAME | _zone_conditions(run, request)
    met = joined(met, same)
    names = hosts.host.tolist()
    found = [
        HelpfulChange(_change_text(each, request), each.hosts, each.also_fail)
        for each in nearest(met, names)
    ]
    tried = _numa_variants(run, hosts, request, met)
    return sorted([*tried, *found], key=lambda each: -each.hosts)


def decided_request(recorder: RequestRecorder) -> RequestSpec:
    """Return the request as the filters saw it last, or as it came."""
    decided = [turn.decision for turn in recorder.turns if turn.decision is not None]
    return decided[-1].request if decided else recorder.request


def all_hosts(
    run: DryRun, recorder: RequestRecorder, cell_uuid: str | None
) -> HostTable:
    """Return all hosts of a cell, or of all cells, less what the dry run took.

    Those that are not offered have a candidate that asks for nothing.
    """
    view, assumed = run.reader.view, run.reader.driver.context.assumed

    def take() -> HostTable:
        return view.hosts(None, cell_uuid)

    hosts = take() if assumed is None else assumed.see(take).hosts
    answer = recorder.queries[-1].answer if recorder.queries else None
    listed = answer.by_provider() if isinstance(answer, Candidates) else None
    offered = listed or {}
    uuids = hosts.snapshot.column('uuid')

    def candidates(row: int) -> list[Any]:
        return list(offered.get(uuids.item(row)) or [ANY_CANDIDATE])

    made = PerHost(len(hosts.snapshot), candidates)
    return hosts.with_columns(allocation_candidates=made)


def _of_placement(
    recorder: RequestRecorder, hosts: HostTable, conditions: Conditions | None
) -> Mapping[str, Mask]:
    """Return which hosts meet the conditions of the query, or which are offered."""
    if not recorder.queries:
        return {}
    last, uuids = recorder.queries[-1], [str(each) for each in hosts.uuid.tolist()]
    known = None if conditions is None else conditions(last.query, uuids)
    if known is not None:
        return known
    listed = last.answer.by_provider() if isinstance(last.answer, Candidates) else None
    offered = listed or {}
    return {PLACEMENT: np.array([uuid in offered for uuid in uuids], bool)}


def _named(hosts: HostTable, request: RequestSpec) -> dict[str, Mask]:
    """Return which hosts are those that the request names, and leaves in."""
    found: dict[str, Mask] = {}
    target = target_of(request)
    if target is not None:
        mask: Mask = np.ones(len(hosts), bool)
        if target.host:
            mask &= np.array([h == target.host for h in hosts.host.tolist()], bool)
        if target.node:
            mask &= np.array([n == target.node for n in hosts.nodename.tolist()], bool)
        found[NAMED] = mask
    ignored = {name.lower() for name in request.if_set('ignore_hosts') or ()}
    if ignored:
        names = hosts.host.tolist()
        found[IGNORED] = np.array([n.lower() not in ignored for n in names], bool)
    return found


def _zone_conditions(run: DryRun, request: RequestSpec) -> dict[str, str]:
    """Return the condition of placement that stands for the zone of the request."""
    zone = request.if_set('availability_zone')
    if not zone:
        return {}
    uuids = [
        each.uuid
        for each in run.reader.view.current_aggregates()
        if each.metadata.get('availability_zone') == zone and each.uuid
    ]
    return {f'in aggregate {",".join(sorted(uuids))}': ZONE}


def _numa_variants(
    run: DryRun, hosts: HostTable, request: RequestSpec, met: Mapping[str, Mask]
) -> list[HelpfulChange]:
    """Return the answer to two NUMA nodes, or to memory without huge pages."""
    mask = met.get(NUMA_FILTER)
    if mask is None or mask.all() or not request.if_set('numa_topology'):
        return []
    others: Mask = ~mask
    for name, each in met.items():
        if name != NUMA_FILTER:
            others = others & each
    found = []
    for change, specs in _numa_specs(request):
        try:
            flavor = request.flavor.replaced(extra_specs=specs)
            other = request.replaced(flavor=flavor)
            other = other.replaced(numa_topology=numa_topology_of(other))
        except errors.InvalidDemand:
            continue
        filters = [f for f in run.reader.profile.filters if f.name == NUMA_FILTER]
        passes = asked_of_all(filters, hosts, other).get(NUMA_FILTER)
        if passes is not None and (number := int((passes & others).sum())):
            found.append(HelpfulChange(change, number, ''))
    return found


def _numa_specs(request: RequestSpec) -> Iterable[tuple[str, dict[str, str]]]:
    specs = dict(request.extra_specs)
    nodes = len(request.numa_topology.cells) if request.numa_topology else 0
    if nodes == 1:
        yield f'two NUMA nodes ({NODES}=2)', {**specs, NODES: '2'}
    if PAGES in specs:
        without = {key: value for key, value in specs.items() if key != PAGES}
        yield f'memory without huge pages (no {PAGES})', without


def _change_text(change: Change, request: RequestSpec) -> str:
    """Return a change in words; where more of something is needed, with hosts."""
    text = ' and '.join(words(each, request) for each in change.conditions)
    if not any(map(_AMOUNT.match, change.conditions)) or not change.hosts:
        return text
    more = ' …' if change.hosts > MOST_SHOWN else ''
    return f'{text} on {", ".join(change.names[:MOST_SHOWN])}{more}'


_AMOUNT = re.compile(r'\d')


def words(condition: str, request: RequestSpec) -> str:
    """Return how a condition would be changed."""
    target = target_of(request)
    named = target and (target.host or target.node)
    fixed = {
        ZONE: f'any zone instead of {request.if_set("availability_zone")}',
        COMPUTE_FILTER: 'hosts whose compute service is down or disabled',
        NAMED: f'any host instead of {named}',
        IGNORED: 'the hosts that the request leaves out',
        PLACEMENT: 'hosts that placement does not offer',
        'resource provider': 'a resource provider in placement',
    }
    if condition in fixed:
        return fixed[condition]
    return condition if _AMOUNT.match(condition) else f'without {condition}'
