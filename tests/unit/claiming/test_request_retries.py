# SPDX-License-Identifier: Apache-2.0
"""The budget of what a request decides again."""

import logging

from novasched.claiming.request import LIMITS, MOST_ABORTS, Again, RetryBudget
from novasched.scheduler.outcomes import REASONS, Outcome, text_of


def test_members_that_moved_allow_for_one_retry_after_the_last_abort():
    budget = RetryBudget()
    assert budget.spend(Outcome.GROUP_BROKEN, MOST_ABORTS)
    assert not budget.is_spent(Outcome.MEMBERS_MOVED)
    assert budget.retry(Outcome.MEMBERS_MOVED).again is Again.HOSTS
    assert budget.is_spent(Outcome.MEMBERS_MOVED)
    assert budget.retry(Outcome.GROUP_BROKEN).again is Again.NOWHERE


def test_each_reason_to_go_on_has_a_text():
    counters = {Outcome.FURTHER, Outcome.JOINT}
    goes_on = {why for why, limit in LIMITS.items() if limit.again is not Again.NOWHERE}
    assert goes_on - counters == set(REASONS)
    assert len({reason.text for reason in REASONS}) == len(REASONS)


def test_rounds_are_counted_and_logged_in_the_words_of_their_reason(caplog):
    caplog.set_level(logging.DEBUG)
    budget = RetryBudget()
    budget.decide_again(Outcome.HOST_CHANGED, 'h1')
    budget.decide_again(Outcome.HOST_CHANGED)
    assert budget.rounds == {Outcome.HOST_CHANGED: 2}
    assert caplog.messages == [
        'Deciding again: the host had changed (h1)',
        'Deciding again: the host had changed',
    ]


def test_reason_of_a_later_release_is_its_own_text():
    assert text_of('host changed') == 'the host had changed'
    assert text_of('too hot') == 'too hot'
