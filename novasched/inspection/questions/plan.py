# SPDX-License-Identifier: Apache-2.0
"""Plans: where servers would go that boot, move or leave hosts. Nothing is claimed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from novasched import errors
from novasched.decisions.record import DecisionRecord
from novasched.decisions.recording import RequestRecorder
from novasched.inspection.questions import unchecked
from novasched.inspection.questions.explain import explanation
from novasched.inspection.questions.reports import (
    AnyPlan,
    BootPlan,
    DrainedHost,
    DrainPlan,
    HelpfulChange,
    MovePlan,
    PlacedServer,
    TakenHost,
    Tightest,
    UnplacedServers,
)
from novasched.inspection.session import changes, places, remaining_slots
from novasched.inspection.session.dry_run import DryRun
from novasched.inspection.session.orders import (
    AnyPlanOrder,
    DrainOrder,
    MoveOrder,
    PlanOrder,
)
from novasched.inspection.session.requests import DryRequest, RequestMaker
from novasched.inspection.session.servers import FoundServer
from novasched.inspection.session.session import Inspection, ReadRecord
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports import Candidates
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.times import SECONDS
from novasched.scheduler.reasons import Blocker

ROW = ('free_ram_mb', 'free_disk_mb', 'vcpus_used', 'num_instances', 'num_io_ops')
"""Columns of a host that a plan depends on, beside what placement says."""
ID_LENGTH = 6
BAD_REQUEST = 400
MOST_FLAVORS = 5
"""Flavors of a drain of which it is counted how many more have a place."""

Progress = Callable[[str], None]
Report = TypeVar('Report', BootPlan, MovePlan, DrainPlan)


@dataclass(frozen=True)
class Tried:
    """The outcome of one dry request: selections, None where there is no host for
    some server."""

    wanted: DryRequest
    selections: list[list[Selection]] | None
    recorder: RequestRecorder
    record: DecisionRecord

    @property
    def fitting(self) -> int:
        """Number of servers of the request that got a host before one did not."""
        if self.selections is not None:
            return len(self.selections)
        last = self.recorder.turns[-1] if self.recorder.turns else None
        return last.index if last is not None and last.host is None else 0


@dataclass
class Plan:
    """A plan while it is made."""

    run: DryRun
    conditions: changes.Conditions | None = None
    tried: list[Tried] = field(default_factory=list)
    placed: list[PlacedServer] = field(default_factory=list)
    unplaced: list[UnplacedServers] = field(default_factory=list)
    changes: list[HelpfulChange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    demands: list[unchecked.Demand] = field(default_factory=list)

    def add(self, wanted: DryRequest) -> None:
        """Ask for the servers of a request, and for those that fit if not all do.

        Raises what a request raises, but errors.NoValidHost.
        """
        self.notes += wanted.notes
        self.demands += self.run.unchecked_demands(wanted.request)
        left = wanted
        while left.uuids:
            tried = ask(self.run, left)
            while tried.selections is None and (fits := tried.fitting):
                tried = ask(self.run, _part(left, 0, fits))
            if tried.selections is None and len(left.uuids) > 1:
                tried = ask(self.run, _part(left, 0, 1))
            self.tried.append(tried)
            if tried.selections is None:
                self._refused(tried, left)
                return
            placed = len(tried.selections)
            for uuid, each in zip(left.uuids, tried.selections, strict=False):
                self.placed.append(_placed(wanted, uuid, each))
            left = _part(left, placed, len(left.uuids))

    def _refused(self, failed: Tried, left: DryRequest) -> None:
        self.unplaced.append(
            UnplacedServers(
                left.uuids[0],
                left.name,
                left.flavor_name,
                len(left.uuids),
                explanation(failed.record),
            )
        )
        if not self.changes:
            self.changes = changes.suggest_changes(
                self.run, failed.recorder, self.conditions
            )

    def add_server(self, server: FoundServer, make: Callable[[], DryRequest]) -> None:
        """Ask for a server; it has no place where there is no request for it, or one
        that nothing can be decided about."""
        try:
            self.add(make())
        except (
            errors.RequestNotKept,
            errors.InvalidRequest,
            errors.ExtensionFailed,
        ) as problem:
            self.unplaced.append(
                UnplacedServers(server.uuid, server.name, '', 1, None, str(problem))
            )

    def report(self, kind: type[Report], **more: Any) -> Report:
        """Return the answer; docs/reference/plan.md has every field."""
        offered = [each.record.head.candidates for each in self.tried]
        now, copy = SYSTEM_CLOCK.utcnow(), self.run.offered_by()
        age_s = SYSTEM_CLOCK.monotonic() - copy.as_of if copy else 0.0
        return kind(
            fits=len(self.placed),
            asked=len(self.placed) + sum(each.count for each in self.unplaced),
            offered=max(0, offered[0]) if offered else None,
            placed=self.placed,
            unplaced=self.unplaced,
            changes=self.changes,
            notes=[
                *self.notes,
                *unchecked.sentences(self.run.enabled_checks, self.demands),
            ],
            as_of=now.strftime(SECONDS),
            placement_age_s=round(age_s, 1),
            cells_left_out=list(self.run.reader.view.unavailable_cells()),
            seed=self.run.seed,
            plan_id=self._id(),
            **more,
        )

    def _id(self) -> str:
        """Return the hash of what the answer depends on: policy, rows of the hosts
        that were picked, and what placement says of their providers."""
        policies = [
            each.explanation.policy for each in self.unplaced if each.explanation
        ]
        parts: list[Any] = [sorted(p.items(), key=str) for p in policies if p]
        parts += [(each.flavor, each.count) for each in self.unplaced]
        for tried in self.tried:
            parts += [tried.record.body.profile, *_dependencies(tried)]
        return _id_of(repr(parts))


def _id_of(text: str) -> str:
    return f'p-{hashlib.blake2b(text.encode()).hexdigest()[:ID_LENGTH]}'


def answer(
    inspection: Inspection,
    order: AnyPlanOrder,
    read: ReadRecord,
    progress: Progress = lambda text: None,
) -> AnyPlan:
    """Answer an order; ``read`` returns the record of a decision. Raises
    errors.OptionError, errors.DecisionNotFound and errors.StoreFailed."""
    if order.fresh:
        inspection.copies.renew()
    run, conditions = inspection.run, inspection.placement.conditions
    maker, finder = inspection.maker, inspection.finder
    report: AnyPlan
    if isinstance(order, PlanOrder):
        wanted = inspection.request(order, read, order.host)
        report = boot(run, wanted, conditions)
    elif isinstance(order, MoveOrder):
        flavor = inspection.flavor(order.flavor) if order.flavor else None
        places.check(run, '', order.to, '--to')
        servers = [finder.one(name) for name in order.servers]
        hosts = {each.row.host for each in servers if each.row.host}
        leaves = sorted(hosts) if order.evacuate else ()
        asked = functools.partial(
            maker.move, leaves=leaves, flavor=flavor, to=order.to or None
        )
        report = move(run, servers, asked, conditions)
    else:
        assert isinstance(order, DrainOrder)
        named = places.within(run, order)
        planned = drain_one_of if order.one_of and named else drain
        report = planned(run, maker, finder.on(named), named, conditions, progress)
    left_out = [*report.cells_left_out, *inspection.cells_left_out()]
    explained = [explanation(r) for r in run.log.records] if order.explain else None
    return replace(
        report,
        cells_left_out=list(dict.fromkeys(left_out)),
        explanations=explained,
    )


def ask(run: DryRun, wanted: DryRequest) -> Tried:
    """Ask as a conductor does.

    Raises deadline.TookTooLong at the end of the time, errors.OptionError for what
    placement does not know, and errors.StoreFailed where it does not answer.
    """
    run.check()
    request = wanted.request
    context = RequestContext(
        user_id=request.if_set('user_id'),
        project_id=request.if_set('project_id'),
        overwrite=False,
    )
    found: Any = None
    with contextlib.suppress(errors.NoValidHost):
        found = run.reader.manager.select_destinations(
            context, request, wanted.uuids, True, True, check=run.check
        )
    record = run.log.records[-1]
    if found is None and record.head.blocker == Blocker.PLACEMENT_FAILED:
        answer = record.body.asked[-1]
        status, text = answer.status, (answer.text or '').rstrip('. ')
        if status == BAD_REQUEST:
            remedy = 'Name traits and resource classes that placement knows'
            raise errors.OptionError('The request', f'placement says: {text}', remedy)
        if not status:
            raise errors.StoreUnreachable('Placement', text)
        raise errors.StoreFailed('Placement', f'HTTP {status}: {text}')
    return Tried(wanted, found, run.log.recorders[-1], run.log.records[-1])


def boot(
    run: DryRun, wanted: DryRequest, conditions: changes.Conditions | None = None
) -> BootPlan:
    """Plan new servers; ``hosts`` are those that they take, in that order."""
    plan = Plan(run, conditions)
    left: Mapping[str, int] = {}
    with run.question():
        plan.add(wanted)
        if len(plan.tried) == 1:
            nodes = Counter((each.host, each.node) for each in plan.placed)
            left = remaining_slots.of_hosts(run, plan.tried[0].recorder, nodes)
    taken = Counter(each.host for each in plan.placed)
    others = {each.host: each.alternates for each in reversed(plan.placed)}
    hosts = [
        TakenHost(host, servers, left.get(host), others[host])
        for host, servers in taken.items()
    ]
    return plan.report(BootPlan, hosts=hosts)


def move(
    run: DryRun,
    servers: Iterable[FoundServer],
    make: Callable[[FoundServer], DryRequest],
    conditions: changes.Conditions | None = None,
) -> MovePlan:
    """Plan moves, one after the other; ``make`` returns the request of each."""
    plan = Plan(run, conditions)
    with run.question():
        for each in servers:
            plan.add_server(each, functools.partial(make, each))
    return plan.report(MovePlan)


def drain(
    run: DryRun,
    maker: RequestMaker,
    servers: Sequence[FoundServer],
    leaves: Sequence[str],
    conditions: changes.Conditions | None = None,
    progress: Progress = lambda text: None,
) -> DrainPlan:
    """Plan that servers leave their hosts, the largest first; none goes to one of
    ``leaves``."""
    plan = Plan(run, conditions)
    ordered = sorted(servers, key=_largest_first)
    with run.question():
        for number, server in enumerate(ordered, 1):
            progress(f'{number} of {len(ordered)} servers')
            plan.add_server(server, functools.partial(maker.move, server, leaves))
        tightest = _tightest(plan)
    return plan.report(DrainPlan, tightest=tightest)


def _tightest(plan: Plan) -> Tightest | None:
    """Return the flavor of which the fewest more have a place after a drain."""
    newest = {_kind(each.recorder.request): each.recorder for each in plan.tried}
    counted = []
    for recorder in list(newest.values())[:MOST_FLAVORS]:
        slots = remaining_slots.in_all(plan.run, recorder)
        if slots is not None:
            counted.append((slots, recorder.request))
    if not counted:
        return None
    slots, request = min(counted, key=lambda each: each[0])
    name, zone = request.flavor.if_set('name'), request.if_set('availability_zone')
    return Tightest(name or '', zone, slots)


def _kind(request: RequestSpec) -> tuple[Any, ...]:
    group, flavor = request.if_set('instance_group'), request.flavor
    size = flavor.vcpus, flavor.memory_mb, flavor.if_set('name')
    return *size, request.if_set('availability_zone'), group is None


def drain_one_of(
    run: DryRun,
    maker: RequestMaker,
    servers: Sequence[FoundServer],
    hosts: Sequence[str],
    conditions: changes.Conditions | None = None,
    progress: Progress = lambda text: None,
) -> DrainPlan:
    """Plan the loss of each of the hosts alone; all others stay. The answer counts
    hosts whose servers all have a place; ``hosts`` has the numbers of each."""
    reports: dict[str, DrainPlan] = {}
    for number, host in enumerate(hosts, 1):
        progress(f'{number} of {len(hosts)} hosts')
        own = [each for each in servers if each.row.host == host]
        reports[host] = drain(run, maker, own, [host], conditions)
    stuck = [each for each in reports.values() if not each.all_fit]
    return replace(
        next(iter([*stuck, *reports.values()])),
        fits=len(reports) - len(stuck),
        asked=len(reports),
        placed=[],
        tightest=None,
        unplaced=[entry for each in stuck for entry in each.unplaced],
        notes=list(dict.fromkeys(n for r in reports.values() for n in r.notes)),
        hosts=[DrainedHost(h, each.fits, each.asked) for h, each in reports.items()],
        plan_id=_id_of(''.join(each.plan_id for each in reports.values())),
    )


def _largest_first(server: FoundServer) -> tuple[int, int, str]:
    return -server.row.memory_mb, -server.row.vcpus, server.uuid


def _part(wanted: DryRequest, start: int, end: int) -> DryRequest:
    """Return the request for some of the servers of another."""
    uuids, request = wanted.uuids[start:end], wanted.request
    if uuids:
        request = request.for_instance(uuids[0]).replaced(num_instances=len(uuids))
    return DryRequest(request, uuids, wanted.name)


def _placed(
    wanted: DryRequest, uuid: str, selections: Sequence[Selection]
) -> PlacedServer:
    chosen, *others = selections
    return PlacedServer(
        uuid,
        wanted.name,
        wanted.flavor_name,
        chosen.service_host,
        chosen.nodename,
        [each.service_host for each in others],
    )


def _dependencies(tried: Tried) -> Iterable[Any]:
    """Yield what the hosts that were picked are like."""
    recorder = tried.recorder
    answer = recorder.queries[-1].answer if recorder.queries else None
    summaries = answer.summaries if isinstance(answer, Candidates) else {}
    decisions = [turn.decision for turn in recorder.turns if turn.decision is not None]
    if not decisions:
        return
    table = decisions[0].hosts
    for each in tried.selections or ():
        yield each[0].service_host
        for place in np.flatnonzero(table.host == each[0].service_host).tolist():
            host = table.state(place)
            yield [getattr(host, name) for name in ROW]
            yield sorted(summaries.get(host.uuid, {}).get('resources', {}).items())
