# SPDX-License-Identifier: Apache-2.0
"""What is kept of a request while it is served, and what is let go."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

from novasched import errors
from novasched.decisions.recording import MOST_CLAIMS, MOST_NOTES, RequestObserver
from novasched.drivers.chance import ChanceScheduler
from novasched.ports import QueryFailed
from novasched.resources.requirements import Requirements
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.fakes import FakeClock, FakePlacement, FakeView
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-{number:012}' for number in range(1000)]


def turns(recorded):
    """Index, attempt, whether it is whole, and host of each turn of a request."""
    return [
        (turn.index, turn.attempt, turn.decision is not None, turn.host)
        for turn in recorded.log.requests[-1].turns
    ]


def hosts(count=5):
    return factories.hosts(free_ram_mb=[9000 - 1000 * n for n in range(count)])


def test_the_first_and_the_last_of_an_attempt_are_whole():
    recorded = Recorded(hosts(), weighers=[RAMWeigher(-1.0)])
    recorded.ask(UUIDS[:4])
    assert turns(recorded) == [
        (0, 1, True, 'h5'),
        (1, 1, False, 'h5'),
        (2, 1, False, 'h5'),
        (3, 1, True, 'h5'),
    ]


def test_each_attempt_has_its_first_and_its_last():
    offered = FakePlacement(*hosts().uuid.tolist())
    offered.together = 'refused'
    recorded = Recorded(hosts(), offered, weighers=[RAMWeigher(-1.0)])
    recorded.ask(UUIDS[:3])
    whole = [
        (index, attempt) for index, attempt, is_whole, _ in turns(recorded) if is_whole
    ]
    attempts = sorted({attempt for _, attempt in whole})
    assert len(attempts) > 1
    assert whole == [(index, a) for a in attempts for index in (0, 2)]


def test_the_one_without_a_host_is_whole():
    recorded = Recorded(
        factories.hosts(num_instances=[8]), filters=[NumInstancesFilter(limit=10)]
    )
    recorded.refused(UUIDS[:5])
    assert turns(recorded) == [
        (0, 1, True, 'h1'),
        (1, 1, False, 'h1'),
        (2, 1, True, None),
    ]


def test_record_names_the_host_drawn_by_chance():
    recorded = Recorded(hosts(), driver=ChanceScheduler)
    answer = recorded.ask(UUIDS[:3])
    drawn = [selections[0].service_host for selections in answer]
    assert [host for _, _, _, host in turns(recorded)] == drawn
    assert [index for index, _, _, _ in turns(recorded)] == [0, 1, 2]


def test_the_tables_of_a_thousand_servers_are_let_go():
    alive = []

    class Watching(RequestObserver):
        def decided(self, recorder, decision, stages_s):
            alive.append(weakref.ref(decision.hosts.snapshot))

    recorded = Recorded(hosts(50), weighers=[RAMWeigher()])
    recorded.log.observer = Watching()
    recorded.ask(UUIDS)
    recorder = recorded.log.requests[-1]
    assert len(recorder.turns) == 1000
    assert sum(turn.decision is not None for turn in recorder.turns) == 2
    gc.collect()
    assert len(alive) >= 1000
    assert sum(each() is not None for each in alive) <= 4


def test_the_record_of_a_thousand_servers_has_all_their_hosts():
    recorded = Recorded(hosts(50), weighers=[RAMWeigher()])
    answer = recorded.ask(UUIDS)
    decisions = recorded.record.body.decisions
    assert [made.host for made in decisions] == [s[0].service_host for s in answer]
    assert [made.index for made in decisions] == list(range(1000))
    assert recorded.record.body.whole_decisions == [decisions[0], decisions[-1]]


class SlowView(FakeView):
    """Takes a second to be refreshed."""

    clock: FakeClock

    def refresh(self):
        self.clock.advance(1)
        return super().refresh()


class SlowPlacement(FakePlacement):
    """Takes two seconds for a query, and three for a claim."""

    clock: FakeClock

    def candidates(self, context, query):
        self.clock.advance(2)
        return super().candidates(context, query)

    def claim(self, *args, **options):
        self.clock.advance(3)
        return super().claim(*args, **options)


def test_stages_say_how_long_they_took():
    clock = FakeClock()
    view, placement = SlowView(hosts()), SlowPlacement('uuid-h1', 'uuid-h2')
    view.clock = placement.clock = clock
    recorded = Recorded(hosts(), placement, view=view, clock=clock)
    recorded.ask()
    recorder = recorded.log.requests[-1]
    assert recorder.took_s == 6
    assert recorder.stages_s['refresh'] == 1
    assert recorder.stages_s['query'] == 2
    assert recorder.stages_s['claim'] == 3
    assert recorder.stages_s['prefilter'] == 0
    assert [claim.took_s for claim in recorder.claims] == [3]
    assert recorded.record.head.took_us == 6_000_000
    assert recorded.record.body.stages_ms['query'] == 2000
    assert recorded.record.body.claims[0].ms == 3000


def test_a_stage_that_raises_has_its_time():
    clock = FakeClock()
    recorder = Recorded(clock=clock).log.recorder(None, factories.request(), None)
    with contextlib.suppress(ValueError), recorder.stage('query'):
        clock.advance(2)
        raise ValueError
    with recorder.stage('query'), recorder.stage('claim'):
        clock.advance(1)
    assert recorder.stages_s == {'query': 3, 'claim': 1}


def test_of_very_many_claims_some_are_kept_and_all_counted():
    many = [f'uuid-h{n}' for n in range(1, 41)]
    offered = FakePlacement(*many, script=['refused'] * 40)
    recorded = Recorded(factories.hosts(count=40), offered)
    recorded.refused()
    body = recorded.record.body
    assert len(body.claims) == MOST_CLAIMS
    assert body.claims_total == 40
    assert [claim.host for claim in body.claims] == [
        f'h{n}' for n in range(1, MOST_CLAIMS + 1)
    ]
    assert {claim.outcome for claim in body.claims} == {'conflict'}
    assert body.rounds == {'conflict': 39}


def test_of_very_many_notes_some_are_kept():
    def noting(context, request):
        return Requirements(warnings=tuple(f'{n} {"x" * 999}' for n in range(30)))

    recorded = Recorded(prefilters=[noting])
    recorded.ask()
    notes = recorded.record.body.notes
    assert [note.split()[0] for note in notes] == [str(n) for n in range(MOST_NOTES)]
    assert {len(note) for note in notes} == {200}


class Broken(BaseHostFilter):
    """Raises an error that is none of ours."""

    def host_passes(self, host_state, spec_obj):
        raise ZeroDivisionError


@cases(
    'options, kind',
    ('answered', {}, None),
    ('refused', {'filters': [NumInstancesFilter(limit=0)]}, errors.NoValidHost),
    ('broken', {'filters': [Broken()]}, errors.ExtensionFailed),
)
def test_every_request_has_one_record_however_it_ends(options, kind):
    recorded = Recorded(**options)
    if kind is None:
        recorded.ask()
    else:
        with pytest.raises(kind):
            recorded.ask()
    (recorder,) = recorded.log.requests
    assert (recorder.answer is None) == (kind is not None)
    assert (recorder.error is None) == (kind is None)
    assert recorded.record.head.id == recorder.id


def test_an_interrupted_process_leaves_no_record():
    class Interrupted(FakePlacement):
        def candidates(self, context, query):
            raise KeyboardInterrupt

    recorded = Recorded(placement=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        recorded.ask()
    assert recorded.log.records == []


def test_every_query_is_kept():
    class Choosy(FakePlacement):
        def candidates(self, context, query):
            if 'limit' not in str(query):
                return QueryFailed(503, 'away')
            return super().candidates(context, query)

    recorded = Recorded(
        factories.hosts(num_instances=[9, 9]),
        Choosy('uuid-h1', 'uuid-h2'),
        filters=[NumInstancesFilter(limit=3)],
        limit=2,
    )
    recorded.refused()
    first, second = recorded.record.body.asked
    assert (first.candidates, first.cut, first.limit) == (2, True, 2)
    assert (second.status, second.text, second.limit) == (503, 'away', None)
    assert recorded.record.head.blocker == 'filters'
