# SPDX-License-Identifier: Apache-2.0
"""The members of groups, where the API database hangs."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.cluster.group_members import AGAIN_AFTER_S, GroupMembers
from tests.support.records.stored_records import SetClock


class Api:
    """An API database that takes its time, and answers or fails."""

    def __init__(self):
        self.clock = SetClock()
        self.takes_s, self.fails, self.asked = 0.0, False, 0

    def group_members(self, group_uuid):
        self.asked += 1
        self.clock.go_on(self.takes_s)
        if self.fails:
            raise errors.StoreFailed('The API database', 'timed out')
        return [group_uuid]


@pytest.fixture
def api():
    return Api()


@pytest.fixture
def members(api):
    return GroupMembers(api, api.clock)


def ask(members, times=1):
    for _ in range(times):
        with pytest.raises(errors.StoreFailed):
            members.of('g')


def test_of_those_that_ask_while_it_hangs_one_waits(api, members):
    api.takes_s, api.fails = 10.0, True
    ask(members, times=5)
    assert api.asked == 1
    api.clock.go_on(AGAIN_AFTER_S)
    ask(members, times=5)
    assert api.asked == 2


def test_once_it_answers_all_are_answered(api, members):
    api.takes_s, api.fails = 10.0, True
    ask(members)
    api.takes_s, api.fails = 0.0, False
    ask(members)
    api.clock.go_on(AGAIN_AFTER_S)
    assert members.of('g') == members.of('g') == ['g']
    assert api.asked == 3


def test_one_that_refuses_at_once_is_asked_each_time(api, members):
    api.fails = True
    ask(members, times=3)
    assert api.asked == 3
