# SPDX-License-Identifier: Apache-2.0
"""The contract that every installed filter keeps."""

from hypothesis import given, note
from hypothesis import strategies as st

from novasched.compat.plugin_adapter import adapted
from novasched.scheduler.filters.image_props import ImagePropertiesFilter
from novasched.scheduler.filters.isolated_hosts import IsolatedHostsFilter
from novasched.scheduler.filters.metrics import MetricsFilter
from novasched.scheduler.pipeline import run_filters
from novasched.scheduler.reasons import Reason
from tests.properties import strategies
from tests.properties.installed import FILTERS, contents, name
from tests.properties.strategies import host_tables, requests
from tests.support.clouds import factories
from tests.support.tables.examples import examples

# Some that do nothing, or less, with the defaults, and all.
BUSY = [
    ImagePropertiesFilter('x86_64'),
    IsolatedHostsFilter(['image'], ['h1', 'h2'], restrict=False),
    IsolatedHostsFilter([], ['h1']),
    MetricsFilter(['cpu.percent']),
]
ALL = [*FILTERS, *BUSY]


def rows_that_pass(filter_, hosts, request):
    return [h._row for h in hosts.states() if filter_.host_passes(h, request)]


def grains_agree(filter_, hosts, request):
    passed = filter_.apply(hosts, request).rows.tolist()
    assert passed == rows_that_pass(filter_, hosts, request)


def result_is_a_subsequence(filter_, hosts, request):
    passed = set(filter_.apply(hosts, request).rows.tolist())
    in_order = [row for row in hosts.rows.tolist() if row in passed]
    assert filter_.apply(hosts, request).rows.tolist() == in_order


def subclass_that_overrides_host_passes_is_honoured(filter_, hosts, request):
    cls = type(filter_)

    class NotOnH1(cls):
        def host_passes(self, host_state, spec_obj):
            return super().host_passes(host_state, spec_obj) and (
                host_state.host != 'h1'
            )

    plugin = NotOnH1.__new__(NotOnH1)
    vars(plugin).update(vars(filter_))
    passed = filter_.apply(hosts, request)
    expected = [h._row for h in passed.states() if h.host != 'h1']
    assert adapted(plugin).apply(hosts, request).rows.tolist() == expected


@given(hosts=host_tables, request=requests, order=st.randoms())
@examples(40)
def test_every_filter_keeps_the_contract(hosts, request, order):
    rows = hosts.rows.tolist()
    order.shuffle(rows)
    before = contents(hosts), request.obj_to_primitive()
    for filter_ in ALL:
        note(name(filter_))
        grains_agree(filter_, hosts, request)
        subclass_that_overrides_host_passes_is_honoured(filter_, hosts, request)
        result_is_a_subsequence(filter_, hosts[rows], request)
        assert (contents(hosts), request.obj_to_primitive()) == before
        assert request.obj_what_changed() == set()


@given(hosts=host_tables, request=requests, order=st.permutations(ALL))
@examples(50)
def test_filters_commute(hosts, request, order):
    expected, _ = run_filters(ALL, hosts, request)
    found, _ = run_filters(order, hosts, request)
    assert found.rows.tolist() == expected.rows.tolist()


@given(hosts=host_tables, request=requests, order=st.permutations(ALL))
@examples(50)
def test_every_host_survives_or_has_a_reason(hosts, request, order):
    survivors, steps = run_filters(order, hosts, request)
    rejected = []
    for step in steps:
        for host, reason in step.reasons(request):
            assert isinstance(reason, Reason)
            assert reason.code in step.filter.codes
            assert str(reason).strip()
            rejected.append(host._row)
    assert sorted([*rejected, *survivors.rows.tolist()]) == hosts.rows.tolist()


@given(many=st.lists(strategies.host, min_size=2, max_size=5), request=requests)
@examples(30)
def test_hosts_in_one_group_have_one_reason(many, request):
    for filter_ in ALL:
        note(name(filter_))
        one_group_has_one_reason(filter_, many, request)


def one_group_has_one_reason(filter_, many, request):
    columns = filter_.explained_by or (
        'cpu_info',
        'hypervisor_type',
        'service_disabled',
        'numa_topology',
        'pci_stats',
        'cpu_allocation_ratio',
        'ram_allocation_ratio',
    )
    alike = {column: many[0][column] for column in columns}
    hosts = strategies.table([*many, *({**one, **alike} for one in many)])
    rejected = hosts.without(filter_.apply(hosts, request))
    groups = filter_.reason_groups(rejected, request)
    if groups is None:
        return
    codes = {}
    for group, host in zip(groups.tolist(), rejected.states(), strict=True):
        codes.setdefault(group, set()).add(filter_.why(host, request).code)
    assert all(len(found) == 1 for found in codes.values())


def test_some_filters_group_hosts_by_reason():
    hosts, request = factories.hosts(3), factories.request()
    grouping = {
        name(each) for each in ALL if each.reason_groups(hosts, request) is not None
    }
    assert grouping == {
        'AggregateImagePropertiesIsolation',
        'AggregateInstanceExtraSpecsFilter',
        'ComputeFilter',
        'ImagePropertiesFilter',
        'NUMATopologyFilter',
        'PciPassthroughFilter',
    }
