# SPDX-License-Identifier: Apache-2.0
"""Conditions of a request that a host meets or fails: every one is asked, not only the
first that it fails."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from novasched import errors
from novasched.decisions.decided import number
from novasched.inspection.questions import unchecked
from novasched.inspection.questions.capacity import zone_of
from novasched.inspection.questions.host import holders
from novasched.inspection.questions.plan import Tried, ask
from novasched.inspection.questions.reports import (
    BeatenBy,
    HeldBy,
    HostCondition,
    WhyNotReport,
)
from novasched.inspection.session import changes
from novasched.inspection.session.dry_run import DryRun
from novasched.inspection.session.orders import WhyNotOrder
from novasched.inspection.session.requests import DryRequest
from novasched.inspection.session.server_request import destined
from novasched.inspection.session.session import (
    Inspection,
    PlacementReader,
    ReadRecord,
)
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidates
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.hosts import HostState, HostTable
from novasched.scheduler.outline import why
from novasched.scheduler.reasons import Blocker, Code

LACKING: Mapping[str, str] = {
    Code.NOT_ENOUGH_PAGES: 'pages',
    Code.NOT_ENOUGH_DEDICATED_CPUS: 'pcpu',
    Code.PCI_DEVICES_MISSING: 'pci',
}
"""Things of a host that servers hold, by the code of the reason why it lacks them."""
PREFILTER = 'prefilters'
OFFER, NAMES = 'placement', 'request'


def answer(
    inspection: Inspection, order: WhyNotOrder, read: ReadRecord
) -> WhyNotReport:
    """Answer an order. Raises errors.OptionError, errors.DecisionNotFound and
    errors.StoreFailed."""
    if order.server:
        asked = inspection.maker.move(inspection.finder.one(order.server))
    else:
        asked = inspection.request(order, read)
    found = why_not(inspection.run, order.host, asked, inspection.placement)
    held = held_by(inspection, found, asked.request)
    left_out = inspection.cells_left_out()
    return replace(found, held_by=held, cells_left_out=left_out)


def why_not(
    run: DryRun,
    host: str,
    wanted: DryRequest,
    placement: PlacementReader | None = None,
) -> WhyNotReport:
    """Return the conditions of a request that a host meets, and its rank if it meets
    all. Raises errors.UnknownHost."""
    single = wanted.request.for_instance(wanted.uuids[0]).replaced(num_instances=1)
    uuids = wanted.uuids[:1]
    asked = DryRequest(_only(single, host), uuids)
    with run.question():
        try:
            tried = ask(run, asked)
        except errors.ExtensionFailed:  # a filter: _filters() says which
            tried = Tried(asked, None, run.log.recorders[-1], run.log.records[-1])
    table = changes.all_hosts(run, tried.recorder, None)
    table = table[table.host == host]
    view = run.reader.view
    if not len(table):
        known = view.hosts(None).host.tolist()
        raise errors.UnknownHost(host, known, list(view.unavailable_cells()))
    table = _node(tried, table)
    state, recorder = table.state(0), tried.recorder
    cell = view.cells.get(state.cell_uuid)
    judged = [
        *_names(single, state),
        *_placement(tried, state, placement),
        *(
            ()
            if _skips_filters(single)
            else _filters(run, table, changes.decided_request(recorder))
        ),
    ]
    report = WhyNotReport(
        host=host,
        node=state.nodename,
        zone=zone_of(
            state.aggregates, run.reader.driver.context.default_availability_zone
        ),
        cell=(cell.name or cell.uuid) if cell else state.cell_uuid,
        enabled=not state.service_disabled,
        up=bool(state.service_up),
        heard_from_s=_heard_from_s(state),
        fits=all(condition.passes for condition in judged),
        conditions=judged,
        notes=[
            *wanted.notes,
            *unchecked.sentences(run.enabled_checks, run.unchecked_demands(single)),
        ],
        cells_left_out=list(view.unavailable_cells()),
    )
    return _ranked(run, DryRequest(single, uuids), report) if report.fits else report


def held_by(
    inspection: Inspection, answer: WhyNotReport, request: RequestSpec
) -> HeldBy | None:
    """Return the servers that hold what a host lacks, the newest first.

    Returns None if it lacks nothing whose holders are known.
    """
    lacking = {**LACKING, Code.NUMA_DOES_NOT_FIT: _of_nodes(request)}
    for condition in answer.conditions:
        if kind := lacking.get(condition.code):
            every = holders(inspection, answer.host)
            found = [each for each in every if each.held(kind)]
            return HeldBy(kind, found) if found else None
    return None


def _of_nodes(request: RequestSpec) -> str:
    """Return the demands of the NUMA nodes of a request that others may hold."""
    topology = request.if_set('numa_topology')
    cells = topology.cells if topology is not None else ()
    if any((cell.if_set('pagesize') or 0) > 0 for cell in cells):
        return 'pages'
    return 'pcpu' if any(cell.if_set('pcpuset') for cell in cells) else ''


def _only(request: RequestSpec, host: str) -> RequestSpec:
    """Return the request for one host; a cell and aggregates that it names stay."""
    request = request.replaced(force_hosts=None, force_nodes=None, ignore_hosts=None)
    before = request.requested_destination
    if before is None:
        return destined(request, host)
    return request.replaced(requested_destination=before.replaced(host=host, node=None))


def _node(tried: Tried, nodes: HostTable) -> HostTable:
    """Return the node of a host that a question is about: the one that is picked, or
    else the first that is offered."""
    if tried.selections is not None:
        return nodes[nodes.nodename == tried.selections[0][0].nodename]
    offered = [_is_offered(state) for state in nodes.states()]
    first = offered.index(True) if any(offered) else 0
    return nodes[np.array([first])]


def _is_offered(host: HostState) -> bool:
    return host.allocation_candidates != [changes.ANY_CANDIDATE]


def _heard_from_s(host: HostState) -> int | None:
    seen = host.service.get('last_seen_up')
    if not isinstance(seen, datetime.datetime):
        return None
    now = SYSTEM_CLOCK.utcnow()
    return max(0, round((now - seen.replace(tzinfo=None)).total_seconds()))


def _names(request: RequestSpec, state: HostState) -> Iterator[HostCondition]:
    """Yield whether the host is one that the request names, and none it leaves out."""
    host, cell_uuid = state.host, request.target_cell_uuid
    if cell_uuid is not None:
        passes = state.cell_uuid == cell_uuid
        text = 'the server stays in its cell'
        yield _condition(NAMES, passes, Code.NOT_NAMED, text)
    forced = request.if_set('force_hosts') or ()
    if forced:
        passes = host.lower() in {name.lower() for name in forced}
        text = f'the request forces {", ".join(forced)}'
        yield _condition(NAMES, passes, Code.NOT_NAMED, text)
    destination = request.requested_destination
    named = destination.if_set('host') if destination is not None else None
    if named:
        text = f'the request names {named}'
        yield _condition(NAMES, named == host, Code.NOT_NAMED, text)
    ignored = request.if_set('ignore_hosts') or ()
    if ignored:
        passes = host.lower() not in {name.lower() for name in ignored}
        text = f'the request leaves out {", ".join(ignored)}'
        yield _condition(NAMES, passes, Code.NOT_NAMED, text)


def _placement(
    tried: Tried, host: HostState, placement: PlacementReader | None
) -> Iterator[HostCondition]:
    recorder = tried.recorder
    if recorder.blocker == Blocker.PREFILTER:
        yield _condition(PREFILTER, False, Code.REJECTED, str(recorder.error))
        return
    if not recorder.queries:
        return
    last = recorder.queries[-1]
    if _is_offered(host):
        yield _condition(OFFER, True, '', _free(last.answer, host))
        return
    reason = met = None
    if placement is not None:
        reason = placement.reason(last.query, host.uuid, host.host)
        met = placement.conditions(last.query, [host.uuid])
    failed = [name for name, mask in (met or {}).items() if not mask.all()]
    text = ', '.join(failed) or 'placement does not offer it'
    yield _condition(OFFER, False, reason or Code.REJECTED, text)


def _free(answer: Any, host: HostState) -> str:
    """Return the free amounts of the requested classes, by placement."""
    if not isinstance(answer, Candidates):
        return ''
    wanted: dict[str, str] = {}
    for uuid, allocation in host.allocation_candidates[0]['allocations'].items():
        resources = answer.summaries.get(uuid, {}).get('resources', {})
        for name in allocation['resources']:
            if (said := resources.get(name)) is not None:
                free = said['capacity'] - said['used']
                wanted[name] = f'{name} {free} free of {said["capacity"]}'
    return ' · '.join(wanted.values())


def _skips_filters(request: RequestSpec) -> bool:
    forced = request.if_set('force_hosts') or request.if_set('force_nodes')
    return bool(forced) and not request.checks_type


def _filters(
    run: DryRun, table: HostTable, request: RequestSpec
) -> Iterator[HostCondition]:
    """Ask each filter about the host; what one that passes writes is seen by the
    next. One that raises is not passed, as it would end a request."""
    for filter_ in run.reader.profile.filters:
        try:
            passed = filter_.apply(table, request)
        except Exception as problem:  # noqa: BLE001 a plugin may raise anything
            text = f'could not be asked: {type(problem).__name__}: {problem}'
            yield _condition(filter_.name, False, Code.REJECTED, text)
            continue
        if passed is not None and len(passed):
            yield _condition(filter_.name, True)
            table = passed
            continue
        reason = why(filter_, table.state(0), request)
        text = reason.text if hasattr(reason, 'text') else str(reason)
        yield _condition(filter_.name, False, str(reason.code), text)


def _condition(
    name: str, passes: bool, code: str = '', text: str = ''
) -> HostCondition:
    return HostCondition(name, passes, '' if passes else str(code), text)


def _ranked(run: DryRun, wanted: DryRequest, report: WhyNotReport) -> WhyNotReport:
    """Add the place of the host among all that fit, and what the best one has more."""
    with run.question():
        tried = ask(run, wanted)
    decided = [t.decision for t in tried.recorder.turns if t.decision is not None]
    if not decided:
        return report
    decision, host = decided[0], report.host
    names = decision.ranked.host.tolist()
    if host not in names:
        return replace(report, of=len(names))
    report = replace(report, rank=names.index(host) + 1, of=len(names))
    if report.rank == 1:
        return report
    places = decision.weighed.hosts.host
    best = int(np.flatnonzero(places == names[0])[0])
    own = int(np.flatnonzero(places == host)[0])
    ahead = {
        each.name: number(each.scores[best] - each.scores[own])
        for each in decision.weighed.weighings
    }
    # Those that gave no number come first.
    leading = sorted(
        ((name, by) for name, by in ahead.items() if by is None or by > 0),
        key=lambda each: -math.inf if each[1] is None else -each[1],
    )
    by = number(decision.totals[0] - decision.totals[names.index(host)])
    return replace(report, beaten_by=BeatenBy(names[0], by, dict(leading)))
