# SPDX-License-Identifier: Apache-2.0
"""What the journal is told of the claims of a request."""

from __future__ import annotations

import pytest

from novasched.claiming.claims import ClaimJournal
from novasched.ports import NO_CALLER, CallerGone, ClaimRequest, Intent
from tests.support.clouds.fakes import FakeCaller, FakeJournal, candidate

WANTED = [ClaimRequest('a', candidate('p')), ClaimRequest('b', candidate('q'))]
GONE = CallerGone('it hung up')


@pytest.fixture
def journal():
    return FakeJournal()


def intended(journal, caller=NO_CALLER, wanted=WANTED):
    """Return what a request tells the journal, which knows of its claims."""
    made = ClaimJournal(journal, caller)
    made.intend('req-1', 'project', wanted)
    return made


def test_intent_is_journalled_before_the_claim(journal):
    intended(journal, wanted=WANTED[:1])
    assert journal.intents == [Intent('req-1', 'a', 'project', {'p': {'VCPU': 1}})]
    assert journal.told == []


def test_how_long_the_caller_waits_is_written_down(journal):
    intended(journal, FakeCaller(left_s=12.5))
    assert [one.undo_within_s for one in journal.intents] == [12.5, 12.5]


def test_only_what_is_open_is_settled_and_left(journal):
    claim_journal = intended(journal)
    claim_journal.settle('a', 'a', 'unknown')
    claim_journal.end(SystemExit())
    claim_journal.end(SystemExit())
    assert journal.told == [('a', 'settled'), ('b', 'left')]


def test_claims_of_a_broken_request_are_handed_to_recovery(journal):
    claim_journal = intended(journal)
    claim_journal.end(KeyError())
    claim_journal.end(KeyError())
    assert journal.told == [('a', 'to be undone'), ('b', 'to be undone')]


def test_an_undo_that_fails_is_made_again_later(journal):
    caller = FakeCaller()
    claim_journal = intended(journal, caller, WANTED[:1])

    def broken():
        raise KeyError

    claim_journal.answer(broken)
    with pytest.raises(KeyError):
        caller.undeliverable()
    assert journal.told == [('a', 'answering'), ('a', 'to be undone')]


def test_check_raises_once_the_caller_is_gone(journal):
    with pytest.raises(CallerGone) as raised:
        ClaimJournal(journal, FakeCaller(GONE)).check_caller()
    assert str(raised.value) == 'No caller waits for this request any more: it hung up'
