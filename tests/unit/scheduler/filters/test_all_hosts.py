# SPDX-License-Identifier: Apache-2.0
"""Every host passes."""

from novasched.scheduler.filters.compute import AllHostsFilter
from tests.support.clouds import factories


def test_every_host_passes():
    hosts = factories.hosts(service_disabled=[False, True], free_ram_mb=[0, 1])
    assert len(AllHostsFilter().apply(hosts, factories.request())) == 2


def test_it_runs_once_per_request():
    assert AllHostsFilter().run_filter_for_index(0)
    assert not AllHostsFilter().run_filter_for_index(1)
