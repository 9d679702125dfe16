# SPDX-License-Identifier: Apache-2.0
"""What a request does once it sees members of its group that hold resources."""

from __future__ import annotations

import random
import re
import uuid

import pytest

from novasched import errors
from novasched.claiming.group_check import MOST_WATCHES, RecentMembers
from novasched.claiming.request import (
    MOST_ABORTS,
    RequestAttempt,
    Scope,
    UnresolvedClaim,
)
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.ports import (
    NO_CALLER,
    STANDS,
    CallerGone,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
)
from novasched.scheduler.filters.affinity import (
    ServerGroupAffinityFilter,
    ServerGroupAntiAffinityFilter,
)
from novasched.scheduler.hosts import Member
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.affinity import (
    ServerGroupSoftAffinityWeigher,
    ServerGroupSoftAntiAffinityWeigher,
)
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.driving import Recorder, drive, names
from tests.support.clouds.fakes import (
    VERSION,
    FakeCaller,
    FakeClock,
    FakePlacement,
    FakeView,
    candidate,
)
from tests.support.tables.cases import cases

A, B, C, D = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abcd')
APART = (ServerGroupAntiAffinityFilter(),)
TOGETHER = (ServerGroupAffinityFilter(),)
BOUND = factories.group('affinity', hosts=['h1'])


class Cloud:
    """Hosts h1 to h3, the first is the best; a group of servers A to D."""

    def __init__(
        self, filters=APART, names=('h1', 'h2', 'h3'), runs=(), weighers=(), **parts
    ):
        rams = [8000 - 100 * number for number in range(len(names))]
        instances = [dict(runs) for _ in names]
        self.hosts = factories.hosts(host=names, free_ram_mb=rams, instances=instances)
        self.nodes = dict(zip(names, self.hosts.uuid.tolist(), strict=True))
        self.placement = FakePlacement(*self.hosts.uuid.tolist())
        self.view = FakeView(self.hosts)
        self.view.members = {factories.group().uuid: [D, C, B, A]}
        self.recorder, self.attempt = Recorder(), RequestAttempt()
        self.clock = FakeClock()
        self.caller = NO_CALLER
        self.driver = FilterScheduler(
            DriverContext(
                profile=Profile(factories.adapted(filters), (RAMWeigher(), *weighers)),
                view=self.view,
                placement=self.placement,
                rng=random.Random(1),
                **parts,
            ),
            self.clock,
        )

    def comes(self, uuid, host):
        """Another scheduler claims just before the next look."""
        return lambda placement: self.holds(uuid, host)

    def goes(self, uuid):
        return lambda placement: placement.held.pop(uuid)

    def holds(self, uuid, host):
        self.placement.held[uuid] = candidate(self.nodes[host])

    def ask(self, *uuids, policy='anti-affinity', **values):
        group = factories.group(policy=policy, members=uuids)
        values = {'instance_group': group, **values}
        placed = drive(
            self.driver,
            self.placement,
            uuids,
            factories.request(**values),
            alternates=True,
            attempt=self.attempt,
            caller=self.caller,
            recorder=self.recorder,
        )
        return [host for host, *_ in names(placed)]


@pytest.fixture
def cloud():
    return Cloud()


def test_request_that_sees_a_member_on_its_host_takes_another(cloud):
    cloud.holds(A, 'h1')
    assert cloud.ask(B) == ['h2']
    assert cloud.placement.tried == [(B, cloud.nodes['h1']), (B, cloud.nodes['h2'])]
    (_, said, _), texts = zip(*cloud.recorder.said, strict=True)
    assert said == 'yielded'
    text = f'for anti-affinity with {A} on h1, of server group {factories.group().uuid}'
    assert re.fullmatch(rf'given up after \d+ ms {text}', texts[1])


def test_an_adopted_claim_in_conflict_with_a_member_ends_the_request(cloud):
    """It cannot be rolled back: nothing is decided as if it were."""
    cloud.holds(A, 'h1')
    cloud.holds(B, 'h1')
    wanted = ClaimRequest(B, cloud.placement.held[B])
    lost = UnresolvedClaim(ClaimUnknown(B, 'lost'), STANDS, None, wanted, VERSION)
    cloud.attempt = RequestAttempt(adopts={B: lost})
    with pytest.raises(errors.AllocationUpdateFailed, match='for anti-affinity with'):
        cloud.ask(B)
    assert (cloud.placement.undone, cloud.placement.tried) == ([], [])
    assert [said for said, _ in cloud.recorder.said] == ['claimed']


def test_the_senior_stays_where_the_other_goes(cloud):
    cloud.placement.looks = [cloud.comes(B, 'h1'), cloud.goes(B)]
    assert cloud.ask(A) == ['h1']
    assert cloud.placement.undone == []


def test_the_senior_yields_to_one_that_stays(cloud):
    cloud.holds(B, 'h1')
    assert cloud.ask(A) == ['h2']


def test_of_several_that_yield_each_takes_another_host(cloud):
    cloud.holds(A, 'h1')
    cloud.holds(B, 'h1')
    assert cloud.ask(C) == ['h3']


def test_all_servers_of_a_request_yield_together(cloud):
    cloud.holds(A, 'h2')
    assert cloud.ask(B, C) == ['h1', 'h3']
    assert {consumer for consumer, _ in cloud.placement.undone} == {B, C}


def test_where_another_has_gone_before_the_no_there_is_a_host():
    cloud = Cloud(names=['h1'])
    cloud.placement.looks = [cloud.comes(A, 'h1'), cloud.goes(A)]
    assert cloud.ask(B) == ['h1']


def test_where_another_stays_there_is_none():
    cloud = Cloud(names=['h1'])
    cloud.holds(A, 'h1')
    with pytest.raises(errors.NoValidHost):
        cloud.ask(B)
    assert cloud.placement.held.keys() == {A}


@pytest.mark.parametrize(
    'filters, policy', [(APART, 'anti-affinity'), (TOGETHER, 'affinity')]
)
def test_member_that_has_left_blocks_no_request(filters, policy):
    cloud = Cloud(filters, names=['h1', 'h2'])
    assert cloud.ask(A, policy=policy) == ['h1']
    cloud.placement.held.pop(A)
    left = 'h1' if policy == 'anti-affinity' else 'h2'
    cloud.placement.offered = [candidate(cloud.nodes[left])]
    assert cloud.ask(B, policy=policy) == [left]


def test_resize_on_the_same_host_never_aborts():
    cloud = Cloud(names=['h1'], runs={B: Member(B, 'h1')})
    cloud.holds(A, 'h1')
    assert cloud.ask(B, ignore_hosts=['h2']) == ['h1']
    assert cloud.placement.undone == []


def test_where_very_many_stay_they_are_watched_once():
    cloud = Cloud(names=['h1'])
    many = [str(uuid.UUID(int=number)) for number in range(300)]
    cloud.view.members = {factories.group().uuid: many}
    for each in many:
        cloud.holds(each, 'h1')
    with pytest.raises(errors.NoValidHost):
        cloud.ask(B)
    assert cloud.placement.looked <= 1 + MOST_WATCHES


def test_affinity_goes_where_the_senior_is():
    cloud = Cloud(TOGETHER)
    cloud.holds(B, 'h2')
    cloud.holds(A, 'h3')
    cloud.placement.looks = [lambda _: None, cloud.goes(B)]
    assert cloud.ask(C, policy='affinity') == ['h3']


def test_affinity_request_follows_members_that_have_left_its_hosts():
    cloud = Cloud(TOGETHER)
    cloud.holds(A, 'h3')
    assert cloud.ask(B, instance_group=BOUND) == ['h3']
    cloud = Cloud(TOGETHER)
    cloud.holds(A, 'h1')
    cloud.holds(C, 'h2')
    assert cloud.ask(B, instance_group=BOUND) == ['h1']
    assert cloud.placement.looked == 1


def test_aborts_for_members_that_follow_are_bounded(cloud):
    def chase(placement):
        placement.looks.append(chase)
        held = placement.held.get(B)
        if held is not None:
            placement.held[A] = held

    cloud.placement.looks = [chase]
    with pytest.raises(errors.NoValidHost):
        cloud.ask(B)
    tried = len(cloud.placement.tried)
    assert tried > 20
    assert cloud.placement.held.keys() == {A}
    with pytest.raises(errors.NoValidHost):  # once more, in the same attempt
        cloud.ask(B)
    assert len(cloud.placement.tried) == tried + 1


def test_split_affinity_group_ends_the_aborts_early():
    """Two members on two hosts, as a nova-scheduler has it."""
    cloud = Cloud(TOGETHER)
    cloud.holds(A, 'h1')
    cloud.holds(B, 'h2')
    cloud.placement.looks = [lambda _: cloud.clock.advance(0.1)] * 500
    with pytest.raises(errors.NoValidHost):
        cloud.ask(C, policy='affinity')
    assert cloud.attempt.budget.spent(Outcome.GROUP_BROKEN) < MOST_ABORTS
    cloud.attempt.budget.renew(Scope.ATTEMPT)
    tried = len(cloud.placement.tried)
    with pytest.raises(errors.NoValidHost):
        cloud.ask(D, policy='affinity')
    assert len(cloud.placement.tried) == tried + 1
    assert cloud.placement.held.keys() == {A, B}
    cloud.placement.held.pop(A)
    assert cloud.ask(D, policy='affinity') == ['h2']


def test_only_those_stay_apart_who_are_always_where_they_were():
    clock, group = FakeClock(), factories.group().uuid
    recent = RecentMembers(clock)
    one, other, third = ({('cell', host)} for host in ('h1', 'h2', 'h3'))

    def seen(after_s, **places):
        clock.advance(after_s)
        return recent.stay_apart(group, places)

    assert not seen(0, a=one, b=other)
    assert not seen(5, a=one, b=other, c=third)
    assert not seen(4, a=one, b=other, c=third)
    assert seen(1, a=one, b=other)
    assert not seen(1, a=one, b=third)  # one has moved
    assert not seen(5, a=one, b=third)
    assert not seen(6, a=one, b=third)  # nobody has looked for long
    assert not seen(5, a=one, b=one)
    assert not seen(5, a=one, b=third)


@cases(
    'policy, enforced, first, second',
    ('apart', 'soft-anti-affinity', True, 'h1', 'h2'),
    ('together', 'soft-affinity', True, 'h2', 'h2'),
    ('as in nova', 'soft-affinity', False, 'h2', 'h1'),
)
def test_soft_policies_count_who_was_placed_here(policy, enforced, first, second):
    weighers = ServerGroupSoftAntiAffinityWeigher(), ServerGroupSoftAffinityWeigher()
    cloud = Cloud((), weighers=weighers, enforce_groups=enforced)
    everywhere = cloud.placement.offered
    cloud.placement.offered = [candidate(cloud.nodes[first])]
    assert cloud.ask(A, policy=policy) == [first]
    cloud.placement.offered = everywhere
    group = factories.group(policy=policy, members=[A, B])
    assert cloud.ask(B, instance_group=group) == [second]
    assert cloud.placement.looked == 0


@cases(
    'parts, values, policy',
    ('as in nova', {'enforce_groups': False}, {}, 'anti-affinity'),
    ('a soft policy', {}, {}, 'soft-anti-affinity'),
    ('no group', {}, {'instance_group': None}, 'anti-affinity'),
    ('a host that is forced', {}, {'force_hosts': ['h1']}, 'anti-affinity'),
    ('no such filter', {'filters': ()}, {}, 'anti-affinity'),
)
def test_policy_is_not_verified_without_a_hard_enforced_group(parts, values, policy):
    cloud = Cloud(**parts)
    cloud.holds(A, 'h1')
    assert cloud.ask(B, policy=policy, **values) == ['h1']


def test_members_come_from_the_request_without_the_api_database(cloud, caplog):
    def fail(group_uuid):
        raise errors.StoreFailed('The API database', 'away')

    cloud.view.group_members = fail
    cloud.holds(A, 'h1')
    group = factories.group(members=[A, B])
    assert cloud.ask(B, instance_group=group) == ['h2']
    assert 'is verified for the members that the request names' in caplog.text


def test_a_placement_that_does_not_answer_is_waited_for(cloud):
    cloud.placement.looks = [lambda _: QueryFailed(503, 'away', is_unavailable=True)]
    with pytest.raises(errors.AllocationUpdateFailed):
        cloud.ask(B)
    assert cloud.attempt.unavailable == {'placement': '503 Service Unavailable'}
    assert cloud.placement.held == {}


def test_a_placement_that_does_not_say_is_believed(cloud, caplog):
    cloud.placement.looks = [lambda _: QueryFailed(403, 'policy')]
    cloud.holds(A, 'h1')
    assert cloud.ask(B) == ['h1']
    assert 'is not verified: placement does not say' in caplog.text


def test_aborted_request_ends_with_its_caller(cloud):
    cloud.holds(A, 'h1')
    cloud.caller = FakeCaller(CallerGone('it took 60 s'))
    with pytest.raises(CallerGone):
        cloud.ask(B)
    assert cloud.placement.tried == [(B, cloud.nodes['h1'])]
    assert cloud.placement.held.keys() == {A}


def test_failed_rollback_gets_no_other_host(cloud):
    cloud.holds(A, 'h1')
    cloud.placement.unundone = {B}
    with pytest.raises(errors.AllocationUpdateFailed, match='may be left behind'):
        cloud.ask(B)
