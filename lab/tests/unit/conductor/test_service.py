# SPDX-License-Identifier: Apache-2.0
"""A conductor is made of its configuration, and keeps its services row."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from lab.tests.unit.waiting import soon
from novasched.db import tables
from novasched_lab import opts
from novasched_lab.conductor import groups, service
from novasched_lab.conductor.quota import Quota
from novasched_lab.db import server_tables
from novasched_lab.failures import QuotaExceeded


@pytest.fixture
def configured(databases, tmp_path):
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    made.set_override('host', 'here')
    made.set_override('transport_url', 'fake://')
    made.set_override('connection', f'sqlite:///{tmp_path}/api', 'api_database')
    made.set_override('connection', f'sqlite:///{tmp_path}/cell', 'database')
    return made


def test_it_serves_until_it_is_stopped(configured, databases):
    made = service.from_conf(configured)
    made.start()
    (row,) = databases.rows(tables.services)
    assert (row['binary'], row['topic'], row['host']) == (
        'nova-conductor',
        'conductor',
        'here',
    )
    made.reload()
    soon(lambda: made.server._started)
    made.stop()
    assert databases.rows(server_tables.build_requests) == []


def test_what_is_enabled_is_known_by_its_last_name(configured):
    found = groups.enabled_from_conf(configured)
    assert {'ServerGroupAffinityFilter', 'all_weighers'} <= found


@pytest.mark.parametrize(
    ('options', 'refused'),
    [
        pytest.param({}, False, id='no limit'),
        pytest.param({'instances_per_project': 1}, True, id='too many'),
        pytest.param({'instances_per_project': 2}, False, id='just enough'),
    ],
)
def test_quota(configured, options, refused):
    for name, value in options.items():
        configured.set_override(name, value, 'novasched')
    quota = Quota.from_conf(configured, Two())
    assert raises(quota) == refused
    configured.set_override('recheck_quota', False, 'quota')
    assert not raises(Quota.from_conf(configured, Two()))


class Two:
    def mappings(self, project_id=None):
        return [1, 2]


def raises(quota):
    quota.check(None)
    try:
        quota.check('p')
    except QuotaExceeded:
        return True
    return False
