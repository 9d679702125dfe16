# SPDX-License-Identifier: Apache-2.0
"""Claims that nova made before a shadow decided are not there for its decision."""

import pytest

from novasched import errors
from novasched.objects import context as contexts
from novasched.placement_copy.readers.api import ApiReader
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.shadow.early import EarlyClaims
from tests.functional.conftest import Host, new_uuids

WHOLE = {'vcpus': 2, 'memory_mb': 64, 'root_gb': 1}
AMOUNTS = {'VCPU': 2, 'MEMORY_MB': 64, 'DISK_GB': 1}


@pytest.fixture(params=['database', 'api'])
def made(request, cloud):
    """A cloud with one host, and how its copy of placement is read."""
    made = cloud([Host('h1', vcpus=2)])
    made.store = ApiReader(made.adapter) if request.param == 'api' else None
    return made


def early_claims(made, scheduler):
    copy = scheduler.copy
    current = lambda: copy.current(60.0)  # noqa: E731
    return EarlyClaims(made.adapter, copy.own_claims, current, SYSTEM_CLOCK.monotonic)


def test_claim_is_taken_out_and_put_back(made):
    (nova,) = new_uuids()
    made.hold(nova, h1=AMOUNTS)
    scheduler = made.copied(made.store)
    early = early_claims(made, scheduler)
    assert early.take_out(contexts.admin(), [nova]) == [nova]
    table = scheduler.copy.current(60.0).table
    assert [table.used(0, name) for name in AMOUNTS] == [0, 0, 0]
    early.put_back([nova])
    table = scheduler.copy.current(60.0).table
    assert [table.used(0, name) for name in AMOUNTS] == list(AMOUNTS.values())
    with pytest.raises(errors.NoValidHost):
        made.ask(scheduler, new_uuids(), **WHOLE)


def test_claims_on_one_provider_are_taken_out_together(made):
    consumers = new_uuids(2)
    for consumer in consumers:
        made.hold(consumer, h1={'VCPU': 1})
    scheduler = made.copied(made.store)
    early = early_claims(made, scheduler)
    assert early.take_out(contexts.admin(), consumers) == consumers
    assert scheduler.copy.current(60.0).table.used(0, 'VCPU') == 0


def test_claim_that_the_copy_does_not_show_stays(made):
    scheduler = made.copied(made.store)
    (nova,) = new_uuids()
    made.hold(nova, h1=AMOUNTS)
    early = early_claims(made, scheduler)
    assert early.take_out(contexts.admin(), [nova]) == []
    assert scheduler.copy.current(60.0).table.used(0, 'VCPU') == 0


def test_server_that_holds_nothing_is_passed_over(made):
    early = early_claims(made, made.copied(made.store))
    assert early.take_out(contexts.admin(), new_uuids()) == []
