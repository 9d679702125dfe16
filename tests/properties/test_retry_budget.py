# SPDX-License-Identifier: Apache-2.0
"""Whatever fails, in whatever order: a request decides again only for a reason that its
budget counts, and each reason is bounded."""

from __future__ import annotations

import math
import random
import time
from dataclasses import replace
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.claiming.request import LIMITS, Again, Scope
from novasched.cluster.assumed import HostView
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.manager.candidate_query import LAGS, QueryPolicy
from novasched.objects.context import RequestContext
from novasched.ports import Candidates, ClaimRefused, QueryFailed, UndoLeft
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.affinity import ServerGroupAntiAffinityFilter
from novasched.scheduler.hosts import consume
from novasched.scheduler.outcomes import REASONS, Outcome
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    VERSION,
    DecisionsSeen,
    FakeCaller,
    FakePlacement,
    FakeView,
    candidate,
)
from tests.support.clouds.managers import make_manager

HOSTS = [f'h{number}' for number in range(4)]
UUIDS = [f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc']
OTHER = 'c0000000-0000-4000-8000-000000000001'
KINDS = (
    'claims',
    'together',
    'void',
    'unverified',
    'hosts',
    'capacity',
    'group',
    'reserving',
    'released',
    'others',
    'filters',
    'queries',
    'copies',
    'lags',
    'undo',
)
CHANCES = st.fixed_dictionaries(
    {
        **dict.fromkeys(KINDS, st.sampled_from([0.0, 0.0, 0.2, 0.7, 1.0])),
        # always would be 64 decisions for each instance of each selection
        'reserving': st.sampled_from([0.0, 0.2, 0.7]),
    }
)


class Trouble:
    """Decides by chance what fails, more or less often by its kind."""

    def __init__(self, chances, seed):
        self.chances = chances
        self.rng = random.Random(seed)

    def __call__(self, kind):
        return self.rng.random() < self.chances[kind]


class Placement(FakePlacement):
    """Refuses claims, and says that others hold more."""

    def __init__(self, trouble, *providers):
        super().__init__(*providers)
        self.trouble = trouble
        for uuid in providers:
            two = candidate(uuid, f'device of {uuid}')
            self.offered.append(two)
        has = {'resources': {'VCPU': {'capacity': 8, 'used': 0}}}
        self.summaries = dict.fromkeys(providers, has)

    def candidates(self, context, query):
        if self.trouble('queries') and self.trouble('queries'):
            return QueryFailed(400, 'no')
        return super().candidates(context, query)

    def claim(self, *args, **kwargs):
        if self.trouble('claims'):
            status = self.trouble.rng.choice([0, 409, 409, 409, 503, 503])
            is_busy = status == 409 and self.trouble('claims')
            return ClaimRefused(
                status, 'no', None, is_busy, is_unavailable=status in (0, 503)
            )
        return super().claim(*args, **kwargs)

    def claim_all(self, context, wanted, *args):
        if self.trouble('together'):
            exhausted = next(iter(wanted[0].candidate['allocations'])), 'VCPU'
            return ClaimRefused(409, 'no', exhausted)
        return super().claim_all(context, wanted, *args)

    def usages(self, context, mine):
        is_over = self.trouble('capacity')
        return {uuid: {'VCPU': 9 if is_over else 1} for uuid in mine}

    def holders(self, context, consumers, mine, among=None):
        nodes = [*mine.values()] if self.trouble('group') else []
        return {OTHER: nodes[:1]} if nodes and OTHER in consumers else {}

    def undo(self, context, claims, within_s=None, **how):
        if self.trouble('undo') and self.trouble('undo'):
            return UndoLeft({claims[0].consumer_uuid: 'placement is away'})
        return super().undo(context, claims, within_s, **how)


class Mirror:
    """A copy of placement, which may be stale or lag; it verifies its candidates
    itself."""

    as_of = -math.inf

    def __init__(self, trouble, placement):
        self.trouble = trouble
        self.placement = placement
        self.copies = 0
        self.store = SimpleNamespace(reads_fast=trouble.rng.random() < 0.5)

    def candidates(self, query, fresh=False):
        if self.trouble('copies'):
            return 'the copy is too old'
        self.copies += 1
        offered, known = tuple(self.placement.offered), self.placement.summaries
        cut = self.trouble.rng.random() < 0.5
        return Candidates(
            offered, VERSION, known, cut=cut, copy=self.copies, verifier=self
        )

    def lacks_nodes(self):
        return self.trouble('lags')

    def still_offered(self, picks):
        if self.trouble('unverified'):
            raise errors.CopyError('it hangs')
        return [not self.trouble('void') for _ in picks]

    def claimed(self, taken):
        """Nothing follows from it."""


class View(FakeView):
    """Hosts that may change; no look at them is younger than a second."""

    def __init__(self, trouble, hosts):
        super().__init__(hosts)
        self.trouble = trouble

    def known(self):
        return -math.inf

    def refresh(self):
        return time.monotonic() - 2.0 if super().refresh() else 0.0

    def changed(self, node_uuids, seen, **how):
        return {uuid for uuid in sorted(node_uuids) if self.trouble('hosts')}


class Assumed:
    """Picks of other requests, which come and go."""

    def __init__(self, trouble):
        self.trouble = trouble

    def counts(self, request):
        return True

    def see(self, take, but=()):
        hosts = take()
        return HostView(hosts, hosts.snapshot, 0)

    def in_group(self, request):
        return []

    def add(self, host, base, request, after, mine, first=''):
        if after is not None and self.trouble('reserving'):
            return None
        return self.pick(host, request, '', 1)

    @staticmethod
    def pick(host, request, origin, number):
        key = host.cell_uuid, host.uuid
        pick = SimpleNamespace(
            uuid=request.instance_uuid, key=key, host=host, request=request
        )
        pick.origin, pick.first = origin, request.instance_uuid
        return SimpleNamespace(pick=pick, number=number, order=None)

    def picks_after(self, key, number):
        if not self.trouble('others'):
            return []
        host = SimpleNamespace(cell_uuid=key[0], uuid=key[1])
        request = factories.request(instance_uuid=OTHER, memory_mb=10**6)
        return [self.pick(host, request, 'other', 2)]

    def any_forgotten(self, picks):
        return self.trouble('released')

    def wait_for_echo(self, picks):
        """They are back at once."""

    def remove(self, picks):
        """Nobody else looks."""

    def granted(self, uuids, picks):
        """Nobody else picked for them."""

    def less(self, hosts, row, others):
        for other in others:
            hosts = consume(hosts, row, other.pick.request)
        return hosts


class Moody(BaseHostFilter):
    """Passes some hosts."""

    def __init__(self, trouble):
        self.trouble = trouble

    def host_passes(self, host_state, spec_obj):
        return not self.trouble('filters')


class Keeping(FilterScheduler):
    """Keeps the budget of the request, and its decisions."""

    def __init__(self, context):
        super().__init__(context)
        self.decisions = []

    def select_destinations(self, request):
        self.budget = request.budget
        recorder = DecisionsSeen(self.decisions.append)
        return super().select_destinations(replace(request, recorder=recorder))


def decided(chances, seed, servers, alternates=True):
    """Serve one request; return its budget, and its decisions."""
    trouble = Trouble(chances, seed)
    hosts = factories.hosts(host=HOSTS, free_ram_mb=[9000 - n for n in range(4)])
    placement = Placement(trouble, *hosts.uuid.tolist())
    view = View(trouble, hosts)
    view.members = {factories.group().uuid: [OTHER, *UUIDS]}
    filters = factories.adapted([ServerGroupAntiAffinityFilter(), Moody(trouble)])
    driver = Keeping(
        DriverContext(
            Profile(filters, (RAMWeigher(),)),
            view,
            placement,
            random.Random(seed),
            assumed=Assumed(trouble),
        )
    )
    policy, mirror = QueryPolicy((), 4), Mirror(trouble, placement)
    manager = make_manager(driver, view, placement, policy=policy, copy=mirror)
    uuids = UUIDS[:servers]
    request = factories.request(instance_group=factories.group(members=uuids))
    try:
        manager.select_destinations(
            RequestContext(overwrite=False),
            request,
            uuids,
            True,
            alternates,
            FakeCaller(),
        )
    except (errors.NoValidHost, errors.AllocationUpdateFailed):
        assert placement.held.keys() <= set(uuids)
    return getattr(driver, 'budget', None), driver.decisions


@given(CHANCES, st.integers(0, 2**32), st.integers(1, 3))
def test_decisions_are_at_most_the_sum_of_the_budgets(chances, seed, servers):
    budget, decisions = decided(chances, seed, servers)
    if budget is None:  # placement offered nothing
        assert decisions == []
        return
    again = (Again.HOSTS, Again.CANDIDATES, Again.ATTEMPT)
    selections = 1 + sum(
        number
        for reason, number in budget.counts.items()
        if reason is not Outcome.JOINT
        and (LIMITS[reason].again in again or reason is Outcome.OVER_CAPACITY)
    )
    a_selection = servers * (1 + LIMITS[Outcome.JOINT].most)
    alternates = 2 * selections
    meanwhile = budget.counts[Outcome.PICKED_MEANWHILE]
    assert len(decisions) <= selections * a_selection + alternates + meanwhile
    for reason, limit in LIMITS.items():
        if limit.scope <= Scope.ATTEMPT:
            of_pool = [each for each in LIMITS.values() if each.pool == limit.pool]
            shared = of_pool if limit.pool else [limit]
            assert budget.spent(reason) <= max(x.most for x in shared) + 1, reason
    assert budget.rounds.keys() <= set(REASONS)
    for reason in budget.rounds.keys() - {Outcome.HOST_CHANGED}:
        # The next candidate is tried, and at last other candidates are asked for.
        loops = 2 if reason is Outcome.OVER_CAPACITY else 1
        assert budget.rounds[reason] <= loops * budget.counts[reason], reason


@given(CHANCES, st.integers(0, 2**32))
def test_each_further_decision_on_a_server_has_a_reason(chances, seed):
    budget, decisions = decided(chances, seed, 1, alternates=False)
    rounds = 0 if budget is None else budget.rounds.total()
    assert len(decisions) <= 1 + rounds


NONE = dict.fromkeys(KINDS, 0.0)


def test_lagging_copy_is_retried_once():
    budget, decisions = decided({**NONE, 'lags': 1.0}, 0, 3)
    assert budget.spent(Outcome.COPY_LAGS) == 1
    assert decisions[-1].fallback == LAGS
    budget, decisions = decided(NONE, 0, 3)
    assert budget.spent(Outcome.COPY_LAGS) == 0
    assert decisions[-1].from_copy


def test_copy_that_lagged_is_asked_after_an_overfull_claim():
    _, decisions = decided({**NONE, 'lags': 1.0, 'capacity': 1.0}, 0, 3)
    asked = [decision.fallback for decision in decisions]
    assert LAGS in asked
    assert asked[-1] == ''
    assert decisions[-1].from_copy
