# SPDX-License-Identifier: Apache-2.0
"""Hosts whose compute service is disabled or down."""

import datetime

from novasched.scheduler.filters.compute import AllHostsFilter, ComputeFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

FILTER = ComputeFilter()


@cases(
    'disabled, up, expected',
    ('enabled and up', False, True, True),
    ('disabled', True, True, False),
    ('down', False, False, False),
    ('disabled and down', True, False, False),
)
def test_service(disabled, up, expected):
    hosts = factories.hosts(service_disabled=[disabled], service_up=[up])
    assert_verdict(FILTER, hosts, factories.request(), expected)


NOON = datetime.datetime(2026, 11, 22, 12, 0, 7, 868168, datetime.UTC)
TIME = '2026-11-22 12:00:07'
DISABLED = {'disabled_reason': 'maint'}
NEVER = {'last_seen_up': None, 'created_at': 'dawn'}
SILENT = 'has not been heard from since'


@cases(
    'service, code, text',
    ('disabled', DISABLED, Code.SERVICE_DISABLED, 'is disabled, reason: maint'),
    ('no reason', {}, Code.SERVICE_DISABLED, 'is disabled, reason: none given'),
    ('forced down', {'forced_down': True}, Code.SERVICE_FORCED_DOWN, 'is forced down'),
    ('a text', {'last_seen_up': 'noon'}, Code.SERVICE_DOWN, f'{SILENT} noon'),
    ('a time', {'last_seen_up': NOON}, Code.SERVICE_DOWN, f'{SILENT} {TIME} UTC'),
    ('never', NEVER, Code.SERVICE_DOWN, f'{SILENT} dawn'),
)
def test_why(service, code, text):
    hosts = factories.hosts(
        service_disabled=[code is Code.SERVICE_DISABLED],
        service_up=[False],
        service=[service],
    )
    assert FILTER.why(hosts.state(0), factories.request()) == (code, text)


def test_hosts_are_grouped_by_the_state_of_their_service():
    hosts = factories.hosts(
        service_disabled=[True, False, False, True],
        service=[{'forced_down': True}, {'forced_down': True}, {}, {}],
    )
    first, second, third, fourth = FILTER.reason_groups(hosts, factories.request())
    assert first == fourth
    assert len({first, second, third}) == 3


def test_all_hosts_filter_passes_every_host():
    hosts = factories.hosts(2, service_up=[False, False])
    assert AllHostsFilter().apply(hosts, factories.request()) is hosts
