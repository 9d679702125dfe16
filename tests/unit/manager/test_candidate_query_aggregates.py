# SPDX-License-Identifier: Apache-2.0
"""Aggregates that placement does not know are told of, once."""

import logging

import pytest

from novasched import errors
from novasched.manager.candidate_query import (
    LOOK_AGAIN_S,
    LOOK_FOR_S,
    MOST_LOOKS,
    AggregateSync,
)
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock, FakePlacement, FakeView
from tests.support.tables.cases import cases

NODES = [('h1', 'n1', 'uuid-1'), ('h2', 'n2', 'uuid-2')]


def aggregate(number, *hosts):
    return Aggregate(number, f'agg-{number}', f'rack{number}', frozenset(hosts))


class Silent(FakeView):
    """Cannot tell the nodes of a host."""

    def nodes_named(self, host, node, cell_uuid=None):
        raise errors.StoreFailed('the API database', 'refused')


class Slow(FakePlacement):
    """Takes its time to tell of aggregates."""

    def __init__(self, clock):
        super().__init__()
        self._clock = clock
        self.takes_s = 0.0

    def aggregates(self, context, provider_uuid):
        self._clock.advance(self.takes_s)
        return super().aggregates(context, provider_uuid)


@pytest.fixture
def look(caplog):
    """Look at aggregates by uuid; returns what was asked, and what was said."""
    caplog.set_level(logging.WARNING, 'novasched')
    clock = FakeClock()
    placement = Slow(clock)

    def make(*aggregates, view=FakeView, **known):
        shown = view(factories.hosts(), nodes=NODES)
        shown.aggregates.update(aggregates)
        sync = AggregateSync(shown, placement, clock)

        def run(*uuids):
            placement.known_aggregates = {
                f'uuid-{name[1:]}': frozenset(uuids) for name, uuids in known.items()
            }
            caplog.clear()
            placement.aggregates_asked.clear()
            sync.look(None, uuids)
            return placement.aggregates_asked, caplog.messages

        run.clock, run.known, run.placement = clock, known, placement
        return run

    return make


def test_aggregate_unknown_to_placement_is_logged_with_its_remedy(look):
    asked, said = look(aggregate(1, 'h2', 'h1'), h1=['other'])('agg-1')
    assert asked == ['uuid-1']
    assert said == [
        'Placement does not know that host h1 is in aggregate rack1 (agg-1), and '
        'finds no host for requests that ask for the aggregate; mend it with: '
        'nova-manage placement sync_aggregates'
    ]


@cases(
    'aggregates, wanted, known, asks',
    ('known', [aggregate(1, 'h1')], 'agg-1', {'h1': ['agg-1']}, 1),
    ('placement is silent', [aggregate(1, 'h1')], 'agg-1', {}, 1),
    ('no hosts', [aggregate(1)], 'agg-1', {}, 0),
    ('an unknown host', [aggregate(1, 'h9')], 'agg-1', {}, 0),
    ('not one of nova', [aggregate(1, 'h1')], 'agg-2', {}, 0),
)
def test_known_or_unreadable_aggregate_is_not_logged(
    look, aggregates, wanted, known, asks
):
    asked, said = look(*aggregates, **known)(wanted)
    assert (len(asked), said) == (asks, [])


def test_unknown_hosts_log_nothing(look):
    assert look(aggregate(1, 'h1'), view=Silent, h1=[])('agg-1') == ([], [])


def test_missing_aggregate_is_logged_once_until_mended(look):
    run = look(aggregate(1, 'h1'), h1=[])

    def later(seconds, *known):
        run.known['h1'] = known
        run.clock.advance(seconds)
        asked, said = run('agg-1')
        return len(asked), len(said)

    assert later(0) == (1, 1)
    assert later(LOOK_AGAIN_S - 1) == (0, 0)
    assert later(1) == (1, 0)
    assert later(LOOK_AGAIN_S, 'agg-1') == (1, 0)
    assert later(LOOK_AGAIN_S) == (1, 1)


def test_one_request_does_not_look_at_many(look):
    aggregates = [aggregate(number, 'h1') for number in range(MOST_LOOKS + 2)]
    run = look(*aggregates, h1=[])
    uuids = [each.uuid for each in aggregates]
    asked, _ = run(*uuids)
    assert len(asked) == MOST_LOOKS
    asked, _ = run(*uuids)
    assert len(asked) == 2


def test_a_request_does_not_wait_long_for_a_placement_that_is_slow(look):
    run = look(*(aggregate(number, 'h1') for number in range(MOST_LOOKS)), h1=[])
    run.placement.takes_s = LOOK_FOR_S / 2
    asked, _ = run(*(f'agg-{number}' for number in range(MOST_LOOKS)))
    assert len(asked) == 2
