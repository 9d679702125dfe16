# SPDX-License-Identifier: Apache-2.0
"""What the journal is told of the claims of a request."""

from __future__ import annotations

import pytest

from novasched.drivers.ledger import Ledger
from novasched.ports import CallerGone, ClaimRequest, Intent
from tests.unit.fakes import FakeCaller, FakeJournal, candidate

WANTED = [ClaimRequest('a', candidate('p')), ClaimRequest('b', candidate('q'))]
GONE = CallerGone('it hung up')


@pytest.fixture
def journal():
    return FakeJournal()


def test_what_is_claimed_is_written_down(journal):
    Ledger(journal).intend('req-1', 'project', WANTED[:1])
    assert journal.intents == [Intent('req-1', 'a', 'project', {'p': {'VCPU': 1}})]
    assert journal.told == []


def test_how_long_the_caller_waits_is_written_down(journal):
    Ledger(journal, FakeCaller(left_s=12.5)).intend('req-1', 'project', WANTED)
    assert [one.undo_within_s for one in journal.intents] == [12.5, 12.5]


def test_only_what_is_open_is_settled_and_left(journal):
    ledger = Ledger(journal)
    ledger.intend('req-1', 'project', WANTED)
    ledger.settle('a', 'a', 'unknown')
    ledger.end(SystemExit())
    ledger.end(SystemExit())
    assert journal.told == [('a', 'settled'), ('b', 'left')]


def test_what_a_defect_interrupted_is_not_for_who_comes_after(journal):
    ledger = Ledger(journal)
    ledger.intend('req-1', 'project', WANTED)
    ledger.end(KeyError())
    assert journal.told == [('a', 'settled'), ('b', 'settled')]


def test_an_answer_is_under_way_until_it_is_handed_over(journal):
    caller = FakeCaller()
    ledger = Ledger(journal, caller)
    ledger.intend('req-1', 'project', WANTED)
    ledger.settle('b')
    ledger.answer()
    ledger.end(SystemExit())
    assert journal.told == [('b', 'settled'), ('a', 'answering')]
    caller.answered()
    assert journal.told[2:] == [('a', 'settled')]


def test_an_undo_that_fails_leaves_nothing_open(journal):
    caller = FakeCaller()
    ledger = Ledger(journal, caller)
    ledger.intend('req-1', 'project', WANTED[:1])

    def broken():
        raise KeyError

    ledger.answer(broken)
    with pytest.raises(KeyError):
        caller.undeliverable()
    assert journal.told == [('a', 'answering'), ('a', 'settled')]


def test_nobody_known_has_the_answer_at_once(journal):
    ledger = Ledger(journal)
    ledger.intend('req-1', 'project', WANTED[:1])
    ledger.check_caller()
    ledger.answer()
    assert journal.told == [('a', 'settled')]


def test_a_caller_that_is_gone_is_told(journal):
    with pytest.raises(CallerGone) as raised:
        Ledger(journal, FakeCaller(GONE)).check_caller()
    assert str(raised.value) == 'Nobody waits for this request any more: it hung up'


def test_without_a_journal_nothing_is_written():
    ledger = Ledger(None, FakeCaller())
    ledger.intend('req-1', 'project', WANTED)
    ledger.settle('a')
    ledger.end(SystemExit())
    ledger.answer()
