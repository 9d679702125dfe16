# SPDX-License-Identifier: Apache-2.0
"""What a request sees of others, and they of it."""

from __future__ import annotations

import functools
import logging
import random
import threading
import time
import uuid
from dataclasses import replace

import pytest

from novasched import errors
from novasched.claiming.claims import ClaimedRequest
from novasched.claiming.request import LIMITS, RequestAttempt, UnresolvedClaim
from novasched.claiming.reservation import (
    GroupLocks,
    Reservation,
)
from novasched.cluster.assumed import AssumedInstances
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.objects.context import RequestContext
from novasched.ports import STANDS, ClaimRequest, ClaimUnknown
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    VERSION,
    DecisionsSeen,
    FakePlacement,
    FakeView,
    schedule_request,
)
from tests.support.tables.cases import cases

A, B, C, D = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abcd')
MOST_CONFLICTS = LIMITS[Outcome.PICKED_MEANWHILE].most
LOGGER = 'novasched.claiming'
DEADLINE_S = 20


class Cloud:
    """Hosts, the first with the most free memory, and their scheduler."""

    def __init__(self, filters=(), assumed=True, names=('h1', 'h2', 'h3'), **parts):
        free_ram_mb = [8000, 7900, 7800, 7700][: len(names)]
        self.hosts = factories.hosts(host=names, free_ram_mb=free_ram_mb)
        self.placement = FakePlacement(*self.hosts.uuid.tolist())
        self.assumed = AssumedInstances() if assumed else None
        self.recorder, self.adopts = NO_RECORDER, {}
        self.driver = FilterScheduler(
            DriverContext(
                profile=Profile(factories.adapted(filters), (RAMWeigher(),)),
                view=FakeView(self.hosts),
                placement=self.placement,
                rng=random.Random(1),
                assumed=self.assumed,
                **parts,
            )
        )

    def work(self, uuids, **values):
        context, candidates = (
            RequestContext(overwrite=False),
            self.placement.candidates(None, ''),
        )
        attempt = RequestAttempt(adopts=self.adopts)
        request = schedule_request(
            context,
            factories.request(**values),
            uuids,
            candidates,
            True,
            attempt=attempt,
            recorder=self.recorder,
        )
        return ClaimedRequest.of(request, self.placement)

    def ask(self, *uuids, **values):
        work = self.work(uuids, **values)
        with work.claims:
            placed = self.driver.select_destinations(work)
        return [each[0].service_host for each in placed.selections]


@pytest.fixture
def cloud():
    return Cloud()


def test_the_next_request_sees_what_was_picked(cloud):
    assert [cloud.ask(each) for each in (A, B, C)] == [['h1'], ['h2'], ['h3']]


def test_without_it_each_request_sees_what_the_rows_say():
    cloud = Cloud(assumed=False)
    assert [cloud.ask(each) for each in (A, B, C)] == [['h1']] * 3


def test_a_request_counts_its_own_picks_once(cloud):
    assert cloud.ask(A, B) == ['h1', 'h2']
    assert len(cloud.assumed) == 2
    seen = cloud.assumed.see(lambda: cloud.hosts).hosts
    assert seen.free_ram_mb.tolist() == [8000 - 512, 7900 - 512, 7800]


@cases(
    'script, together, expected',
    ('one by one', ['claimed'] * 2, 'refused', ['h1', 'h2']),
    ('after a refusal', ['refused'], 'refused', ['h2', 'h3']),
)
def test_failed_claim_leaves_no_pick(cloud, script, together, expected):
    cloud.placement.script = script
    cloud.placement.together = together
    assert cloud.ask(A, B) == expected
    seen = cloud.assumed.see(lambda: cloud.hosts).hosts
    assert seen.host[seen.num_instances == 1].tolist() == expected


@cases(
    'script',
    ('no host is left', ['refused'] * 3),
    ('nobody knows what became of the claim', ['unknown']),
    ('an interrupt', [KeyboardInterrupt()]),
)
def test_a_request_that_fails_leaves_nothing(cloud, script):
    cloud.placement.script = script
    with pytest.raises((errors.RequestError, KeyboardInterrupt)):
        cloud.ask(A)
    assert len(cloud.assumed) == 0


def test_once_claims_are_undone_what_was_picked_is_forgotten(cloud):
    work = cloud.work([A])

    def fail_late():
        with work.claims:
            cloud.driver.select_destinations(work)
            assert len(cloud.assumed) == 1
            raise errors.NoValidHost('')

    with pytest.raises(errors.NoValidHost):
        fail_late()
    assert len(cloud.assumed) == 0


def test_failed_group_request_leaves_no_pick(cloud):
    cloud.placement.script = ['claimed', *['refused'] * 3]
    work = cloud.work([A, B], instance_group=factories.group())
    with pytest.raises(errors.NoValidHost):
        cloud.driver.select_destinations(work)
    assert cloud.placement.undone == []
    assert len(cloud.assumed) == 0


def test_an_instance_that_is_asked_for_again_is_not_in_its_own_way(cloud):
    assert [cloud.ask(A), cloud.ask(A)] == [['h1']] * 2
    assert len(cloud.assumed) == 1


def test_redelivered_request_keeps_first_pick(cloud):
    cloud.placement.script = ['claimed', *['refused'] * 3]
    cloud.ask(A)
    with pytest.raises(errors.NoValidHost):
        cloud.ask(A)
    assert len(cloud.assumed) == 1
    assert cloud.ask(B) == ['h2']


def test_redelivered_request_at_the_same_time_keeps_first_pick():
    """The copy decides before the first one picks, and claims after it."""
    filter_ = Meanwhile()
    cloud = Cloud([filter_])
    cloud.placement.script = ['claimed', *['refused'] * 3]
    filter_.others = [lambda: cloud.ask(A)]
    with pytest.raises(errors.NoValidHost):
        cloud.ask(A)
    assert [consumer for consumer, _ in cloud.placement.tried] == [A] * 4
    assert len(cloud.assumed) == 1
    assert cloud.ask(B) == ['h2']


def test_former_pick_of_a_member_does_not_count_for_itself():
    group = factories.group('soft-anti-affinity', members=[A])
    cloud = Cloud()
    cloud.ask(A, instance_group=group)
    work = cloud.work([A], instance_group=group)
    reservation = Reservation(cloud.assumed, work, cloud.driver.context.profile)
    assert reservation.request(work.spec) is work.spec


def test_former_pick_ends_once_an_instance_takes_nothing_that_is_counted():
    cloud = Cloud()
    cloud.ask(A)
    cloud.driver.context.assumed.counted = ('numa_topology',)
    assert cloud.ask(A) == ['h1']
    assert len(cloud.assumed) == 0


def test_request_without_claims_sees_picks_and_leaves_none(cloud):
    cloud.ask(A)
    work = schedule_request(RequestContext(overwrite=False), factories.request(), None)
    placed = cloud.driver.select_destinations(work)
    assert placed.selections[0][0].service_host == 'h2'
    assert len(cloud.assumed) == 1


@pytest.mark.parametrize(
    ('filter_', 'policy', 'expected'),
    [
        (ServerGroupAntiAffinityFilter(), 'anti-affinity', ['h1', 'h2', 'h3']),
        (ServerGroupAffinityFilter(), 'affinity', ['h1', 'h1', 'h1']),
    ],
)
def test_members_of_a_group_see_each_other(filter_, policy, expected):
    cloud, found = Cloud([filter_]), []
    for each in (A, B, C):
        group = factories.group(policy, members=[each])
        found += cloud.ask(each, instance_group=group, memory_mb=1)
    assert found == expected


class Meanwhile(BaseHostFilter):
    """Passes all, and lets other requests be served while one is being decided."""

    def __init__(self, uuid=A):
        self._uuid = uuid
        self.others = []

    def filter_all(self, hosts, spec_obj):
        if self.others and spec_obj.instance_uuid == self._uuid:
            self.others.pop(0)()
        return hosts


@cases(
    'uuids, expected',
    ('of one', [A], ['h3']),
    ('of several', [A, B], ['h3', 'h1']),
)
def test_request_decides_again_after_a_pick_of_its_host(uuids, expected, caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    filter_ = Meanwhile()
    cloud = Cloud([filter_])
    filter_.others = [lambda: cloud.ask(C), lambda: cloud.ask(D)]
    assert cloud.ask(*uuids) == expected
    said = 'Deciding again: another request picked the host meanwhile'
    assert caplog.messages.count(said) == 2


def test_the_picks_of_a_request_do_not_put_it_behind():
    filter_, seen = Meanwhile(B), []
    cloud = Cloud([filter_], names=['h1'])
    cloud.recorder = DecisionsSeen(seen.append)
    filter_.others = [lambda: cloud.ask(C)]
    assert cloud.ask(A, B) == ['h1', 'h1']
    found = [(d.request.instance_uuid, d.hosts.free_ram_mb.item()) for d in seen]
    assert found[:4] == [(A, 8000), (C, 7488), (B, 7488), (B, 6976)]


def test_conflicts_with_other_requests_are_bounded(caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    filter_ = Meanwhile()
    cloud = Cloud([filter_], names=['h1'])
    others = [str(uuid.uuid4()) for _ in range(MOST_CONFLICTS + 5)]
    filter_.others = [functools.partial(cloud.ask, each) for each in others]
    assert cloud.ask(A) == ['h1']
    assert len([m for m in caplog.messages if 'meanwhile' in m]) == MOST_CONFLICTS
    assert len(filter_.others) == 4


def test_each_instance_may_be_behind_as_often(caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    filters, times = [Meanwhile(A), Meanwhile(B)], MOST_CONFLICTS - 1
    cloud = Cloud(filters, names=['h1'])
    for filter_ in filters:
        others = [str(uuid.uuid4()) for _ in range(times)]
        filter_.others = [functools.partial(cloud.ask, each) for each in others]
    assert cloud.ask(A, B) == ['h1', 'h1']
    assert len([m for m in caplog.messages if 'meanwhile' in m]) == 2 * times


def test_repeated_decision_skips_refused_hosts():
    filter_ = Meanwhile()
    cloud = Cloud([filter_])
    filter_.others = [lambda: cloud.ask(C, ignore_hosts=['h1'])]
    cloud.placement.script = ['claimed', 'in vain']
    assert cloud.ask(A) == ['h3']
    assert [host for _, host in cloud.placement.tried] == [
        'uuid-h2',
        'uuid-h1',
        'uuid-h3',
    ]


class Counted(GroupLocks):
    """Counts the requests that ask for their turn."""

    asked = 0

    def of(self, group, caller=None):
        self.asked += 1
        return super().of(group, caller)


def test_requests_of_one_group_are_served_one_after_the_other():
    filter_, group = Meanwhile(), factories.group(members=[A, B])
    cloud, found = Cloud([filter_, ServerGroupAntiAffinityFilter()]), []
    cloud.driver._locks = turns = Counted()

    def ask():
        found.extend(cloud.ask(B, instance_group=group))

    def let_another_wait():
        thread.start()
        until = time.monotonic() + DEADLINE_S
        while turns.asked < 2:
            assert time.monotonic() < until
            time.sleep(0.001)

    thread = threading.Thread(target=ask)
    filter_.others = [let_another_wait]
    assert cloud.ask(A, instance_group=group) == ['h1']
    thread.join(DEADLINE_S)
    assert found == ['h2']


def test_without_a_place_to_remember_nothing_is_done():
    request = factories.request(instance_group=factories.group())
    reservation = Reservation(None, Cloud().work([A]), Profile((), ()))
    hosts = factories.hosts()
    with reservation.picking():
        assert reservation.hosts(lambda: hosts) is hosts
        assert reservation.request(request) is request
        assert reservation.reserve(hosts.state(0), request)
        reservation.release()
        reservation.forget()
        assert reservation.rebased(hosts) is None
        assert reservation.placed(hosts, []) is None


class SlowPlacement(FakePlacement):
    """While it claims, something happens."""

    def __init__(self, *providers):
        super().__init__(*providers)
        self.meanwhile = []

    def claim(self, *args, **kwargs):
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return super().claim(*args, **kwargs)


class TestOtherSchedulers:
    """Others pick, and are heard of during a claim."""

    @pytest.fixture
    def make(self):
        """Make a cloud: `make(most, *filters)`; a host may run so many instances."""

        def made(most=1, *filters, **parts):
            cloud = Cloud([*filters, NumInstancesFilter(most)], **parts)
            cloud.placement = SlowPlacement(*cloud.hosts.uuid.tolist())
            cloud.driver.context = replace(
                cloud.driver.context, placement=cloud.placement
            )
            return cloud

        return made

    def other(self, cloud, uuid, place=0, **more):
        """Return what lets a cloud hear of a pick of another scheduler."""
        other = Cloud()
        view = other.assumed.see(lambda: other.hosts)
        request = factories.request(instance_uuid=uuid)
        made = other.assumed.add(view.hosts.state(place), view.base, request)
        return lambda: cloud.assumed.apply_remote(
            replace(made.pick, origin='other', **more)
        )

    def test_picks_of_other_schedulers_are_seen(self, make):
        cloud = make()
        self.other(cloud, A)()
        assert cloud.ask(B) == ['h2']

    @cases(
        'most, uuid, place, expected, undone',
        ('the lower uuid stays', 1, A, 0, 'h2', [B]),
        ('this one is the lower', 1, C, 0, 'h1', []),
        ('another host', 1, A, 1, 'h1', []),
        ('both have room', 2, A, 0, 'h1', []),
    )
    def test_of_two_that_claim_at_once_one_stays(
        self, make, most, uuid, place, expected, undone
    ):
        cloud = make(most)
        cloud.placement.meanwhile = [self.other(cloud, uuid, place)]
        assert cloud.ask(B) == [expected]
        assert [consumer for consumer, _ in cloud.placement.undone] == undone
        assert len(cloud.assumed) == 2

    def test_an_adopted_claim_that_is_to_yield_ends_the_request(self, make):
        """It cannot be rolled back: nothing is decided as if it were."""

        class Hearing(DecisionRecorder):
            def claimed(self, wanted, outcome, text):
                apply_remote()

        cloud = make()
        apply_remote, cloud.recorder = self.other(cloud, A), Hearing()
        wanted = ClaimRequest(B, cloud.placement.offered[0])
        lost = UnresolvedClaim(ClaimUnknown(B, 'lost'), STANDS, None, wanted, VERSION)
        cloud.adopts = {B: lost}
        with pytest.raises(errors.AllocationUpdateFailed, match=f'{A} was picked'):
            cloud.ask(B)
        assert cloud.placement.undone == []

    def test_several_servers_are_decided_again_together(self, make):
        cloud = make()
        cloud.placement.script = ['claimed']  # so each is claimed alone
        cloud.placement.meanwhile = [self.other(cloud, A, 1), lambda: None]
        assert cloud.ask(B, C) == ['h1', 'h3']

    def test_without_another_host_there_is_none(self, make):
        cloud = make(names=['h1'])
        cloud.placement.meanwhile = [self.other(cloud, A)]
        with pytest.raises(errors.NoValidHost):
            cloud.ask(B)
        assert (cloud.placement.held, len(cloud.assumed)) == ({}, 1)

    def test_aborts_for_another_scheduler_are_bounded(self, make):
        """The other one leaves each time, and comes back during the claim."""
        cloud = make(names=['h1'])
        comes = self.other(cloud, A)
        undo = cloud.placement.undo

        def leave(*args, **kwargs):
            cloud.assumed.end_remote(A, 'other')
            return undo(*args, **kwargs)

        cloud.placement.undo = leave
        cloud.placement.meanwhile = [comes] * (LIMITS[Outcome.PICKED_BY_OTHER].most + 2)
        assert cloud.ask(B) == ['h1']
        assert len(cloud.placement.meanwhile) == 1

    def test_before_there_is_no_host_it_is_looked_whether_picks_have_gone(self, make):
        filter_ = Meanwhile(B)
        cloud = make(1, filter_, names=['h1'])
        self.other(cloud, A)()
        filter_.others = [lambda: cloud.assumed.end_remote(A, 'other')]
        assert cloud.ask(B) == ['h1']
        with pytest.raises(errors.NoValidHost):
            cloud.ask(C)

    def test_pick_of_a_copy_of_the_request_is_not_yielded_to(self, make):
        cloud = make()
        cloud.placement.meanwhile = [self.other(cloud, A)]
        assert cloud.ask(A) == ['h1']
        assert cloud.placement.undone == []

    def test_pick_that_has_gone_again_is_no_lasting_conflict(self, make):
        """A pick conflicts, and has gone before it is looked at."""
        cloud = make(2, names=['h1'])
        comes = self.other(cloud, C)
        self.other(cloud, D)()
        later, found = cloud.assumed.picks_after, []

        def gone(*args):
            cloud.assumed.end_remote(C, 'other')
            cloud.assumed.picks_after = later
            return later(*args)

        filter_ = Meanwhile()
        profile = cloud.driver.context.profile
        filters = (*factories.adapted([filter_]), *profile.filters)
        cloud.driver.context = replace(
            cloud.driver.context,
            profile=replace(profile, filters=filters),
        )
        cloud.recorder = DecisionsSeen(lambda one: found.append(len(one.ranked)))
        cloud.assumed.picks_after = gone
        filter_.others = [comes]
        assert cloud.ask(A) == ['h1']
        assert found == [1, 1]

    def test_the_pick_whose_message_came_first_stays(self, make):
        cloud = make()
        comes = self.other(cloud, A)

        def come_second():
            (mine,) = cloud.assumed.see(lambda: cloud.hosts).picks
            cloud.assumed.acknowledge({B: mine.number})
            comes()

        cloud.placement.meanwhile = [come_second]
        assert cloud.ask(B) == ['h1']
        assert cloud.placement.undone == []

    @cases(
        'others, expected',
        ('this request has the lower first instance', {D: 1, A: 0}, ['h1', 'h2']),
        ('the other request has it', {A: 1, D: 0}, ['h3', 'h4']),
        ('they meet on one host', {D: 1}, ['h1', 'h3']),
    )
    def test_of_two_requests_that_cross_on_two_hosts_one_stays(
        self, make, others, expected
    ):
        """Each came first on one of them. The other request has these places."""
        cloud = make(names=['h1', 'h2', 'h3', 'h4'])
        cloud.placement.script = ['claimed']  # so each is claimed alone

        def acknowledge(uuid):
            picks = cloud.assumed.see(lambda: cloud.hosts).picks
            (number,) = (one.number for one in picks if one.pick.uuid == uuid)
            cloud.assumed.acknowledge({uuid: number})

        def cross():
            for other, place in others.items():
                self.other(cloud, other, place, first=next(iter(others)))()
            acknowledge(C)

        cloud.placement.meanwhile = [lambda: acknowledge(B), cross]
        assert cloud.ask(B, C) == expected
        assert bool(cloud.placement.undone) == (expected != ['h1', 'h2'])
