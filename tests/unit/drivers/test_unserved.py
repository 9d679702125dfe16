# SPDX-License-Identifier: Apache-2.0
"""Whoever sets an option that is not served is told what it means."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched import opts
from novasched.drivers import unserved


@pytest.fixture
def conf():
    made = cfg.ConfigOpts()
    opts.register(made)
    made([], default_config_files=[], default_config_dirs=[])
    return made


def test_by_default_nothing_is_said(conf):
    assert list(unserved.warnings(conf)) == []


@pytest.mark.parametrize('interval', [0, 300])
def test_hosts_are_not_discovered(conf, interval):
    conf.set_override('discover_hosts_in_cells_interval', interval, 'scheduler')
    (said,) = unserved.warnings(conf)
    start = '[scheduler] discover_hosts_in_cells_interval is not served yet: '
    assert said.startswith(start)
    assert 'novasched-manage cell_v2 discover_hosts' in said


@pytest.mark.parametrize(
    ('filters', 'warned'),
    [
        pytest.param(['ComputeFilter'], 1, id='no filter either'),
        pytest.param(['AvailabilityZoneFilter'], 0, id='a filter does it'),
    ],
)
def test_zones_that_nobody_looks_at(conf, filters, warned):
    conf.set_override('query_placement_for_availability_zone', False, 'scheduler')
    conf.set_override('enabled_filters', filters, 'filter_scheduler')
    assert len(list(unserved.warnings(conf))) == warned
