# SPDX-License-Identifier: Apache-2.0
"""Hosts with several candidates, and what a request itself has used up."""

import random

import pytest

from novasched import errors
from novasched.claiming.request import LIMITS
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.driving import drive, names
from tests.support.clouds.fakes import (
    DecisionsSeen,
    FakePlacement,
    FakeView,
    candidate,
)
from tests.support.tables.cases import cases

A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')


def summary(free=1, root=None):
    inventory = {'VCPU': {'capacity': free, 'used': 0}}
    return {'resources': inventory, 'root_provider_uuid': root}


@pytest.fixture
def placement():
    """Two hosts, h1 the better one, with two devices each, one unit to each."""
    made = FakePlacement()
    for host in ('uuid-h1', 'uuid-h2'):
        made.summaries[host] = summary(99, host)
        for device in ('x', 'y'):
            made.summaries[f'{host}-{device}'] = summary(1, host)
            made.offered.append(candidate(host, f'{host}-{device}'))
    return made


@pytest.fixture
def decided():
    """The decisions of the test."""
    return []


@pytest.fixture
def run(placement, decided):
    """Schedule for instances; return the names of the hosts."""

    def schedule(uuids, *, filters=(), alternates=False, **options):
        hosts = factories.hosts(free_ram_mb=[8000, 6000])
        parts = DriverContext(
            profile=Profile(factories.adapted(filters), (RAMWeigher(),)),
            view=FakeView(hosts),
            placement=placement,
            rng=random.Random(1),
            **options,
        )
        request = factories.request(memory_mb=1)
        return drive(
            FilterScheduler(parts),
            placement,
            uuids,
            request,
            alternates,
            recorder=DecisionsSeen(decided.append),
        )

    return schedule


def devices(placement):
    """Return the device that each consumer holds."""
    return {
        consumer: list(held['allocations'])[-1]
        for consumer, held in placement.held.items()
    }


class Only(BaseHostFilter):
    """Passes one host."""

    def __init__(self, name):
        self.name = name

    def host_passes(self, host_state, spec_obj):
        return host_state.host == self.name


class Trimming(BaseHostFilter):
    """Gives each instance a device of its own: takes candidates away in place."""

    def host_passes(self, host_state, spec_obj):
        if spec_obj.instance_uuid == B:
            del host_state.allocation_candidates[0]
        return bool(host_state.allocation_candidates)


class TestFurtherCandidates:
    @cases(
        'script, host, tried',
        ('another host comes before them', ['refused'], 'h2', 2),
        ('hosts in conflict are tried again', ['conflicted'] * 2, 'h1', 3),
        ('conflicts end', ['conflicted'] * 20, None, 20),
        ('not where the host was refused otherwise', ['in vain'] * 2, None, 2),
    )
    def test_which_host_is_tried_next(self, run, placement, script, host, tried):
        placement.script = script
        if host is None:
            with pytest.raises(errors.NoValidHost):
                run([A])
        else:
            assert names(run([A])) == [[host]]
        assert len(placement.tried) == tried

    def test_they_are_tried_when_no_host_is_left(self, run, placement):
        placement.script = ['refused']
        assert names(run([A], filters=[Only('h1')])) == [['h1']]
        assert devices(placement) == {A: 'uuid-h1-y'}

    def test_they_are_not_where_they_ask_for_what_is_gone(self, run, placement):
        for each in placement.offered:
            each['allocations']['storage'] = {'resources': {'VCPU': 1}}
        placement.script = ['refused']
        with pytest.raises(errors.NoValidHost):
            run([A])
        assert len(placement.tried) == 1

    def test_a_cloud_that_fills_up_costs_a_bounded_number_of_claims(
        self, run, placement
    ):
        many = [candidate('uuid-h1', f'device-{n}') for n in range(99)]
        placement.offered = many
        placement.script = ['refused'] * 99
        with pytest.raises(errors.NoValidHost):
            run([A])
        assert len(placement.tried) == 1 + LIMITS[Outcome.FURTHER].most


class TestTogether:
    def test_several_are_claimed_at_once(self, run, placement):
        assert names(run([A, B])) == [['h1'], ['h2']]
        assert placement.tried_together == [[A, B]]
        assert placement.tried == []
        assert devices(placement) == {A: 'uuid-h1-x', B: 'uuid-h2-x'}

    def test_one_alone_is_not(self, run, placement):
        run([A])
        assert placement.tried_together == []

    def test_nor_one_that_is_named_twice(self, run, placement):
        run([A, A])
        assert placement.tried_together == []

    def test_further_candidates_count(self, run, placement):
        assert names(run([A, B], filters=[Only('h1')])) == [['h1'], ['h1']]
        assert devices(placement) == {A: 'uuid-h1-x', B: 'uuid-h1-y'}

    def test_where_there_is_no_room_nothing_is_asked(self, run, placement, caplog):
        with pytest.raises(errors.NoValidHost, match='not enough'):
            run([A, B, C], filters=[Only('h1')])
        assert (placement.tried_together, placement.tried) == ([], [])

    def test_refused_joint_claim_is_repeated_one_by_one(self, run, placement, decided):
        placement.together = 'refused'
        assert names(run([A, B])) == [['h1'], ['h2']]
        assert [consumer for consumer, _ in placement.tried] == [A, B]
        assert [d.request.instance_uuid for d in decided] == [A, B, A, B]
        assert [d.attempt for d in decided] == [1, 1, 2, 2]
        first, again = decided[0], decided[2]
        assert first.ranked.host.tolist() == again.ranked.host.tolist()
        assert again.request.instance_group is first.request.instance_group

    def test_joint_claim_is_repeated_if_the_exhausted_provider_is_known(
        self, run, placement
    ):
        placement.together = 'refused'
        placement.together_exhausted = 'uuid-h1-x', 'VCPU'
        assert names(run([A, B])) == [['h2'], ['h1']]
        assert placement.tried_together == [[A, B]] * 2
        assert devices(placement) == {A: 'uuid-h2-x', B: 'uuid-h1-y'}

    def test_selected_host_is_logged_after_its_claim(self, run, placement, caplog):
        caplog.set_level('DEBUG', 'novasched')
        placement.together = 'refused'
        run([A, B])
        said = [line.split()[0] for line in caplog.messages]
        told = [word for word in said if word in ('Attempting', 'Selected', 'Deciding')]
        assert told == [
            *('Attempting', 'Attempting', 'Deciding'),
            *('Attempting', 'Selected', 'Attempting', 'Selected'),
        ]

    @pytest.mark.parametrize('together', ['claimed', 'refused'])
    def test_candidates_removed_by_a_filter_return_in_the_next_decision(
        self, run, placement, together
    ):
        placement.together = together
        assert names(run([A, B], filters=[Only('h1'), Trimming()])) == [
            ['h1'],
            ['h1'],
        ]
        assert len(placement.held) == 2

    def test_one_by_one_what_we_used_up_is_not_asked_for(self, run, placement):
        placement.together = 'refused'
        run([A, B], filters=[Only('h1')])
        assert len(placement.tried) == 2

    def test_joint_claim_of_unknown_fate_is_rolled_back(self, run, placement):
        placement.together = 'unknown'
        with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
            run([A, B])
        assert [consumer for consumer, _ in placement.undone] == [B, A]
        assert placement.held == {}


@cases(
    'free, device',
    ('all is free', 99, 'uuid-h2-x'),
    ('the first asks for what we have taken', 1, 'uuid-h2-y'),
    ('no candidate has room', 0, 'uuid-h2-x'),
)
def test_alternates_have_a_candidate_that_is_free(run, placement, free, device):
    first, second = placement.offered[2:]
    first['allocations']['storage'] = {'resources': {'VCPU': 1}}
    placement.offered[0]['allocations']['storage'] = {'resources': {'VCPU': 1}}
    if not free:
        second['allocations']['storage'] = {'resources': {'VCPU': 1}}
    placement.summaries['storage'] = summary(max(free, 1))
    ((_, alternate),) = run([A], alternates=True).selections
    assert alternate.service_host == 'h2'
    assert f'"{device}"' in alternate.allocation_request


def test_a_decision_tells_whether_the_candidates_were_all(run, decided):
    run([A])
    assert [(d.cut, d.further) for d in decided] == [(False, False)]
