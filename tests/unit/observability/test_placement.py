# SPDX-License-Identifier: Apache-2.0
"""What is counted and measured of placement, and what it says of its health."""

import pytest

from novasched import errors
from novasched.observability.health import PASS, WARN
from novasched.observability.instrumentation import Instrumentation
from novasched.ports import (
    Candidates,
    Claimed,
    ClaimRefused,
    ClaimRequest,
    ClaimUnknown,
    QueryFailed,
)
from tests.support.clouds.fakes import VERSION, FakeClock, FakePlacement
from tests.support.tables.cases import cases


@pytest.fixture
def instrumentation(recorder):
    return Instrumentation(recorder, FakeClock())


@pytest.fixture
def health(instrumentation):
    return instrumentation.health


def status(health):
    return health.checks()['placement'].status


class ScriptedPlacement(FakePlacement):
    """Answers every call with the same."""

    def __init__(self, answer):
        super().__init__()
        self._answer = answer

    def _given(self, *arguments):
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    claim = claim_all = aggregates = _given


class TestPlacement:
    @pytest.fixture
    def ask(self, instrumentation):
        def make(answer):
            return instrumentation.placement(ScriptedPlacement(answer))

        return make

    @cases(
        'answer, expected, well',
        ('some', Candidates(({}, {}), VERSION), 'found', PASS),
        ('none', Candidates((), VERSION), 'none', PASS),
        ('a refusal', QueryFailed(400, 'odd'), 'failed', PASS),
        ('no token', QueryFailed(401, 'who?'), 'failed', WARN),
        ('an error', QueryFailed(503, 'away'), 'failed', WARN),
        ('no answer', QueryFailed(0, 'gone'), 'failed', WARN),
    )
    def test_queries_are_counted_and_tell_how_placement_is(
        self, instrumentation, recorder, health, answer, expected, well
    ):
        instrumentation.answered(answer)
        assert recorder.counts == {('novasched_candidate_queries_total', expected): 1}
        assert status(health) == well

    def test_answers_of_a_copy_are_no_news_of_placement(
        self, instrumentation, recorder, health
    ):
        instrumentation.answered(Candidates(({}, {}), VERSION, cut=True, copy=1))
        assert recorder.observed == {('novasched_candidates',): [2]}
        assert recorder.counts['novasched_candidates_truncated_total',] == 1
        assert 'placement' not in health.checks()

    @pytest.mark.parametrize(
        ('answer', 'expected', 'well'),
        [
            (Claimed('c'), 'claimed', PASS),
            (ClaimRefused(409, 'no room'), 'conflict', PASS),
            (ClaimRefused(400, 'odd'), 'refused', PASS),
            (ClaimRefused(500, 'odd'), 'refused', WARN),
            (ClaimUnknown('c', 'no answer'), 'unknown', WARN),
        ],
    )
    def test_claims_are_counted_by_their_outcome(
        self, ask, recorder, health, answer, expected, well
    ):
        placement = ask(answer)
        assert (
            placement.claim(None, ClaimRequest('c', {}), VERSION, None, None) is answer
        )
        assert recorder.counts == {('novasched_claims_total', expected): 1}
        assert status(health) == well

    @pytest.mark.parametrize(
        ('answer', 'expected'),
        [
            ([Claimed('c'), Claimed('d')], {'claimed': 2}),
            ([Claimed('c'), ClaimUnknown('d', 'lost')], {'claimed': 1, 'unknown': 1}),
            (ClaimRefused(409, 'no room'), {'conflict': 1}),
        ],
    )
    def test_claims_made_together_are_counted(self, ask, recorder, answer, expected):
        assert ask(answer).claim_all(None, [], VERSION, None, None) is answer
        counted = {result: n for (_, result), n in recorder.counts.items()}
        assert counted == expected

    def test_aggregates_are_handed_on(self, ask):
        assert ask(frozenset('a')).aggregates(None, 'p') == {'a'}

    def test_a_claim_that_raises_is_an_error(self, ask, recorder):
        problem = errors.AllocationUpdateFailed('c', 'changed')
        with pytest.raises(errors.AllocationUpdateFailed):
            ask(problem).claim(None, ClaimRequest('c', {}), VERSION, None, None)
        assert recorder.counts == {('novasched_claims_total', 'error'): 1}
