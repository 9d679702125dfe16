# SPDX-License-Identifier: Apache-2.0
"""What a row of compute_nodes says of a host."""

from __future__ import annotations

import datetime
import ipaddress
import json

import pytest

from novasched.cluster.host_columns import (
    Ratios,
    host_values,
    shared,
    supported_instances,
)
from tests.configuration import make_conf
from tests.fake_databases import node
from tests.fakes import NOON


def values(**fields):
    return host_values(node(**fields), Ratios())


@pytest.mark.parametrize(
    ('free', 'least', 'free_disk_mb', 'warns'),
    [
        pytest.param(80, 70, 71680, False, id='less is really free'),
        pytest.param(80, None, 81920, False, id='nobody knows what is really free'),
        pytest.param(80, 90, 81920, True, id='more is free than expected'),
        pytest.param(80, 80, 81920, False, id='as much is free as expected'),
        pytest.param(80, -5, -5120, False, id='less than nothing is free'),
        pytest.param(0, None, 0, False, id='nothing is free'),
    ],
)
def test_free_disk(caplog, free, least, free_disk_mb, warns):
    found = values(free_disk_gb=free, disk_available_least=least)
    assert found['free_disk_mb'] == free_disk_mb
    line = 'Host n1 has more disk space than database expected (90 GB > 80 GB)'
    assert (line in caplog.text) == warns


def test_a_node_that_never_reported_is_all_zero_and_has_no_uuid():
    found = values(free_disk_gb=None)
    assert (found['host'], found['nodename'], found['uuid']) == ('h1', 'n1', None)
    numbers = [found[name] for name in ('vcpus_total', 'free_ram_mb', 'num_io_ops')]
    assert numbers == [0, 0, 0]
    assert found['metrics'] is None
    assert found['cpu_allocation_ratio'] != found['cpu_allocation_ratio']  # NaN


def test_it_has_the_same_values_as_one_that_did():
    assert values(free_disk_gb=None).keys() == values().keys()


@pytest.mark.parametrize(
    ('column', 'attribute', 'value', 'expected'),
    [
        pytest.param('memory_mb', 'total_usable_ram_mb', 7, 7, id='memory'),
        pytest.param('free_ram_mb', 'free_ram_mb', -7, -7, id='oversubscribed memory'),
        pytest.param('free_ram_mb', 'free_ram_mb', None, 0, id='unknown free memory'),
        pytest.param('local_gb', 'total_usable_disk_gb', 7, 7, id='disk'),
        pytest.param('local_gb_used', 'disk_mb_used', 7, 7168, id='used disk in MiB'),
        pytest.param('vcpus', 'vcpus_total', 7, 7, id='CPUs'),
        pytest.param('vcpus_used', 'vcpus_used', 7, 7, id='used CPUs'),
        pytest.param('cpu_info', 'cpu_info', '{"a": 1}', '{"a": 1}', id='CPU text'),
        pytest.param('numa_topology', 'numa_topology', '', None, id='no NUMA'),
        pytest.param('numa_topology', 'numa_topology', '{}', '{}', id='NUMA text'),
        pytest.param('pci_stats', 'pci_stats', None, None, id='no PCI'),
        pytest.param('metrics', 'metrics', '[]', '[]', id='metrics text'),
        pytest.param(
            'host_ip', 'host_ip', '::1', ipaddress.ip_address('::1'), id='an address'
        ),
        pytest.param('host_ip', 'host_ip', None, None, id='no address'),
        pytest.param('host_ip', 'host_ip', 'nowhere', None, id='a wrong address'),
        pytest.param(
            'updated_at',
            'updated',
            NOON,
            NOON.replace(tzinfo=datetime.UTC),
            id='the time of the update has its zone',
        ),
        pytest.param('updated_at', 'updated', None, None, id='never updated'),
    ],
)
def test_values(column, attribute, value, expected):
    assert values(**{column: value})[attribute] == expected


@pytest.mark.parametrize(
    ('stats', 'expected'),
    [
        pytest.param({'num_instances': '3'}, 3, id='text'),
        pytest.param({'num_instances': 3}, 3, id='a number'),
        pytest.param({}, 0, id='missing'),
        pytest.param({'num_instances': None}, 0, id='null'),
        pytest.param({'num_instances': 'x'}, 0, id='no number'),
        pytest.param({'num_instances': '9' * 30}, 0, id='too large for a column'),
        pytest.param({'num_instances': '9' * 5000}, 0, id='far too large'),
    ],
)
def test_counters(stats, expected):
    assert values(stats=json.dumps(stats))['num_instances'] == expected


@pytest.mark.parametrize(
    ('name', 'attribute'),
    [
        pytest.param('io_workload', 'num_io_ops', id='operations'),
        pytest.param('failed_builds', 'failed_builds', id='failed builds'),
    ],
)
def test_other_counters(name, attribute):
    assert values(stats=json.dumps({name: '4'}))[attribute] == 4


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        pytest.param('{"a": "b", "c": null}', {'a': 'b', 'c': None}, id='an object'),
        pytest.param('{"a": 5, "b": 1.5}', {'a': '5', 'b': '1.5'}, id='numbers'),
        pytest.param(None, {}, id='null'),
        pytest.param('', {}, id='empty'),
        pytest.param('null', {}, id='JSON null'),
        pytest.param('{"a', {}, id='broken'),
        pytest.param('[1]', {}, id='a list'),
        pytest.param('[' * 60000, {}, id='nested too deep'),
        pytest.param('{"a": ' + '1' * 60000 + '}', {}, id='a number too long'),
    ],
)
def test_stats(text, expected):
    assert values(stats=text)['stats'] == expected


def test_stats_that_hosts_report_alike_are_parsed_once():
    text = json.dumps({'num_instances': '4', 'of this test': 'alone'})
    first, second = values(stats=text), values(host='other', stats=text)
    assert first['stats'] is second['stats']


def test_texts_that_are_alike_are_one_object():
    one, two = ''.join(['nu', 'ma']), ''.join(['n', 'uma'])
    assert one is not two
    assert shared(one) is shared(two)


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        pytest.param(
            '[["amd64", "XAPI", "pv"]]', [['x86_64', 'xen', 'xen']], id='other names'
        ),
        pytest.param(None, [], id='null'),
        pytest.param('', [], id='empty text'),
        pytest.param('[]', [], id='empty'),
        pytest.param('{"a', [], id='broken'),
        pytest.param('{"a": 1}', [], id='an object'),
        pytest.param('5', [], id='a number'),
        pytest.param('[' * 60000, [], id='nested too deep'),
        pytest.param('["abc", 5, null, [1, 2, 3], ["a"]]', [], id='no triples'),
        pytest.param(
            '[["x86_64", "kvm", "hvm"], ["x86_64", "new", "hvm"]]',
            [['x86_64', 'kvm', 'hvm']],
            id='an unknown entry among known ones',
        ),
    ],
)
def test_supported_instances(text, expected):
    assert supported_instances(text) == expected


@pytest.mark.parametrize(
    ('reported', 'expected'),
    [
        pytest.param(None, 4.0, id='null'),
        pytest.param(0.0, 4.0, id='zero'),
        pytest.param(2.0, 2.0, id='a number'),
    ],
)
def test_a_ratio_that_is_not_reported_comes_from_the_options(reported, expected):
    assert values(cpu_allocation_ratio=reported)['cpu_allocation_ratio'] == expected


@pytest.mark.parametrize(
    ('options', 'expected'),
    [
        pytest.param({}, Ratios(4.0, 1.0, 1.0), id='the defaults'),
        pytest.param({'cpu_allocation_ratio': 8.0}, Ratios(8.0, 1.0, 1.0), id='set'),
        pytest.param({'cpu_allocation_ratio': 0.0}, Ratios(4.0, 1.0, 1.0), id='zero'),
        pytest.param(
            {'initial_ram_allocation_ratio': 1.5}, Ratios(4.0, 1.5, 1.0), id='initial'
        ),
    ],
)
def test_ratios_from_the_options(options, expected):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value)
    assert Ratios.from_conf(conf) == expected
