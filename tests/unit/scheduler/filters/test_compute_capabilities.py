# SPDX-License-Identifier: Apache-2.0
"""Capabilities that the extra specs ask for."""

import pytest

from novasched.scheduler.filters.compute_capabilities import ComputeCapabilitiesFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases
from tests.support.tables.verdicts import assert_verdict

FILTER = ComputeCapabilitiesFilter()
CPU_INFO = (
    '{"model": "core2duo", "features": ["lahf_lm", "rdtscp", "vmx"],'
    ' "topology": {"cores": 1}, "maxphysaddr": {"bits": 42}}'
)
STATS = {'num_instances': '3', 'bool': 'True', 'nested': '{"a":{"b":"c"}}', 'no': None}


def host(cpu_info=CPU_INFO, **columns):
    return factories.hosts(
        vcpus_total=[8],
        hypervisor_type=['QEMU'],
        cpu_info=[cpu_info],
        stats=[STATS],
        **columns,
    )


def passes(hosts, extra_specs):
    return len(FILTER.apply(hosts, factories.request(extra_specs=extra_specs))) == 1


@pytest.mark.parametrize(
    ('name', 'requirement', 'expected'),
    [
        ('foo', 'bar', True),
        ('hw:cpu_policy', 'dedicated', True),
        ('capabilities', 'x', True),
        ('vcpus_total', '>= 4', True),
        ('vcpus_total', '>= 9', False),
        ('num_instances', '3', False),
        ('num_instances', '0', True),
        ('bool', 'True', True),
        ('bool', 'False', False),
        ('no', 'x', False),
        ('cpu_info', 'x', False),
        ('capabilities:vcpus_total', '8', True),
        ('capabilities:vcpus_total', '8.0', False),
        ('capabilities:hypervisor_type', 'qemu', False),
        ('capabilities:hypervisor_type', 's== QEMU', True),
        ('capabilities:cpu_info:model', 'core2duo', True),
        ('capabilities:cpu_info:topology:cores', '>= 2', False),
        ('capabilities:cpu_info:features', '<all-in> vmx rdtscp', True),
        ('capabilities:cpu_info:features', '<in> tsc', True),
        ('capabilities:cpu_info:features:0', '<in> tsc', False),
        ('capabilities:cpu_info:nokey', 'x', False),
        ('capabilities:cpu_info:nokey:deeper', 'x', False),
        ('capabilities:nokey', 'x', False),
        ('capabilities:', 'x', False),
        ('capabilities:vcpus_total:foo', 'x', False),
        ('capabilities:nested:a:b', 'c', True),
        ('capabilities:stats:nested:a:b', 'c', True),
        ('capabilities:bool', 'true', False),
        ('capabilities:no', 'x', False),
        ('hw:maxphysaddr_bits', '42', True),
        ('hw:maxphysaddr_bits', '43', False),
        ('capabilities:num_io_ops', '0', True),
        ('capabilities:host', 'h1', True),
        ('capabilities:cpu_allocation_ratio', '4.0', True),
        ('capabilities:hypervisor_version', '8002002', True),
        ('capabilities:rows', 'x', False),
    ],
)
def test_capabilities(name, requirement, expected):
    assert passes(host(), {name: requirement}) is expected


@cases(
    'cpu_info', ('no JSON', 'notjson'), ('nothing', None), ('too deep', '[' * 100_000)
)
def test_cpu_info_that_says_nothing(cpu_info):
    assert not passes(host(cpu_info), {'capabilities:cpu_info:model': 'core2duo'})


def test_a_number_that_is_unknown_is_looked_up_in_the_stats():
    hosts = factories.hosts(
        hypervisor_version=[float('nan'), float('nan'), 7],
        stats=[{'hypervisor_version': '7'}, {}, {}],
    )
    request = factories.request(extra_specs={'hypervisor_version': '7'})
    assert FILTER.apply(hosts, request).host.tolist() == ['h1', 'h3']


def test_a_number_compared_with_text_raises_as_in_nova():
    with pytest.raises(ValueError):
        passes(host(), {'capabilities:hypervisor_type': '>= 3'})


def test_hosts_that_are_out_already_are_not_asked():
    extra_specs = {'capabilities:vcpus_total': '9', 'hypervisor_type': '>= 3'}
    assert not passes(host(), extra_specs)


@cases(
    'path, expected',
    ('its keys are out of reach', 'service:host', False),
    ('but through what wraps them', 'service:data:host', True),
)
def test_the_row_of_the_service(path, expected):
    hosts = factories.hosts(service=[{'host': 'h1'}])
    request = factories.request(extra_specs={f'capabilities:{path}': 'h1'})
    assert_verdict(FILTER, hosts, request, expected)


def test_equal_stats_are_asked_once_and_answered_for_each():
    hosts = factories.hosts(stats=[{'gpu': '1'}, {'gpu': '2'}, {'gpu': '1'}, {}])
    request = factories.request(extra_specs={'capabilities:gpu': '1'})
    assert FILTER.apply(hosts, request).host.tolist() == ['h1', 'h3']


@pytest.mark.parametrize(('extra_specs', 'code', 'text'), [
    ({'capabilities:vcpus_total': '8', 'capabilities:cpu_info:model': 'p4'},
     Code.CAPABILITY_DIFFERS, 'cpu_info:model is core2duo, not p4'),
    ({'capabilities:bool': 'true'}, Code.CAPABILITY_DIFFERS, 'bool is True, not true'),
    ({'capabilities:nokey': '1'}, Code.CAPABILITY_MISSING, 'nokey is None, not 1'),
    ({'capabilities:vcpus_total': '8'}, Code.REJECTED, 'rejected'),
    ({}, Code.REJECTED, 'rejected'),
])  # fmt: skip
def test_why(extra_specs, code, text):
    request = factories.request(extra_specs=extra_specs)
    assert FILTER.why(host().state(0), request) == (code, text)


@cases(
    'extra_specs, groups',
    ('one', {'capabilities:cpu_info:model': 'x'}, [0, 1, 0, 0]),
    (
        'two',
        {'capabilities:cpu_info:model': 'x', 'capabilities:hypervisor_type': 'y'},
        [0, 1, 0, 2],
    ),
    ('stats', {'capabilities:gpu': '1'}, None),
    ('what is decoded', {'capabilities:metrics': '1'}, None),
    ('numbers', {'capabilities:vcpus_total': '1'}, None),
    ('not reported', {'capabilities:numa_topology': '1'}, None),
    ('nothing', {}, None),
)
def test_hosts_are_grouped_by_the_values_that_are_asked_for(extra_specs, groups):
    hosts = factories.hosts(
        cpu_info=['{"model": "a"}', '{"model": "b"}'] + ['{"model": "a"}'] * 2,
        hypervisor_type=['QEMU', 'QEMU', 'QEMU', 'ironic'],
    )
    found = FILTER.reason_groups(hosts, factories.request(extra_specs=extra_specs))
    if groups is None:
        assert found is None
        return
    names = list(dict.fromkeys(found.tolist()))
    assert [names.index(each) for each in found.tolist()] == groups
