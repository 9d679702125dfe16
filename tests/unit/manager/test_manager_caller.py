# SPDX-License-Identifier: Apache-2.0
"""The manager answers who waits, and nobody else."""

import pytest

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.ports import CallerGone
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    FakeCaller,
    FakeJournal,
    FakeNotifier,
    FakePlacement,
)
from tests.support.clouds.managers import make_manager

INSTANCE = factories.INSTANCE


@pytest.fixture
def placement():
    return FakePlacement('c0000000-0000-4000-8000-00000000000a')


@pytest.fixture
def notifier():
    return FakeNotifier()


@pytest.fixture
def journal():
    return FakeJournal()


@pytest.fixture
def select(placement, notifier, journal):
    """Ask for a host for a caller."""
    manager = make_manager(placement=placement, notifier=notifier, journal=journal)

    def run(caller=None, uuids=(INSTANCE,), **values):
        context = RequestContext(overwrite=False)
        request = factories.request(**values)
        return manager.select_destinations(context, request, uuids, True, False, caller)

    return run


def test_waiting_caller_is_answered(select, placement, journal):
    caller = FakeCaller()
    assert len(select(caller)) == 1
    assert list(placement.held) == [INSTANCE]
    assert journal.told == [(INSTANCE, 'answering')]
    caller.answered()
    assert journal.told[1:] == [(INSTANCE, 'settled')]


def test_claim_of_a_gone_caller_is_rolled_back(select, placement, notifier, journal):
    with pytest.raises(CallerGone):
        select(FakeCaller(CallerGone('hung up')))
    assert placement.held == {}
    assert notifier.phases == ['start']
    assert journal.told == [(INSTANCE, 'settled')]


def test_request_without_claims_needs_no_caller(select):
    assert len(select(FakeCaller(CallerGone('hung up')), uuids=None)) == 1


def test_more_servers_than_one_request_may_be_for(select):
    with pytest.raises(errors.InvalidRequest, match='65536 servers at most'):
        select(uuids=None, num_instances=2**40)


def test_a_caller_need_not_be_known(select, placement, journal):
    assert len(select()) == 1
    assert journal.told == [(INSTANCE, 'answering'), (INSTANCE, 'settled')]
