# SPDX-License-Identifier: Apache-2.0
"""What the console shows, read from the decision logs, the databases and placement."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import functools
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar, cast

from oslo_config import cfg

from novasched import app, errors
from novasched.commands import sources
from novasched.console.bulkhead import Bulkhead
from novasched.console.cached_session import (
    HOSTS_AGE_S,
    SLOTS_AGE_S,
    WORK_S,
    CachedCloud,
    CachedSession,
)
from novasched.decisions import files
from novasched.decisions.listing import CountPage, DecisionPage, listed
from novasched.decisions.reading import Criteria
from novasched.decisions.record import DecisionRecord
from novasched.external.silent import SilentNotifier
from novasched.inspection.questions import capacity, host, plan, unchecked, why_not
from novasched.inspection.questions.all_decisions import AllDecisions
from novasched.inspection.questions.explain import Explanation, explanation
from novasched.inspection.questions.reports import (
    AnyPlan,
    CapacityReport,
    HeatReport,
    HostReport,
    HostsReport,
    Overview,
    SlotsRow,
    WhyNotReport,
)
from novasched.inspection.questions.shadow import ShadowReport
from novasched.inspection.session.orders import (
    AnyPlanOrder,
    CapacityOrder,
    HostsOrder,
    PlanOrder,
    ShadowOrder,
    WhyNotOrder,
)
from novasched.inspection.session.session import Inspection
from novasched.observability.health import FAIL, PASS, WARN, Check, overall, stamp
from novasched.placement import session as placement_session
from novasched.policy_lab.run_list import LabReport, lab_report
from novasched.process import configuration, opts
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

Question = TypeVar('Question', bound=Callable[..., Any])
Report = dict[str, Any]

WINDOW_S = 3600.0
OVERVIEW_AGE_S = 2.0
DECISION_AGE_S = 2.0
SHADOW_AGE_S = 10.0
HAS_SHADOW_AGE_S, HAS_SHADOW_S = 60.0, 0.5
"""Pages only link to the shadow: they do not wait long for it."""
FLAVORS_AGE_S, FLAVORS_S = 60.0, 3.0
"""Pages only suggest flavors: they do not wait long for them."""
HEALTH_AGE_S = 5.0
FREE_SLOTS_S = 8.0
"""How long free slots may take; less than a client waits."""
POLICY_AGE_S = 60.0
FREE_SLOTS_AGE_S = 60.0
OWN_LOG_AGE_S = 60.0
"""How often it is looked whether this machine has begun to keep decisions."""
MOST_DECISIONS_KEPT = 8
"""Explanations with every host that are kept: megabytes each."""


CHECK_S = 3.0
"""How long a component may take to answer."""

OVERVIEWS, LOOKUPS, PLANS, CHECKS = 'overviews', 'lookups', 'plans', 'checks'
COUNTS, COMPONENTS = 'questions about the cloud', 'components'
NAVIGATION = 'navigation'
"""Kinds of questions; each has its own threads."""

Checks = dict[str, Check]


def _answered(
    kind: str, max_age_s: float = 0.0, within_s: float | None = None
) -> Callable[[Question], Question]:
    """Have a method of Cloud answer in the threads of a kind; equal calls share an
    answer, as Bulkhead.ask() says."""

    def decorate(method: Question) -> Question:
        @functools.wraps(method)
        def ask(cloud: Cloud, *given: Hashable) -> Any:
            question = functools.partial(method, cloud, *given)
            key = method.__name__, *given
            return cloud.bulkheads[kind].ask(key, question, max_age_s, within_s)

        return cast(Question, ask)

    return decorate


class Cloud:
    """Reads a cloud for the console. Close it in the end.

    Many threads may ask. Decisions, the cloud as it is, plans and health have their own
    threads. Each answer is a JSON object. All methods raise errors.OptionError for
    wrong arguments, errors.Busy under overload, and other errors.NovaschedError if
    something does not answer.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        read: app.Sources,
        clock: Clock = SYSTEM_CLOCK,
        work_s: float = WORK_S,
    ) -> None:
        self._conf = configuration.copied(conf, dict(opts.list_opts()))
        self._flavors = self._conf.novasched_console.flavors
        self._sources = read
        self._session = CachedSession(self._conf, read, clock, work_s)
        self._clock = clock
        # Half of the server's threads are left for questions of other kinds.
        most = max(1, self._conf.novasched_console.threads // 2)
        kind = functools.partial(Bulkhead, most_clients=most, clock=clock)
        self.bulkheads = {
            OVERVIEWS: kind(OVERVIEWS, 1),
            LOOKUPS: kind(LOOKUPS, 2, most_kept=MOST_DECISIONS_KEPT),
            COUNTS: kind(COUNTS, 1),
            PLANS: kind(PLANS, 2, most_waiting=0),
            CHECKS: kind(CHECKS, 1),
            NAVIGATION: kind(NAVIGATION, 1),
            # Databases, placement, decisions, policy and free slots: each has a thread.
            COMPONENTS: Bulkhead(COMPONENTS, 5, clock=clock),
        }
        self._lock = threading.Lock()
        self._closing = contextlib.ExitStack()
        self._merged: AllDecisions | None = None
        self._look_at = clock.monotonic() + OWN_LOG_AGE_S
        self._said = LogOnce()

    def close(self) -> None:
        """Close all that was opened."""
        for bulkhead in self.bulkheads.values():
            bulkhead.close()
        self._closing.close()
        self._session.close()

    # -- decisions

    def _decisions(self) -> AllDecisions:
        """Return the decisions of all schedulers; the log of this machine is in them
        once there is one."""
        with self._lock:
            if self._merged is None or self._has_begun(self._merged):
                self._merged = sources.sources(self._conf, warn=self._warn)
                self._closing.callback(self._merged.close)
            return self._merged

    def _has_begun(self, merged: AllDecisions) -> bool:
        """Return whether this machine has a log now that it had not."""
        now = self._clock.monotonic()
        if merged.has_own or now < self._look_at:
            return False
        self._look_at = now + OWN_LOG_AGE_S
        with contextlib.suppress(errors.OptionError):
            files.existing(self._conf)
            return True
        return False

    def _warn(self, text: str) -> None:
        """Log what cannot be read, once."""
        if self._said.begins(text, text):
            LOG.warning('%s', text)

    @_answered(OVERVIEWS, OVERVIEW_AGE_S)
    def overview(self) -> Overview:
        """Return the last hour of all schedulers."""
        return self._decisions().overview(WINDOW_S)

    @_answered(LOOKUPS)
    def decisions(
        self, criteria: Criteria, before: str | None, limit: int
    ) -> DecisionPage:
        """List as ``novasched decisions list`` does."""
        merged = self._decisions()
        found = merged.find(criteria, limit + 1, before)
        heads = found[:limit]
        servers = merged.servers_of([head.id for head in heads])
        following = heads[-1].id if len(found) > limit else None
        return DecisionPage(listed(heads, servers), following, merged.unanswered)

    @_answered(LOOKUPS, DECISION_AGE_S)
    def count(self, by: str, criteria: Criteria) -> CountPage:
        """Count as ``novasched decisions count`` does."""
        merged = self._decisions()
        return CountPage(merged.count(by, criteria), merged.unanswered)

    @_answered(LOOKUPS, DECISION_AGE_S)
    def decision(self, decision: str, index: int | None) -> Explanation | None:
        """Return the explanation with every host, or None."""
        merged = self._decisions()
        try:
            record = merged.read(decision)
        except errors.DecisionNotFound:
            return None
        if record is None:
            return None
        made = explanation(record, index, True, self._clock.time())
        return dataclasses.replace(made, unanswered=merged.unanswered)

    @_answered(LOOKUPS, SHADOW_AGE_S)
    def shadow(self, order: ShadowOrder) -> ShadowReport:
        """Answer as ``novasched shadow report`` does."""
        return self._decisions().shadow(order)

    @_answered(NAVIGATION, HAS_SHADOW_AGE_S, HAS_SHADOW_S)
    def has_shadow(self) -> bool:
        """Return whether a shadow has compared anything."""
        return self._decisions().has_compared()

    def has_lab(self) -> bool:
        """Return whether runs of the policy lab are shown."""
        return bool(self._conf.novasched_console.lab_dir)

    @_answered(LOOKUPS, DECISION_AGE_S)
    def lab(self, run: str) -> LabReport:
        """Return the runs of the policy lab, and one of them; '' is the newest."""
        return lab_report(self._conf.novasched_console.lab_dir, run)

    # -- plans

    @_answered(PLANS)
    def plan(self, order: AnyPlanOrder) -> AnyPlan:
        """Answer as ``novasched plan`` does; one of new servers says how the first was
        decided, whatever ended the request."""
        with self._session.dry_run(order.what_if, order.seed) as inspection:
            found = plan.answer(inspection, order, self._record)
            if isinstance(order, PlanOrder) and not order.explain:
                first = inspection.run.log.records[:1]
                explained = [explanation(each, 0) for each in first]
                found = dataclasses.replace(found, explanations=explained)
            return found

    @_answered(PLANS)
    def why_not(self, order: WhyNotOrder) -> WhyNotReport:
        """Answer as ``novasched why-not`` does."""
        with self._session.dry_run(order.what_if, order.seed) as inspection:
            return why_not.answer(inspection, order, self._record)

    @_answered(PLANS)
    def _changed_capacity(self, order: CapacityOrder) -> CapacityReport:
        with self._session.dry_run(order.what_if) as inspection:
            return _counted(inspection, order)

    def _record(self, name: str) -> DecisionRecord:
        """Return the record of a decision. Raises errors.OptionError."""
        try:
            found = self._decisions().read(name)
        except (errors.DecisionNotFound, errors.AmbiguousDecision) as problem:
            raise errors.OptionError(
                'like', str(problem), 'Give the whole id'
            ) from problem
        if found is None:
            raise errors.OptionError(
                'like', 'no such decision is kept', 'Give a flavor'
            )
        return found

    # -- the cloud

    def capacity(self, order: CapacityOrder) -> CapacityReport:
        """Count as ``novasched capacity --stranded`` does."""
        is_planned = order.what_if or order.fresh
        return self._changed_capacity(order) if is_planned else self._capacity(order)

    @_answered(COUNTS, SLOTS_AGE_S)
    def _capacity(self, order: CapacityOrder) -> CapacityReport:
        cloud = self._session.for_question()
        return _counted(cloud.inspection, order, cloud.capacity)

    @_answered(COUNTS, HOSTS_AGE_S)
    def heat(self, flavor: str) -> HeatReport:
        """Return the slots of a flavor by zone and aggregate."""
        cloud = self._session.for_question()
        groups = cloud.hosts().groups(_slots(cloud, flavor))
        return HeatReport(flavor, groups, _unavailable(cloud))

    @_answered(COUNTS, HOSTS_AGE_S)
    def hosts(self, order: HostsOrder) -> HostsReport:
        """Return a page of hosts, and values to choose hosts by."""
        cloud = self._session.for_question()
        slots = _slots(cloud, order.flavor) if order.flavor else None
        found = cloud.hosts().page(order, slots)
        problem = cloud.problem or None
        return dataclasses.replace(
            found, cells_left_out=_unavailable(cloud), problem=problem
        )

    @_answered(COUNTS, HOSTS_AGE_S)
    def host(self, name: str) -> HostReport:
        """Answer as ``novasched host --long`` does."""
        cloud, merged = self._session.for_question(), self._decisions()
        found = host.report(
            cloud.inspection,
            name,
            merged,
            capacity=cloud.capacity,
        )
        return dataclasses.replace(found, unanswered=merged.unanswered)

    @_answered(COUNTS, FLAVORS_AGE_S, FLAVORS_S)
    def flavors(self) -> list[str]:
        """Return the names of the flavors that servers have."""
        found = capacity.flavors_in_use(self._session.for_question().inspection)
        return [str(flavor.name) for flavor in found]

    # -- health

    @_answered(CHECKS, HEALTH_AGE_S)
    def health(self) -> Report:
        """Return ``status`` (pass, warn, fail), ``checks`` by name, and ``free_slots``.

        Checks are the scheduler's; those that do not answer in time are named.
        ``free_slots`` has ``[flavor, zone, number]`` for the configured flavors.
        """
        began = SYSTEM_CLOCK.monotonic()
        start = self.bulkheads[COMPONENTS].start
        waiting = {
            ('api_database', FAIL): start('databases', self._databases),
            ('placement', FAIL): start('placement', self._placement),
            ('decisions', WARN): start('decisions', self._logs),
            ('policy', WARN): start('policy', self._policy, POLICY_AGE_S),
        }
        slots = start('free slots', self._free_slots)
        checks: Checks = {}
        for (name, status), future in waiting.items():
            checks |= _checks_of(name, status, future, began + CHECK_S)
        longest_s = CHECK_S if overall(checks.values()) == FAIL else FREE_SLOTS_S
        left_s = began + longest_s - SYSTEM_CLOCK.monotonic()
        concurrent.futures.wait([slots], max(0.0, left_s))
        return {
            'status': overall(checks.values()),
            'checks': {name: each.to_dict() for name, each in sorted(checks.items())},
            'free_slots': slots.result() if slots.done() else [],
        }

    def _databases(self) -> Checks:
        inspection = self._session.current().inspection
        inspection.api.cells()
        view = inspection.run.reader.view
        unavailable = view.unavailable_cells()
        found = {'api_database': _checked('', FAIL)}
        for cell in view.cells.enabled():
            name = cell.name or cell.uuid
            problem = 'it does not answer; its hosts are left out'
            found[f'cell {name}'] = _checked(
                problem if name in unavailable else '', WARN
            )
        return found

    def _placement(self) -> Checks:
        problem = placement_session.check(self._sources.placement)
        return {'placement': _checked(problem or '', WARN)}

    def _logs(self) -> Checks:
        schedulers = self.overview().schedulers
        problems = self._decisions().warnings
        if not schedulers:
            problems.insert(0, 'neither this machine nor another keeps decisions')
        return {'decisions': _checked('; '.join(problems), WARN)}

    def _policy(self) -> Checks:
        inspection = self._session.current().inspection
        if (enabled := inspection.run.enabled_checks) is None:
            return {}
        said = unchecked.sentences_on_store(enabled, inspection.api)
        return {'policy': _checked('; '.join(said), WARN)}

    def _free_slots(self) -> list[list[Any]]:
        """Return the slots of the configured flavors, of those that can be counted."""
        found: list[list[Any]] = []
        for name in self._flavors:
            try:
                rows = self._free(name)
            except errors.NovaschedError as problem:
                self._warn(f'The slots of {name} are not counted: {problem}')
                continue
            found += [[name, row.by or '', row.slots] for row in rows]
        return found

    @_answered(COUNTS, FREE_SLOTS_AGE_S)
    def _free(self, flavor: str) -> Sequence[SlotsRow]:
        cloud, order = self._session.for_question(), CapacityOrder((flavor,), 'zone')
        return capacity.answer(
            cloud.inspection, order, False, capacity.MOST_FLAVORS, cloud.capacity
        ).rows


@contextlib.contextmanager
def opened(
    conf: cfg.ConfigOpts,
    read: app.Sources | None = None,
    clock: Clock = SYSTEM_CLOCK,
    work_s: float = WORK_S,
) -> Iterator[Cloud]:
    """Return a reader of the cloud that a configuration names; close it in the end.

    Nothing is asked yet. ``read`` is what it reads instead of what is configured, and
    ``work_s`` is how long the work for one page may take.
    Raises errors.SetupError.
    """
    with contextlib.ExitStack() as stack:
        if read is None:
            known = configuration.copied(conf, dict(opts.list_opts()))
            reading = app.reading_sources(known, SilentNotifier())
            read = stack.enter_context(reading)
        cloud = Cloud(conf, read, clock, work_s)
        stack.callback(cloud.close)
        yield cloud


def _counted(
    inspection: Inspection,
    order: CapacityOrder,
    kept: capacity.Capacity | None = None,
) -> CapacityReport:
    """Return the slots of flavors; ``kept`` knows slots that were counted before.
    Raises errors.OptionError."""
    by_host = order.by == 'host'
    most = capacity.MOST_BY_HOST if by_host else capacity.MOST_FLAVORS
    return capacity.answer(inspection, order, True, most, kept)


def _slots(cloud: CachedCloud, name: str) -> capacity.HostSlots:
    """Return the slots of a flavor. Raises errors.OptionError where none can be had."""
    flavor = cloud.inspection.flavor(name)
    try:
        return cloud.capacity.of_flavor(cloud.inspection, flavor)
    except capacity.REFUSALS as problem:
        raise errors.OptionError(
            'flavor', str(problem), 'Name another one'
        ) from problem


def _unavailable(cloud: CachedCloud) -> list[str]:
    return list(cloud.inspection.run.reader.view.unavailable_cells())


def _checked(problem: str, status: str) -> Check:
    """Return a check that passes, or one of ``status`` if there is a problem."""
    now = stamp(SYSTEM_CLOCK.utcnow())
    return Check(status if problem else PASS, now, problem)


def _checks_of(
    name: str, status: str, asked: Future[Checks], deadline_s: float
) -> Checks:
    """Return the checks of a component; of ``status`` if it fails, or does not answer
    by the deadline."""
    try:
        return asked.result(max(0.0, deadline_s - SYSTEM_CLOCK.monotonic()))
    except TimeoutError:
        return {name: _checked(f'it did not answer within {CHECK_S:g} s', status)}
    except errors.NovaschedError as problem:
        return {name: _checked(str(problem), status)}
