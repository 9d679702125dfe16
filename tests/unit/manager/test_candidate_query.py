# SPDX-License-Identifier: Apache-2.0
"""What placement is asked for a request, and what is made of its answers."""

import logging

import pytest

from novasched.manager.candidate_query import LAGS, CandidateQueries, QueryPolicy
from novasched.objects.context import RequestContext
from novasched.ports import Candidates, QueryFailed
from novasched.resources import Requirements, build_query
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    Cutting,
    FakeNetwork,
    FakePlacement,
    FakeView,
    candidate,
)
from tests.support.tables.cases import cases

PINNED = {'hw:cpu_policy': 'dedicated'}
AWAY = QueryFailed(503, 'away')
NOTHING = Candidates([], '1.36')
AGG = 'a0000000-0000-4000-8000-00000000000a'


class Twofold(FakePlacement):
    """Has an answer of its own for dedicated CPUs, and one for shared ones."""

    def __init__(self, dedicated, shared):
        super().__init__()
        self._answers = {'PCPU': dedicated, 'VCPU': shared}

    def candidates(self, context, query):
        self.queries.append(query)
        return self._answers['PCPU' if 'PCPU' in query else 'VCPU']


def queries_of(placement, answers, copy=None, **how):
    """Queries in a cloud of one host in an aggregate."""
    view = FakeView(factories.hosts(), nodes=[('h1', 'n1', 'uuid-1')])
    view.aggregates.update([Aggregate(1, AGG, 'one', frozenset({'h1'}))])
    policy = QueryPolicy(on_answer=answers.append)
    return CandidateQueries(view, placement, FakeNetwork(), policy, copy, **how)


def offered(*uuids, version='1.36', cut=False):
    summaries = {uuid: {'first': uuids[0]} for uuid in uuids}
    return Candidates([candidate(uuid) for uuid in uuids], version, summaries, cut)


@pytest.fixture
def ask():
    """Ask: `ask(placement, limit=..., falls_back=..., member_of=..., **request)`."""

    def run(placement, *, limit=1000, falls_back=True, member_of=(), **request):
        run.answers = []
        added = Requirements(member_of=tuple(member_of))
        request = factories.request(**request)
        query = build_query(request, added, None, limit, falls_back)
        source = queries_of(placement, run.answers)
        return source.ask(RequestContext(overwrite=False), query)

    return run


def test_shared_cpus_come_after_dedicated_ones(ask):
    placement = Twofold(offered('a', 'b'), offered('c', 'b', version='1.0'))
    found = ask(placement, extra_specs=PINNED)
    assert [next(iter(each['allocations'])) for each in found.requests] == [*'abcb']
    assert {uuid: each['first'] for uuid, each in found.summaries.items()} == {
        'a': 'a',
        'b': 'c',
        'c': 'c',
    }
    assert found.version == '1.36'
    assert [('PCPU' in query, 'VCPU' in query) for query in placement.queries] == [
        (True, False),
        (False, True),
    ]


@cases(
    'dedicated, shared, expected',
    ('the fallback fails', offered('a'), AWAY, [candidate('a')]),
    ('the first query fails', AWAY, offered('a'), [candidate('a')]),
    ('no shared ones', offered('a'), NOTHING, [candidate('a')]),
    ('no dedicated ones', NOTHING, offered('a'), [candidate('a')]),
)
def test_one_of_two_answers_is_enough(ask, dedicated, shared, expected):
    found = ask(Twofold(dedicated, shared), extra_specs=PINNED)
    assert [*found.requests] == expected
    assert found.version == '1.36'


def test_two_failures_are_one(ask):
    assert ask(Twofold(AWAY, AWAY), extra_specs=PINNED) is AWAY


def test_the_fallback_can_be_turned_off(ask):
    placement = Twofold(offered('a'), offered('b'))
    ask(placement, extra_specs=PINNED, falls_back=False)
    assert len(placement.queries) == 1


def test_fallback_query_is_logged(ask, caplog):
    caplog.set_level(logging.DEBUG, 'novasched.manager.candidate_query')
    ask(Twofold(offered('a'), offered('b')), extra_specs=PINNED)
    assert caplog.messages == [
        'Requesting fallback allocation candidates with VCPU instead of PCPU'
    ]


@cases(
    'offers, limit, cut',
    ('as many as the limit', 'abc', 2, True),
    ('less than the limit', 'a', 2, False),
    ('no limit', 'abc', None, False),
)
def test_answer_that_a_limit_cut_is_reported(ask, offers, limit, cut):
    found = ask(Cutting(*offers), limit=limit)
    assert found.cut is cut
    assert ask.answers == [found]


@cases(
    'placement, looked_at',
    ('there are no candidates', FakePlacement(), ['uuid-1']),
    ('there are some', FakePlacement('a'), []),
    ('the query failed', Twofold(AWAY, AWAY), []),
)
def test_aggregates_are_looked_at_when_nothing_is_found(ask, placement, looked_at):
    ask(placement, member_of=[frozenset({AGG})])
    assert placement.aggregates_asked == looked_at


@cases(
    'problem, is_patient, asked',
    ('it is waited for', '503', True, 0),
    ('but not by this one', '503', False, 1),
    ('it is not away', '', True, 1),
)
def test_nothing_is_asked_of_a_placement_that_is_waited_for(problem, is_patient, asked):
    placement = FakePlacement('p')
    source = queries_of(placement, [], unavailable=lambda: problem)
    query = build_query(factories.request(), Requirements(), None, 1000, True)
    context = RequestContext(overwrite=False)
    answer = source.ask(context, query, is_patient=is_patient)
    assert len(placement.queries) == asked
    assert asked or answer == QueryFailed(0, '503', is_unavailable=True)


def test_the_options_of_nova(conf):
    policy = QueryPolicy.from_conf(conf)
    assert policy.limit == 1000
    assert policy.falls_back is True
    conf.set_override('disable_fallback_pcpu_query', True, 'workarounds')
    assert QueryPolicy.from_conf(conf).falls_back is False


def test_looking_beyond_the_limit_can_be_turned_off(conf):
    assert QueryPolicy.from_conf(conf).looks_further is True
    conf.set_override('look_beyond_limit', False, 'novasched')
    assert QueryPolicy.from_conf(conf).looks_further is False


class FakeMirror:
    """A copy of placement that has an answer, or says why it has none."""

    def __init__(self, answer):
        self.answer = answer
        self.asked = []

    def candidates(self, query, fresh):
        self.asked.append(fresh)
        return self.answer


class TestCopy:
    @pytest.fixture
    def source(self):
        def make(answer, placement, **how):
            answers = []
            mirror = FakeMirror(answer)
            made = queries_of(placement, answers, mirror)
            query = build_query(factories.request(), Requirements(), None, 1000)
            return made.ask(RequestContext(), query, True, **how), mirror, answers

        return make

    @pytest.mark.parametrize('cut', [True, False])
    def test_it_answers(self, source, cut):
        placement = Twofold(NOTHING, NOTHING)
        copied = offered('a', cut=cut)
        answer, mirror, answers = source(copied, placement)
        assert answer is copied
        assert mirror.asked == [True]
        assert placement.queries == []
        assert answers == [copied]

    def test_placement_answers_where_it_cannot(self, source):
        answer, _, _ = source('it is too old', Twofold(NOTHING, offered('a')))
        assert answer.fallback == 'it is too old'
        assert len(answer.requests) == 1

    def test_reason_not_to_ask_the_copy_is_recorded(self, source):
        placement = Twofold(NOTHING, offered('a'))
        answer, mirror, _ = source(offered('b'), placement, why_not_copy=LAGS)
        assert (answer.fallback, mirror.asked) == (LAGS, [])

    def test_a_failure_of_placement_is_one(self, source):
        answer, _, _ = source('it is too old', Twofold(AWAY, AWAY))
        assert answer is AWAY
