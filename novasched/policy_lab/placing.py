# SPDX-License-Identifier: Apache-2.0
"""Places instances in a cloud in memory.

The manager of a scheduler does it, or the decision alone: several times faster, with
the same hosts.
"""

from __future__ import annotations

import functools
import itertools
import random
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from novasched import errors
from novasched.cluster.snapshot import limits_column
from novasched.compat import driver_loading
from novasched.drivers import DriverContext
from novasched.external.silent import SilentNotifier
from novasched.inspection.session.server_request import request_spec
from novasched.manager.attempts import RequestAttempts
from novasched.manager.candidate_query import QueryPolicy
from novasched.manager.manager import SchedulerManager
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec
from novasched.policy_lab.cloud import LabCloud, LabPlacement, LabView, Placed
from novasched.policy_lab.policy import Policy
from novasched.policy_lab.trace import TraceFlavor
from novasched.ports.decisions import DecisionLog, DecisionRecorder
from novasched.releases import NEWEST
from novasched.scheduler.columns import Categories
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.hosts import HostTable, consume
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Blocker
from novasched.scheduler.successive import decide_next
from novasched.scheduler.trace import Decision, Weighing
from novasched.scheduler.weighers import Weigher, bounds

PLACEMENT = 'placement'
"""The step that took the last host where there are no candidates."""
NO_SPECS: Mapping[str, str] = MappingProxyType({})
NEW = '00000000-0000-4000-8000-000000000000'


def request_of(
    flavor: TraceFlavor, number: int = 1, extra_specs: Mapping[str, str] = NO_SPECS
) -> RequestSpec:
    """Return the request for an instance of a flavor, whose id is a number."""
    made = Flavor(
        id=number,
        name=flavor.name,
        flavorid=flavor.name,
        vcpus=flavor.vcpus,
        memory_mb=flavor.ram_mb,
        root_gb=flavor.disk_gb,
        ephemeral_gb=0,
        swap=0,
        rxtx_factor=1.0,
        vcpu_weight=None,
        is_public=True,
        disabled=False,
        extra_specs=dict(extra_specs),
    )
    return request_spec(NEW, made, {}, project_id='lab', user_id='lab')


class RefusalLog(DecisionLog, DecisionRecorder):
    """Remembers which step left no host in the last request."""

    def __init__(self) -> None:
        self.step = PLACEMENT

    def recorder(self, *request: Any) -> DecisionRecorder:
        self.step = PLACEMENT
        return self

    def blocked(self, blocker: Blocker, plugin: str = '') -> None:
        self.step = plugin or PLACEMENT

    def decided(self, decision: Decision, index: int | None = None) -> None:
        self.step = _last_step(decision)


def _last_step(decision: Decision) -> str:
    if len(decision.ranked) or not decision.steps:
        return PLACEMENT
    return decision.steps[-1].filter.name


class ManagedPlacer:
    """Asks the manager of a scheduler, as a conductor would."""

    def __init__(
        self,
        cloud: LabCloud,
        policy: Policy,
        rng: random.Random,
        log: RefusalLog | None = None,
    ) -> None:
        self._cloud = cloud
        self._fitting = policy.profile.fitting
        self._placement = LabPlacement(cloud)
        self._log = log or RefusalLog()
        view: Any = LabView(cloud)
        network: Any = None  # requests have no ports
        context = DriverContext(
            profile=policy.profile,
            view=view,
            placement=self._placement,
            rng=rng,
        ).claimless()
        attempts = RequestAttempts(
            driver=driver_loading.driver_from_conf(policy.conf, context),
            view=view,
            placement=self._placement,
            notifier=SilentNotifier(),
            query_policy=QueryPolicy.from_conf(policy.conf, NEWEST),
            network=network,
        )
        self._manager = SchedulerManager(attempts, self._log)
        self._context = RequestContext(overwrite=False)
        self._numbers = itertools.count(1)

    @property
    def step(self) -> str:
        return self._log.step

    def place(self, request: RequestSpec, count: int) -> list[Placed]:
        """Place so many instances, all or none; none: one of them has no host."""
        numbers = itertools.islice(self._numbers, count)
        uuids = [str(uuid.UUID(int=number)) for number in numbers]
        asked = request.replaced(num_instances=count, instance_uuid=uuids[0])
        self._placement.held.clear()
        try:
            answer: Any = self._manager.select_destinations(
                self._context, asked, uuids, True, False
            )
        except errors.NoValidHost:
            return []
        cloud, held = self._cloud, self._placement.held
        return [
            cloud.place(
                cloud.rows_by_node[selected.compute_node_uuid],
                asked,
                held[consumer],
                self._fitting,
            )
            for consumer, (selected, *_) in zip(uuids, answer, strict=True)
        ]


@dataclass(frozen=True)
class _FlavorDecision:
    """Requests of one flavor."""

    request: RequestSpec
    amounts: Mapping[str, int]
    takes: Sequence[tuple[str, int]]
    profile: Profile

    @functools.cached_property
    def has_nodes(self) -> bool:
        """Whether they ask for NUMA nodes."""
        return bool(self.request.if_set('numa_topology'))


class DirectPlacer:
    """Decides as the manager's driver does, without what surrounds its decisions.

    It is for clouds and flavors of a trace, where a host has one candidate. There are
    no prefilters, no query and no claims: hosts with room are the candidates. Filters
    and weighers that cannot matter are left out.
    """

    def __init__(self, cloud: LabCloud, policy: Policy, rng: random.Random) -> None:
        self._cloud = cloud
        self._profile = policy.profile
        self._rng = rng
        self._kinds: dict[int, _FlavorDecision] = {}
        self.step = PLACEMENT

    def place(self, request: RequestSpec, count: int) -> list[Placed]:
        """See ManagedPlacer.place()."""
        kind = self._kinds.get(id(request)) or self._kind(request)
        slots = self._cloud.slots(kind.amounts)
        rows = np.flatnonzero(slots)
        self.step = PLACEMENT
        if not len(rows):
            return []
        rng = random.Random(self._rng.getrandbits(64))
        hosts = HostTable(self._cloud.snapshot(), rows)
        if kind.has_nodes:
            hosts = _with_candidates(hosts)
        picks: list[int] = []
        taken: Counter[int] = Counter()
        decision: Decision | None = None
        for index in range(count):
            if decision is None:
                decision = decide(kind.profile, hosts, kind.request, rng, index)
            else:
                hosts = consume(decision.ranked, picks[-1], kind.request)
                if kind.has_nodes:
                    fitting = kind.profile.fitting
                    hosts = book(hosts, picks[-1], kind.request, fitting).hosts
                decision = decide_next(
                    kind.profile, decision, hosts, picks[-1], kind.request, rng, index
                )
            row = _first(decision.ranked, slots, taken)
            if row is None:
                self.step = _last_step(decision)
                return []
            picks.append(row)
            taken[row] += 1
        return [self._placed(row, kind) for row in picks]

    def _placed(self, row: int, kind: _FlavorDecision) -> Placed:
        cloud, fitting = self._cloud, kind.profile.fitting
        cells = cloud.book(row, kind.request, fitting) if kind.has_nodes else ()
        amounts = [(name, row, amount) for name, amount in kind.amounts.items()]
        placed = Placed(row, kind.takes, amounts, cells)
        cloud.add(placed)
        return placed

    def _kind(self, request: RequestSpec) -> _FlavorDecision:
        amounts = plain_amounts(request)
        hosts = HostTable(self._cloud.snapshot())
        changing = self._cloud.changing
        profile = mattering(self._profile, hosts, request, changing)
        kind = _FlavorDecision(request, amounts, self._cloud.takes(request), profile)
        self._kinds[id(request)] = kind
        return kind


def _with_candidates(hosts: HostTable) -> HostTable:
    """Return the hosts with one candidate each, as filters of NUMA nodes look at it."""
    one = Categories[list[Any]]([[{}]], np.zeros(len(hosts.snapshot), np.intp))
    return hosts.with_columns(allocation_candidates=one, limits=limits_column(hosts))


Placer = ManagedPlacer | DirectPlacer
"""Places instances in a cloud; ``step`` says which step left no host, if it could not.
"""


def plain_amounts(request: RequestSpec) -> dict[str, int]:
    """Return the amounts of a plain request by class."""
    disk_gb = request.root_gb + request.ephemeral_gb
    asked = {'VCPU': request.vcpus, 'MEMORY_MB': request.memory_mb, 'DISK_GB': disk_gb}
    return {name: amount for name, amount in asked.items() if amount}


def _first(ranked: HostTable, slots: Any, taken: Counter[int]) -> int | None:
    """Return the first host that has room for one more."""
    for row in ranked.rows.tolist():
        if taken[row] < slots[row]:
            found: int = row
            return found
    return None


def mattering(
    profile: Profile, hosts: HostTable, request: RequestSpec, changing: Set[str]
) -> Profile:
    """Return the profile without filters that pass all hosts, and without weighers
    whose score is 0 on all. No other columns may change than ``changing``."""
    filters = [f for f in profile.filters if _may_reject(f, hosts, request, changing)]
    weighers = [w for w in profile.weighers if _may_score(w, hosts, request, changing)]
    return replace(profile, filters=tuple(filters), weighers=tuple(weighers))


def _may_reject(
    filter_: BaseHostFilter, hosts: HostTable, request: RequestSpec, changing: Set[str]
) -> bool:
    """Return whether a filter may reject a host. Our filters that run once in a request
    do not look at usage."""
    columns = filter_.depends_on(request)
    is_ours = type(filter_).__module__.startswith('novasched.')
    if columns is None and is_ours and not filter_.run_filter_for_index(1):
        columns = ()
    if columns is None or not changing.isdisjoint(columns):
        return True
    passed = filter_.apply(hosts, request)
    return passed is None or len(passed) < len(hosts)


def _may_score(
    weigher: Weigher, hosts: HostTable, request: RequestSpec, changing: Set[str]
) -> bool:
    """Return whether the score of a weigher may differ from 0."""
    if not weigher.takes_part(hosts):
        return False
    columns = weigher.depends_on(request)
    if columns is None:
        return True
    raw, multipliers = weigher.weights(hosts, request), weigher.multipliers(hosts)
    low_high = bounds(raw, weigher.minval, weigher.maxval)
    scores = Weighing(weigher.name, raw, low_high, multipliers).scores
    if not np.isfinite(raw).all() or scores.any():
        return True
    is_constant = changing.isdisjoint(columns) and raw.min() == raw.max()
    return bool(multipliers.any()) and not is_constant
