# SPDX-License-Identifier: Apache-2.0
"""Filters that write on the hosts, at every grain."""

from novasched.scheduler.filters.legacy.overcommit import ExactRamFilter
from tests.support.clouds import factories

FILTER = ExactRamFilter()
REQUEST = factories.request(memory_mb=512)


def test_writing_filter_has_a_mask_over_columns():
    hosts = factories.hosts(free_ram_mb=[512, 0])
    assert FILTER.mask(hosts, REQUEST).tolist() == [True, False]


def test_a_host_that_passes_has_what_is_written_and_the_table_is_as_it_was():
    hosts = factories.hosts(free_ram_mb=[512, 0])
    first, second = hosts.states()
    assert FILTER.host_passes(first, REQUEST)
    assert not FILTER.host_passes(second, REQUEST)
    assert (first.limits, second.limits) == ({'memory_mb': 16384.0}, {})
    assert hosts.limits.tolist() == [{}, {}]


def test_all_hosts_may_pass():
    hosts = factories.hosts(free_ram_mb=[512, 512])
    assert FILTER.apply(hosts, REQUEST).limits.tolist() == [{'memory_mb': 16384.0}] * 2
