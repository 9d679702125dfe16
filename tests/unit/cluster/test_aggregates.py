# SPDX-License-Identifier: Apache-2.0
"""The aggregates, as messages and full reads change them."""

from __future__ import annotations

import pytest

from novasched.cluster.aggregates import AggregateView
from tests.unit.cluster.fakes import aggregate


@pytest.fixture
def view():
    made = AggregateView()
    made.replace([aggregate(2, 'h1'), aggregate(1, 'h1', 'h2')])
    return made


def ids(aggregates):
    return [found.id for found in aggregates]


def test_a_host_has_its_aggregates_by_id(view):
    assert ids(view.all()) == [1, 2]
    assert ids(view.of_host('h1')) == [1, 2]
    assert ids(view.of_host('h2')) == [1]
    assert ids(view.of_host('H1')) == []


def test_an_update_adds_hosts_and_takes_out_those_no_longer_listed(view):
    view.update([aggregate(1, 'h2', 'h3')])
    assert [ids(view.of_host(host)) for host in ('h1', 'h2', 'h3')] == [[2], [1], [1]]


def test_an_update_may_bring_a_new_aggregate(view):
    view.update([aggregate(3, 'h1')])
    assert ids(view.of_host('h1')) == [1, 2, 3]


def test_a_deleted_aggregate_leaves_its_hosts(view):
    view.delete(1)
    assert ids(view.all()) == [2]
    assert ids(view.of_host('h2')) == []


@pytest.mark.parametrize(
    ('change', 'grows'),
    [
        pytest.param(lambda v: v.delete(9), False, id='an unknown one is deleted'),
        pytest.param(lambda v: v.delete(1), True, id='a known one is deleted'),
        pytest.param(lambda v: v.update([aggregate(2, 'h1')]), False, id='no news'),
        pytest.param(
            lambda v: v.update([aggregate(2, 'h1', ssd='true')]), True, id='metadata'
        ),
        pytest.param(lambda v: v.replace([]), True, id='all are gone'),
    ],
)
def test_the_version_grows_with_every_change(view, change, grows):
    before = view.version
    change(view)
    assert (view.version > before) == grows


def test_a_read_that_may_be_older_than_a_message_is_not_taken(view):
    version = view.version
    view.update([aggregate(3, 'h1')])
    assert not view.replace([], version)
    assert ids(view.all()) == [1, 2, 3]
    assert view.replace([], view.version)
    assert view.all() == []
