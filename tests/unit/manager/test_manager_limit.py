# SPDX-License-Identifier: Apache-2.0
"""When none of the first candidates will do, all are asked for."""

import contextlib
import logging

import pytest

from novasched import errors
from novasched.manager.candidate_query import QueryPolicy
from novasched.objects.context import RequestContext
from novasched.outages import PLACEMENT
from novasched.ports import QueryFailed
from novasched.scheduler.outcomes import Outcome
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    Choosy,
    Cutting,
    FakeDriver,
    FakeNotifier,
    FakePlacement,
)
from tests.support.clouds.managers import make_manager
from tests.support.tables.cases import cases

A = 'c0000000-0000-4000-8000-00000000000a'


class TestBeyondTheLimit:
    @pytest.fixture
    def look(self):
        """Ask for a host of which placement has some, two of them at once."""

        def run(offered, wanted, *, looks_further=True, **options):
            driver, placement = Choosy(wanted), Cutting(*offered)
            vars(placement).update(options)
            notifier = FakeNotifier()
            policy = QueryPolicy((), 2, looks_further=looks_further)
            manager = make_manager(
                driver, placement=placement, notifier=notifier, policy=policy
            )
            failed = None
            try:
                manager.select_destinations(
                    RequestContext(overwrite=False),
                    factories.request(),
                    [A],
                    True,
                    True,
                )
            except errors.NoValidHost as problem:
                failed = str(problem)
            attempts = [(len(c.requests), c.cut, c.further) for c in driver.attempts]
            return failed, attempts, placement, notifier

        return run

    def test_all_are_asked_for_when_the_first_will_not_do(self, look, caplog):
        caplog.set_level(logging.INFO, 'novasched.manager')
        failed, attempts, placement, notifier = look('abc', 'c')
        assert (failed, attempts) == (None, [(2, True, False), (3, False, True)])
        first, second = placement.queries
        assert first.replace('limit=2&', '') == second
        assert notifier.phases == ['start', 'end']
        assert [consumer for consumer, _ in placement.undone] == [A]
        assert list(placement.held) == [A]
        assert caplog.messages == [
            'No host left after filtering the first 2 allocation candidates '
            '(limit reached); retrying without the limit.'
        ]

    @cases(
        ('offered', 'wanted', 'options', 'attempts'),
        ('all will not do either', 'abc', 'd', {}, 2),
        ('these were all', 'ab', 'd', {}, 1),
        ('these were all, as could be seen', 'a', 'd', {}, 1),
        ('placement fails', 'abc', 'c', {'fails_without_limit': True}, 1),
        ('not looked for', 'abc', 'c', {'looks_further': False}, 1),
        ('a claim was refused', 'abc', 'c', {'script': ['refused']}, 1),
    )
    def test_no_host_is_no_host(self, look, offered, wanted, options, attempts):
        failed, made, placement, notifier = look(offered, wanted, **options)
        assert failed == (
            'No valid host was found. There are not enough hosts available.'
        )
        assert len(made) == attempts
        assert notifier.phases == ['start']
        assert placement.held == {}

    def test_no_look_while_a_claim_may_be_left_behind(self, look):
        failed, attempts, placement, _ = look('abc', 'c', unundone={A})
        assert failed is not None
        assert len(attempts) == 1
        assert list(placement.held) == [A]

    def test_a_host_among_the_first_is_enough(self, look):
        failed, attempts, placement, _ = look('abc', 'b')
        assert (failed, attempts) == (None, [(2, True, False)])
        assert len(placement.queries) == 1


class Lagging(FakeDriver):
    """Finds no host at first, as the copy of placement lags, and then as it is told."""

    def __init__(self, finds):
        super().__init__()
        self._finds = [False, finds]

    def select_destinations(self, request):
        placed = super().select_destinations(request)
        if not self._finds.pop(0):
            request.budget.spend(Outcome.COPY_LAGS)
            raise errors.NoValidHost('')
        return placed


@cases(
    'finds, unavailable',
    ('the candidates that are known will do', True, {}),
    ('they will not do', False, {PLACEMENT: '503 Service Unavailable'}),
)
def test_placement_that_offers_no_others_is_unavailable_where_the_attempt_fails(
    finds, unavailable
):
    class Silent(FakePlacement):
        def candidates(self, context, query):
            found = super().candidates(context, query)
            self.failure = QueryFailed(503, 'away', is_unavailable=True)
            return found

    driver = Lagging(finds)
    manager = make_manager(driver, placement=Silent('a'))
    ended = contextlib.nullcontext() if finds else pytest.raises(errors.NoValidHost)
    with ended:
        manager.select_destinations(
            RequestContext(overwrite=False), factories.request(), [A], True, False
        )
    assert driver.request.attempt.unavailable == unavailable
    assert driver.request.attempt.is_query_lost == (not finds)
