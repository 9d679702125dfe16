# SPDX-License-Identifier: Apache-2.0
"""The three grains at which a filter can be written."""

import pytest

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters import BaseHostFilter, CandidateFilter, ColumnFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.pipeline import run_filters
from novasched.scheduler.reasons import REJECTED
from tests.support.clouds import factories
from tests.support.tables.cases import cases


class OddHosts(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return int(host_state.host[1:]) % 2


class FirstTwo(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return True

    def filter_all(self, hosts, spec_obj):
        return list(hosts)[:2]


class Backwards(FirstTwo):
    def filter_all(self, hosts, spec_obj):
        yield from reversed(hosts)


class Twice(FirstTwo):
    def filter_all(self, hosts, spec_obj):
        return [host for host in hosts[:2] for _ in range(2)]


class OddRows(BaseHostFilter):
    def _filter_one(self, obj, spec_obj):
        return obj._row % 2


class NotHost2(NumInstancesFilter):
    def _filter_one(self, obj, spec_obj):
        return super()._filter_one(obj, spec_obj) and obj.host != 'h2'


class Gives(FirstTwo):
    def __init__(self, given):
        self.given = given

    def filter_all(self, hosts, spec_obj):
        return self.given


class Nothing(BaseHostFilter):
    """Defines no hook."""


class OnRebuild(FirstTwo):
    RUN_ON_REBUILD = True


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


@cases(
    'filter_, expected',
    ('host by host', OddHosts(), ['h1', 'h3']),
    ('a rule about the whole set', FirstTwo(), ['h1', 'h2']),
    ('another order', Backwards(), ['h4', 'h3', 'h2', 'h1']),
    ('the same host twice', Twice(), ['h1', 'h1', 'h2', 'h2']),
    ('_filter_one', OddRows(), ['h2', 'h4']),
    ('a subclass with _filter_one', NotHost2(3), ['h1', 'h3']),
    ('columns', Busy(), ['h3', 'h4']),
    ('a subclass with host_passes', NotHost1(3), ['h2', 'h3']),
    ('a subclass with filter_all', FirstThatPasses(3), ['h1']),
)
def test_apply(filter_, expected):
    hosts = factories.hosts(num_instances=[0, 1, 2, 3])
    passed = adapted(filter_).apply(hosts, factories.request())
    assert passed.host.tolist() == expected


def test_none_means_stop_filtering():
    filter_ = adapted(StopsFiltering())
    assert filter_.apply(factories.hosts(2), factories.request()) is None


@cases(
    'given',
    ('names', ['h1']),
    ('None', [None]),
    ('hosts of another request', factories.hosts(2).states()),
)
def test_value_that_is_no_host_of_the_request_is_refused(given):
    with pytest.raises(TypeError, match='which is no host of this request'):
        adapted(Gives(given)).apply(factories.hosts(2), factories.request())


def test_a_host_that_an_earlier_filter_rejected_is_taken():
    hosts = factories.hosts(3)
    filter_ = adapted(Gives([hosts.state(0)]))
    left = filter_.apply(hosts[[1, 2]], factories.request())
    assert left.host.tolist() == ['h1']


def test_a_filter_without_a_hook_says_so():
    with pytest.raises(TypeError, match='Nothing does not define host_passes'):
        Nothing().apply(factories.hosts(1), factories.request())


@cases(
    'filter_, expected',
    ('host_passes', OddHosts(), False),
    ('a built-in', NotHost1(3), False),
    ('RUN_ON_REBUILD', OnRebuild(), True),
    ('filter_all tells by itself', FirstTwo(), True),
    ('_filter_one tells by itself', OddRows(), True),
)
def test_rebuild(filter_, expected):
    assert adapted(filter_).runs_on_rebuild() is expected


@cases(
    'filter_, expected',
    ('passes all in a rebuild', OddHosts(), 4),
    ('_filter_one of a subclass', NotHost2(1), 3),
    ('filter_all of a subclass', FirstThatPasses(0), 1),
)
def test_nova_s_hooks_pass_every_host_of_a_rebuild(filter_, expected):
    request = factories.request(scheduler_hints={'_nova_check_type': ['rebuild']})
    left, _ = run_filters([adapted(filter_)], factories.hosts(4), request)
    assert len(left) == expected


def test_a_column_filter_takes_a_single_host():
    free, busy = factories.hosts(num_instances=[0, 2]).states()
    assert not Busy().host_passes(free, factories.request())
    assert Busy().host_passes(busy, factories.request())


def test_attribute_set_by_a_filter_is_seen_by_the_next():
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


@cases(
    'once, index, runs',
    ('first instance', False, 0, True),
    ('second instance', False, 1, True),
    ('once, first instance', True, 0, True),
    ('once, second instance', True, 1, False),
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
