# SPDX-License-Identifier: Apache-2.0
"""Filters that raise, hang or change hosts: they are named, and others are served."""

import logging
import threading
from concurrent import futures

import pytest

from novasched.scheduler.filters import BaseHostFilter
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds import factories

HOSTS = [Host('h1'), Host('h2')]
LONG_S = 60
BUDGET_S = 2.5
held = threading.Event()
released = threading.Event()


class Misbehaving(BaseHostFilter):
    """Does what a hint says."""

    def host_passes(self, host_state, spec_obj):
        return getattr(self, spec_obj.get_scheduler_hint('do', 'nothing'))(host_state)

    def nothing(self, host):
        marked = 'mark' in host.stats or hasattr(host, 'mark') or host.num_instances
        return not marked

    def fail(self, host):
        raise ZeroDivisionError(f'at {host.host}')

    def hang(self, host):
        held.set()
        assert released.wait(LONG_S)
        return True

    def change(self, host):
        host.stats['mark'] = host.mark = 'x'
        host.num_instances = 99
        host.aggregates.append(factories.aggregate(7))
        host.limits['vcpu'] = 1
        return True


@pytest.fixture
def made(cloud):
    held.clear()
    released.clear()
    yield cloud(
        HOSTS,
        filter_scheduler={
            'available_filters': [f'{__name__}.Misbehaving'],
            'enabled_filters': ['Misbehaving'],
        },
        novasched={'plugin_time_budget': BUDGET_S},
    )
    released.set()


def doing(what):
    """The fields of a request on which the filter does something."""
    return {'scheduler_hints': {'do': [what]}}


def warnings(caplog):
    """What the scheduler has warned of."""
    return [
        r.getMessage()
        for r in caplog.records
        if r.levelno == logging.WARNING and r.name.startswith('novasched')
    ]


def test_a_filter_that_hangs_holds_up_its_own_request_only(made, caplog):
    caplog.set_level(logging.WARNING, 'novasched')
    scheduler = made.compose()
    with futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(made.ask, scheduler, new_uuids(), **doing('hang'))
        assert held.wait(LONG_S)
        for _ in range(3):
            assert len(made.ask(scheduler, new_uuids())) == 1
        assert not slow.done()
        assert warnings(caplog) == []
        released.wait(1.2 * BUDGET_S)
        released.set()
        assert len(slow.result(LONG_S)) == 1
    (line,) = warnings(caplog)
    assert line.startswith('Filter Misbehaving took ')
    assert 'with 2 host(s) in run 1; the time budget is 2.5 s' in line


def test_changes_of_a_filter_on_hosts_end_with_its_request(made):
    scheduler = made.compose()
    assert len(made.ask(scheduler, new_uuids(), **doing('change'))) == 1
    assert len(made.ask(scheduler, new_uuids())) == 1
