# SPDX-License-Identifier: Apache-2.0
"""The three grains at which a filter can be written."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters import BaseHostFilter, CandidateFilter, ColumnFilter
from novasched.scheduler.filters.num_instances import NumInstancesFilter
from novasched.scheduler.reasons import REJECTED
from tests import factories


class OddHosts(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return int(host_state.host[1:]) % 2


class FirstTwo(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return True

    def filter_all(self, hosts, spec_obj):
        return list(hosts)[:2]


class StopsFiltering(FirstTwo):
    def filter_all(self, hosts, spec_obj):
        return None


class WritesLimits(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        host_state.limits = {'vcpu': len(host_state.host)}
        return True


class Busy(ColumnFilter):
    def mask(self, hosts, request):
        return hosts.num_instances > 1


class NotHost1(NumInstancesFilter):
    def host_passes(self, host_state, spec_obj):
        return super().host_passes(host_state, spec_obj) and host_state.host != 'h1'


class FirstThatPasses(NumInstancesFilter):
    def filter_all(self, hosts, spec_obj):
        return list(super().filter_all(hosts, spec_obj))[:1]


class EvenCandidates(CandidateFilter):
    def candidate_passes(self, candidate, host, request):
        return candidate % 2 == 0


@pytest.mark.parametrize(
    ('filter_', 'expected'),
    [
        pytest.param(OddHosts(), ['h1', 'h3'], id='host by host'),
        pytest.param(FirstTwo(), ['h1', 'h2'], id='a rule about the whole set'),
        pytest.param(StopsFiltering(), [], id='None is no host'),
        pytest.param(Busy(), ['h3', 'h4'], id='columns'),
        pytest.param(NotHost1(3), ['h2', 'h3'], id='a subclass with host_passes'),
        pytest.param(FirstThatPasses(3), ['h1'], id='a subclass with filter_all'),
    ],
)
def test_apply(filter_, expected):
    hosts = factories.hosts(num_instances=[0, 1, 2, 3])
    assert filter_.apply(hosts, factories.request()).host.tolist() == expected


def test_a_column_filter_takes_a_single_host():
    free, busy = factories.hosts(num_instances=[0, 2]).states()
    assert not Busy().host_passes(free, factories.request())
    assert Busy().host_passes(busy, factories.request())


def test_what_a_plugin_sets_is_seen_by_the_next():
    hosts = WritesLimits().apply(factories.hosts(host=['a', 'bb']), factories.request())
    assert hosts.limits.tolist() == [{'vcpu': 1}, {'vcpu': 2}]


def test_candidates_are_narrowed_in_a_new_table():
    hosts = factories.hosts(allocation_candidates=[[1, 2, 4], [1], [], [2]])
    left = EvenCandidates().apply(hosts, factories.request())
    assert left.host.tolist() == ['h1', 'h4']
    assert left.allocation_candidates.tolist() == [[2, 4], [2]]
    assert hosts.allocation_candidates.tolist() == [[1, 2, 4], [1], [], [2]]


def test_candidates_that_all_pass_stay_the_same_list():
    hosts = factories.hosts(allocation_candidates=[[2, 4]])
    left = EvenCandidates().apply(hosts, factories.request())
    assert left.allocation_candidates[0] is hosts.allocation_candidates[0]


@pytest.mark.parametrize(
    ('once', 'index', 'runs'),
    [
        pytest.param(False, 0, True, id='first instance'),
        pytest.param(False, 1, True, id='second instance'),
        pytest.param(True, 0, True, id='once, first instance'),
        pytest.param(True, 1, False, id='once, second instance'),
    ],
)
def test_once_per_request(once, index, runs):
    filter_ = OddHosts()
    filter_.run_filter_once_per_request = once
    assert filter_.run_filter_for_index(index) is runs


def test_a_plugin_needs_no_options_and_no_reasons():
    filter_ = OddHosts.from_conf(None)
    host = factories.hosts(1).state(0)
    assert filter_.why(host, factories.request()) == REJECTED
    assert not filter_.RUN_ON_REBUILD
