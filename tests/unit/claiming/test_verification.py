# SPDX-License-Identifier: Apache-2.0
"""A request whose claim puts a provider over its capacity takes another host."""

from __future__ import annotations

import logging
import random

import pytest

from novasched import errors
from novasched.claiming.request import MOST_ABORTS, RequestAttempt
from novasched.claiming.verification import is_short
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.objects.context import RequestContext
from novasched.outages import PLACEMENT
from novasched.ports import QueryFailed
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.driving import Recorder, drive, names
from tests.support.clouds.fakes import (
    FakePlacement,
    FakeView,
    candidate,
)
from tests.support.clouds.managers import make_manager
from tests.support.tables.cases import cases

A, B, OTHER = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')


class Cloud:
    """Hosts, of which the first is the best, with some CPUs each."""

    def __init__(self, names=('h1', 'h2'), cpus=2, **parts):
        rams = [8000 - 100 * number for number in range(len(names))]
        self.hosts = factories.hosts(host=names, free_ram_mb=rams)
        self.nodes = dict(zip(names, self.hosts.uuid.tolist(), strict=True))
        self.placement = FakePlacement(*self.hosts.uuid.tolist())
        has = {'resources': {'VCPU': {'capacity': cpus, 'used': 0}}}
        self.placement.summaries = dict.fromkeys(self.nodes.values(), has)
        self.recorder, self.attempt = Recorder(), RequestAttempt()
        self.verifier = None
        profile = Profile((), (RAMWeigher(),))
        self.view, rng = FakeView(self.hosts), random.Random(1)
        self.context = DriverContext(profile, self.view, self.placement, rng, **parts)
        self.driver = FilterScheduler(self.context)

    def races(self, host, cpus):
        """Others claim so many CPUs just before the next look."""

        def claim(placement):
            allocations = {self.nodes[host]: {'resources': {'VCPU': cpus}}}
            placement.held[OTHER] = {'allocations': allocations}

        return claim

    def ask(self, *uuids, alternates=False):
        placed = drive(
            self.driver,
            self.placement,
            uuids,
            alternates=alternates,
            attempt=self.attempt,
            recorder=self.recorder,
            verifier=self.verifier,
        )
        return [host for host, *_ in names(placed)]

    def select(self, *uuids):
        """Ask as a caller does."""
        manager = make_manager(self.driver, self.view, self.placement)
        context, request = RequestContext(overwrite=False), factories.request()
        found = manager.select_destinations(context, request, uuids, True, False)
        return found[0][0].service_host


class Hanging:
    """Placement, of whose copy no pick can be verified."""

    def still_offered(self, picks):
        raise errors.CopyError('it hangs')


class Voids:
    """Placement, which offers some hosts no more; ``looked_at`` has all."""

    def __init__(self, *nodes):
        self.nodes, self.looked_at = nodes, []

    def still_offered(self, picks):
        self.looked_at += [node for node, _ in picks]
        return [node not in self.nodes for node, _ in picks]

    def claimed(self, candidates):
        pass


@pytest.fixture
def cloud():
    return Cloud()


def test_request_leaves_a_host_over_capacity(cloud):
    cloud.placement.looks = [cloud.races('h1', 2)]
    assert cloud.ask(A) == ['h2']
    assert [consumer for consumer, _ in cloud.placement.undone] == [A]
    text = f'3 of 2 VCPU of {cloud.nodes["h1"]} are used'
    assert cloud.recorder.said == [('claimed', ''), ('overfull', text), ('claimed', '')]
    assert cloud.attempt.budget.spent(Outcome.OVER_CAPACITY) == 1


def test_where_the_others_have_gone_before_the_no_there_is_a_host():
    cloud = Cloud(['h1'])
    gone = lambda placement: placement.held.pop(OTHER)  # noqa: E731
    cloud.placement.looks = [cloud.races('h1', 2), gone]
    assert cloud.select(A) == 'h1'
    assert len(cloud.placement.queries) == 2


def test_a_host_that_is_full_is_not_over_capacity(cloud):
    cloud.placement.looks = [cloud.races('h1', 1)]
    assert cloud.ask(A) == ['h1']
    assert cloud.placement.undone == []


@cases(
    ('left', 'amount', 'capacity', 'expected'),
    ('sixteen more of the same', 16, 1, 64, False),
    ('one less', 15, 1, 64, True),
    ('larger ones', 30, 1, 256, True),
    ('none', 0, 1, 1, True),
    ('unknown', float('inf'), 1, 0, False),
)
def test_nearly_full(left, amount, capacity, expected):
    assert is_short(left, amount, capacity) == expected


@cases(
    ('cpus', 'parts'),
    ('there is plenty of room', 64, {}),
    ('as in nova', 2, {'enforce_capacity': False}),
)
def test_nothing_is_asked_where(cpus, parts):
    cloud = Cloud(cpus=cpus, **parts)
    cloud.placement.looks = [cloud.races('h1', cpus)]
    assert cloud.ask(A) == ['h1']
    assert cloud.placement.looked == 0


def test_earlier_allocation_of_the_consumer_is_not_counted_against_it(cloud):
    held = {cloud.nodes['h1']: {'resources': {'VCPU': 9}}}
    cloud.placement.before = {'allocations': held}
    cloud.placement.looks = [cloud.races('h1', 2)]
    assert cloud.ask(A) == ['h1']


def test_servers_that_were_claimed_together_yield_together(cloud):
    cloud.placement.looks = [cloud.races('h1', 2)]
    assert cloud.ask(A, B) == ['h2', 'h2']
    assert {consumer for consumer, _ in cloud.placement.undone} == {A, B}


def test_of_servers_that_were_claimed_alone_the_last_one_yields(cloud):
    cloud.placement.together = 'refused'
    cloud.placement.looks = [lambda placement: None, cloud.races('h2', 2)]
    assert cloud.ask(A, B) == ['h1', 'h1']
    assert [consumer for consumer, _ in cloud.placement.undone] == [B]


def test_a_placement_that_does_not_answer_is_waited_for(cloud):
    cloud.placement.looks = [lambda _: QueryFailed(503, 'away', is_unavailable=True)]
    with pytest.raises(errors.AllocationUpdateFailed):
        cloud.ask(A)
    assert cloud.attempt.unavailable.keys() == {PLACEMENT}
    assert cloud.placement.held == {}


def test_a_question_that_is_refused_ends_nothing(cloud, caplog):
    cloud.placement.looks = [lambda _: QueryFailed(403, 'no')]
    assert cloud.ask(A) == ['h1']
    assert 'Capacity is not verified' in caplog.text


def test_yields_are_bounded():
    cloud = Cloud([f'h{number}' for number in range(40)])
    cloud.placement.looks = [cloud.races(host, 2) for host in cloud.nodes]
    with pytest.raises(errors.NoValidHost):
        cloud.ask(A)
    assert len(cloud.placement.undone) == MOST_ABORTS + 1


def test_picks_that_cannot_be_verified_are_the_cause_of_the_no(cloud, caplog):
    caplog.set_level(logging.DEBUG, 'novasched')
    cloud.verifier = Hanging()
    with pytest.raises(errors.NoValidHost) as raised:
        cloud.ask(A)
    assert isinstance(raised.value.__cause__, errors.CopyError)
    assert 'instances requested to build' not in caplog.text


def test_a_claim_that_cannot_be_undone_gets_no_other_host(cloud):
    cloud.placement.unundone = {A}
    cloud.placement.looks = [cloud.races('h1', 2)]
    with pytest.raises(errors.AllocationUpdateFailed):
        cloud.ask(A)
    assert cloud.placement.tried == [(A, cloud.nodes['h1'])]
    assert candidate(cloud.nodes['h1']) in cloud.placement.held.values()


@pytest.mark.parametrize('is_unsure', [False, True])
def test_undo_that_may_be_carried_out_later_ends_the_request(cloud, is_unsure):
    """It could delete an equal claim that is made again."""

    class Driver(FilterScheduler):
        def select_destinations(self, request):
            request.budget.spend(Outcome.OVER_CAPACITY)
            request.attempt.rollback_uncertain = is_unsure
            raise errors.NoValidHost(errors.NOT_ENOUGH_HOSTS)

    cloud.driver = Driver(cloud.context)
    with pytest.raises(errors.NoValidHost):
        cloud.select(A)
    assert (len(cloud.placement.queries) == 1) is is_unsure


def test_alternate_that_is_void_is_looked_at_once():
    """However many claims of the request it is an alternate of."""
    cloud = Cloud([f'h{number}' for number in range(8)])
    voids = [cloud.nodes['h2'], cloud.nodes['h3']]
    cloud.verifier = Voids(*voids)
    cloud.placement.together = 'refused'
    cloud.placement.looks = [lambda placement: None] * 8
    assert cloud.ask(A, B, alternates=True) == ['h0', 'h1']
    assert [cloud.verifier.looked_at.count(node) for node in voids] == [1, 1]
    assert cloud.attempt.budget.spent(Outcome.VOID) == 2
