# SPDX-License-Identifier: Apache-2.0
"""Any host that is up may be drawn, and no other."""

import collections
import logging
import random

import pytest

from novasched import errors
from novasched.drivers import DriverContext
from novasched.drivers.chance import CHANCE, ChanceScheduler
from novasched.objects.context import RequestContext
from novasched.ports.decisions import NO_RECORDER
from novasched.scheduler.pipeline import decide
from tests.support.clouds import factories
from tests.support.clouds.fakes import DecisionsSeen, FakeView, schedule_request
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-00000000000{n}' for n in range(1, 9)]


@pytest.fixture
def hosts():
    """Four hosts that are up, one of them in another cell; h5 and h6 are not."""
    return factories.hosts(
        cell_uuid=['one', 'one', 'one', 'two', 'one', 'one'],
        service_disabled=[False] * 4 + [True, False],
        service_up=[True] * 5 + [False],
    )


@pytest.fixture
def draw(hosts):
    """Schedule: `draw(count, table=..., alternates=..., **request)` gives a result."""

    def schedule(
        count=1,
        *,
        table=hosts,
        alternates=False,
        parts=(),
        seed=1,
        recorder=NO_RECORDER,
        **values,
    ):
        view = FakeView(table)
        made = DriverContext(None, view, None, random.Random(seed), **dict(parts))
        request = factories.request(**values)
        uuids = None if count is None else UUIDS[:count]
        context = RequestContext(overwrite=False)
        work = schedule_request(
            context, request, uuids, alternates=alternates, recorder=recorder
        )
        placed = ChanceScheduler(made).select_destinations(work)
        assert view.refreshed == 0
        return placed

    return schedule


def names(placed):
    return [[one.service_host for one in each] for each in placed.selections]


def test_every_host_that_is_up_has_the_same_chance(draw):
    drawn = collections.Counter(names(draw(seed=seed))[0][0] for seed in range(400))
    assert drawn.keys() == {'h1', 'h2', 'h3', 'h4'}
    assert min(drawn.values()) > 60


@pytest.mark.parametrize(
    'count', [pytest.param(4, id='enough hosts'), pytest.param(8, id='too few')]
)
def test_instances_get_different_hosts_while_there_are_some(draw, count):
    found = names(draw(count))
    assert {host for (host,) in found[:4]} == {'h1', 'h2', 'h3', 'h4'}
    assert len({host for (host,) in found[4:]}) == count - 4


def test_as_many_as_the_request_says_when_no_instance_is_named(draw):
    assert len(draw(None, num_instances=3).selections) == 3


@cases(
    'request_, expected',
    ('ignored', {'ignore_hosts': ['H1', 'h3', 'h4']}, {'h2'}),
    ('a forced host', {'force_hosts': ['H3']}, {'h3'}),
    ('a forced node', {'force_nodes': ['h4']}, {'h4'}),
    ('a destination', {'requested_destination': factories.destination('h2')}, {'h2'}),
    (
        'ignored wins over forced',
        {'force_hosts': ['h1', 'h2'], 'ignore_hosts': ['h1']},
        {'h2'},
    ),
)
@pytest.mark.parametrize('count', [1, 2])
def test_the_hosts_that_a_request_names_count(draw, request_, expected, count):
    assert {host for (host,) in names(draw(count, **request_))} == expected


@cases(
    'columns, request_, reason',
    (
        'nothing is up',
        {'service_up': [False]},
        {},
        'Is the appropriate service running?',
    ),
    (
        'a disabled host cannot be forced',
        {'service_disabled': [True]},
        {'force_hosts': ['h1']},
        'Is the appropriate service running?',
    ),
    ('all are ignored', {}, {'ignore_hosts': ['h1']}, 'Could not find another compute'),
    (
        'an unknown one is forced',
        {},
        {'force_hosts': ['h9']},
        'Could not find another compute',
    ),
)
def test_no_host_is_said_in_novas_words(draw, columns, request_, reason):
    with pytest.raises(errors.NoValidHost) as raised:
        draw(table=factories.hosts(1, **columns), **request_)
    assert raised.value.reason == reason


def test_a_selection_says_where_it_is_and_claims_nothing(draw):
    ((selection,),) = draw(force_hosts=['h4']).selections
    assert selection.compute_node_uuid == 'uuid-h4'
    assert (selection.nodename, selection.cell_uuid) == ('h4', 'two')
    assert selection.limits.to_dict() == {}
    assert selection.allocation_request == 'null'
    assert selection.allocation_request_version is None
    assert selection.availability_zone == 'nova'


class TestAlternates:
    def test_they_are_others_of_the_cell(self, draw):
        ((first, *others),) = names(
            draw(alternates=True, ignore_hosts=['h4'], parts={'max_attempts': 9})
        )
        assert {first, *others} == {'h1', 'h2', 'h3'}
        assert len(others) == 2

    def test_no_host_of_another_instance_is_one(self, draw):
        found = names(draw(2, alternates=True, ignore_hosts=['h4']))
        firsts = {each[0] for each in found}
        assert all({*each[1:]} == {'h1', 'h2', 'h3'} - firsts for each in found)

    @pytest.mark.parametrize('attempts', [1, 2])
    def test_they_are_one_less_than_attempts(self, draw, attempts):
        parts = {'max_attempts': attempts}
        (found,) = names(draw(alternates=True, parts=parts, ignore_hosts=['h4']))
        assert len(found) == attempts

    def test_they_come_by_chance(self, draw):
        orders = {
            tuple(names(draw(alternates=True, seed=seed, ignore_hosts=['h4']))[0])
            for seed in range(60)
        }
        assert len(orders) == 6

    def test_there_are_none_when_none_are_wanted(self, draw):
        assert [len(each) for each in names(draw(2))] == [1, 1]


def test_a_decision_can_be_had_again_from_its_seed(draw):
    seen = []
    draw(3, alternates=True, recorder=DecisionsSeen(seen.append))
    assert len(seen) == 4
    rng = random.Random(seen[0].seed)
    for index, decision in enumerate(seen):
        again = decide(CHANCE, decision.hosts, decision.request, rng, index)
        assert again.ranked.host.tolist() == decision.ranked.host.tolist()


def test_request_ends_with_the_group_and_instance_of_the_last_server(draw):
    group = factories.group(members=UUIDS[:2])
    placed = draw(2, instance_group=group)
    hosts = [host for (host,) in names(placed)]
    assert placed.request.instance_group.hosts == hosts
    assert placed.request.instance_uuid == UUIDS[1]


def test_nothing_wanted_is_nothing_drawn(draw):
    assert draw(None, num_instances=0).selections == []


def test_forced_host_is_logged(draw, caplog):
    with caplog.at_level(logging.DEBUG, 'novasched'):
        draw(force_hosts=['h1'])
    assert 'Host filter forcing available hosts to h1' in caplog.messages
    assert any(line.startswith('Selected host: (h1, h1)') for line in caplog.messages)


def test_placement_is_not_asked():
    assert ChanceScheduler.USES_ALLOCATION_CANDIDATES is False


def test_no_filter_is_said_to_have_run(draw, caplog):
    with caplog.at_level(logging.DEBUG, 'novasched'):
        draw()
        with pytest.raises(errors.NoValidHost):
            draw(requested_destination=factories.destination('h9'))
    words = ('Starting with', 'Filtering removed')
    assert not [line for line in caplog.messages if line.startswith(words)]
