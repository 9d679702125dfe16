# SPDX-License-Identifier: Apache-2.0
"""What a row of compute_nodes says of a host."""

import datetime
import ipaddress
import json

from novasched.cluster.host_columns import (
    Ratios,
    host_values,
    shared,
    supported_instances,
)
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import NOON
from tests.support.databases.fake_databases import node
from tests.support.tables.cases import cases


def values(**fields):
    return host_values(node(**fields), Ratios())


@cases(
    'free, least, free_disk_mb, warns',
    ('less is really free', 80, 70, 71680, False),
    ('nobody knows what is really free', 80, None, 81920, False),
    ('more is free than expected', 80, 90, 81920, True),
    ('as much is free as expected', 80, 80, 81920, False),
    ('less than nothing is free', 80, -5, -5120, False),
    ('nothing is free', 0, None, 0, False),
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


@cases(
    'column, attribute, value, expected',
    ('memory', 'memory_mb', 'total_usable_ram_mb', 7, 7),
    ('oversubscribed memory', 'free_ram_mb', 'free_ram_mb', -7, -7),
    ('unknown free memory', 'free_ram_mb', 'free_ram_mb', None, 0),
    ('disk', 'local_gb', 'total_usable_disk_gb', 7, 7),
    ('used disk in MiB', 'local_gb_used', 'disk_mb_used', 7, 7168),
    ('CPUs', 'vcpus', 'vcpus_total', 7, 7),
    ('used CPUs', 'vcpus_used', 'vcpus_used', 7, 7),
    ('CPU text', 'cpu_info', 'cpu_info', '{"a": 1}', '{"a": 1}'),
    ('no NUMA', 'numa_topology', 'numa_topology', '', None),
    ('NUMA text', 'numa_topology', 'numa_topology', '{}', '{}'),
    ('no PCI', 'pci_stats', 'pci_stats', None, None),
    ('metrics text', 'metrics', 'metrics', '[]', '[]'),
    ('an address', 'host_ip', 'host_ip', '::1', ipaddress.ip_address('::1')),
    ('no address', 'host_ip', 'host_ip', None, None),
    ('a wrong address', 'host_ip', 'host_ip', 'nowhere', None),
    (
        'the time of the update has its zone',
        'updated_at',
        'updated',
        NOON,
        NOON.replace(tzinfo=datetime.UTC),
    ),
    ('never updated', 'updated_at', 'updated', None, None),
)
def test_values(column, attribute, value, expected):
    assert values(**{column: value})[attribute] == expected


@cases(
    'stats, expected',
    ('text', {'num_instances': '3'}, 3),
    ('a number', {'num_instances': 3}, 3),
    ('missing', {}, 0),
    ('null', {'num_instances': None}, 0),
    ('no number', {'num_instances': 'x'}, 0),
    ('too large for a column', {'num_instances': '9' * 30}, 0),
    ('far too large', {'num_instances': '9' * 5000}, 0),
)
def test_counters(stats, expected):
    assert values(stats=json.dumps(stats))['num_instances'] == expected


@cases(
    'name, attribute',
    ('operations', 'io_workload', 'num_io_ops'),
    ('failed builds', 'failed_builds', 'failed_builds'),
)
def test_other_counters(name, attribute):
    assert values(stats=json.dumps({name: '4'}))[attribute] == 4


@cases(
    'text, expected',
    ('an object', '{"a": "b", "c": null}', {'a': 'b', 'c': None}),
    ('numbers', '{"a": 5, "b": 1.5}', {'a': '5', 'b': '1.5'}),
    ('null', None, {}),
    ('empty', '', {}),
    ('JSON null', 'null', {}),
    ('broken', '{"a', {}),
    ('a list', '[1]', {}),
    ('nested too deep', '[' * 60000, {}),
    ('a number too long', '{"a": ' + '1' * 60000 + '}', {}),
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


@cases(
    'text, expected',
    ('other names', '[["amd64", "XAPI", "pv"]]', [['x86_64', 'xen', 'xen']]),
    ('null', None, []),
    ('empty text', '', []),
    ('empty', '[]', []),
    ('broken', '{"a', []),
    ('an object', '{"a": 1}', []),
    ('a number', '5', []),
    ('nested too deep', '[' * 60000, []),
    ('no triples', '["abc", 5, null, [1, 2, 3], ["a"]]', []),
    (
        'an unknown entry among known ones',
        '[["x86_64", "kvm", "hvm"], ["x86_64", "new", "hvm"]]',
        [['x86_64', 'kvm', 'hvm']],
    ),
)
def test_supported_instances(text, expected):
    assert supported_instances(text) == expected


@cases(
    'reported, expected',
    ('null', None, 4.0),
    ('zero', 0.0, 4.0),
    ('a number', 2.0, 2.0),
)
def test_a_ratio_that_is_not_reported_comes_from_the_options(reported, expected):
    assert values(cpu_allocation_ratio=reported)['cpu_allocation_ratio'] == expected


@cases(
    'options, expected',
    ('the defaults', {}, Ratios(4.0, 1.0, 1.0)),
    ('set', {'cpu_allocation_ratio': 8.0}, Ratios(8.0, 1.0, 1.0)),
    ('zero', {'cpu_allocation_ratio': 0.0}, Ratios(4.0, 1.0, 1.0)),
    ('initial', {'initial_ram_allocation_ratio': 1.5}, Ratios(4.0, 1.5, 1.0)),
)
def test_ratios_from_the_options(options, expected):
    conf = make_conf()
    for name, value in options.items():
        conf.set_override(name, value)
    assert Ratios.from_conf(conf) == expected
