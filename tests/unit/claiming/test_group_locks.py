# SPDX-License-Identifier: Apache-2.0
"""Requests of one server group, one after the other."""

from __future__ import annotations

import contextlib
import threading

import pytest

from novasched.claiming.reservation import GroupLocks
from novasched.ports import CallerGone
from tests.support.clouds.fakes import FakeCaller

DEADLINE_S = 20


class TestTurns:
    @pytest.fixture
    def occupied(self):
        """Somebody has the turn of a group until the test ends."""
        turns, entered, leave = GroupLocks(0.2), threading.Event(), threading.Event()

        def stay():
            with turns.of('group'):
                entered.set()
                leave.wait(DEADLINE_S)

        thread = threading.Thread(target=stay)
        thread.start()
        assert entered.wait(DEADLINE_S)
        yield turns, leave
        leave.set()
        thread.join(DEADLINE_S)

    @pytest.mark.parametrize('group', [None, 'other'])
    def test_others_do_not_wait(self, occupied, group, caplog):
        turns, _ = occupied
        with turns.of(group):
            pass
        assert caplog.messages == []

    def test_it_is_waited_for(self, occupied, caplog):
        turns, leave = occupied
        turns._within_s = DEADLINE_S
        threading.Timer(0.1, leave.set).start()
        with turns.of('group'):
            assert leave.is_set()
        assert caplog.messages == []

    def test_but_not_for_ever(self, occupied, caplog):
        turns, leave = occupied
        with turns.of('group'):
            assert not leave.is_set()
        assert 'server group group has not ended' in caplog.text

    @pytest.mark.parametrize('gone', [None, CallerGone('it has waited for 60 s')])
    def test_another_request_is_served_meanwhile(self, occupied, gone, caplog):
        turns, leave = occupied
        turns._within_s, caller, served = DEADLINE_S, FakeCaller(gone), []

        @contextlib.contextmanager
        def resting():
            leave.set()
            yield

        caller.resting = resting
        with contextlib.suppress(CallerGone), turns.of('group', caller):
            served.append(caller)
        assert served == ([] if gone else [caller])
        turns._within_s = 0.2
        with turns.of('group'):
            assert leave.is_set()
        assert caplog.messages == []

    def test_unused_group_locks_are_forgotten(self):
        turns = GroupLocks()
        with turns.of('group'), turns.of('other'):
            assert len(turns._turns) == 2
        assert len(turns._turns) == 0
