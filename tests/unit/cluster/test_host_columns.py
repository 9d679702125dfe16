# SPDX-License-Identifier: Apache-2.0
"""Hosts as columns: what changes, and what stays as it was."""

import pytest

from novasched.cluster.host_columns import HostColumns, Ratios, host_values
from tests.support.clouds import factories
from tests.support.databases.fake_databases import node
from tests.support.tables.cases import cases


def host(id_=1, **fields):
    return host_values(node(id_, **fields), Ratios())


@pytest.fixture
def three():
    """Hosts 1 and 2 of cell a, and host 1 of cell b."""
    made = HostColumns()
    made.apply(
        {
            ('a', 1): host(1),
            ('a', 2): host(2),
            ('b', 1): host(3, hypervisor_type='ironic'),
        }
    )
    return made


def names(columns):
    return columns.columns()['host'].tolist()


def test_no_hosts_are_empty_columns():
    columns = HostColumns()
    assert len(columns) == 0
    assert names(columns) == []
    assert columns.columns()['cell_uuid'].tolist() == []


def test_hosts_stand_in_the_order_in_which_they_came(three):
    assert names(three) == ['h1', 'h2', 'h3']
    assert three.columns()['cell_uuid'].tolist() == ['a', 'a', 'b']
    assert three.columns()['hypervisor_type'].tolist() == ['QEMU', 'QEMU', 'ironic']


def test_few_distinct_values_are_kept_once(three):
    assert three.columns()['hypervisor_type'].values == ['QEMU', 'ironic']


def test_a_changed_host_leaves_earlier_columns_alone(three):
    before = three.columns()
    three.apply({('a', 2): host(2, vcpus=99, hypervisor_type='new')})
    assert before['vcpus_total'].tolist() == [8, 8, 8]
    assert before['hypervisor_type'].tolist() == ['QEMU', 'QEMU', 'ironic']
    after = three.columns()
    assert after['vcpus_total'].tolist() == [8, 99, 8]
    assert after['hypervisor_type'].tolist() == ['QEMU', 'new', 'ironic']


def test_columns_that_no_host_changes_stay_the_same_objects(three):
    before = three.columns()
    three.apply({('a', 2): host(2, vcpus=99)})
    after = three.columns()
    assert after['vcpus_total'] is not before['vcpus_total']
    assert after['host'] is before['host']
    assert after['uuid'] is before['uuid']
    three.apply({}, [('b', 1)])
    assert before['host'].tolist() == ['h1', 'h2', 'h3']


def test_hosts_come_go_and_change_at_once(three):
    before = three.columns()
    three.apply({('c', 1): host(4), ('b', 1): host(3, vcpus=5)}, [('a', 1)])
    assert names(three) == ['h2', 'h3', 'h4']
    assert three.columns()['vcpus_total'].tolist() == [8, 5, 8]
    assert before['host'].tolist() == ['h1', 'h2', 'h3']
    places = [three.by_uuid[node(id_).uuid] for id_ in (2, 3, 4)]
    assert places == [0, 1, 2]


def test_a_host_that_is_not_there_may_go(three):
    three.apply({}, [('z', 9)])
    assert names(three) == ['h1', 'h2', 'h3']


def test_all_hosts_may_go(three):
    three.apply({}, [('a', 1), ('a', 2), ('b', 1)])
    assert names(three) == []
    assert three.by_uuid == {}


@cases(
    'changed, gone, grows',
    ('a number changes', {('a', 1): host(1, vcpus=5)}, [], False),
    ('a host comes', {('a', 9): host(9)}, [], True),
    ('a host goes', {}, [('a', 1)], True),
    ('one for another', {('a', 9): host(9)}, [('a', 1)], True),
    ('a new service', {('a', 1): host(1, host='new')}, [], True),
)
def test_members_grow_when_hosts_come_go_or_belong_elsewhere(
    three, changed, gone, grows
):
    before = three.members
    three.apply(changed, gone)
    assert (three.members > before) == grows


def test_nodes_may_exchange_their_uuids(three):
    one, two = host(1)['uuid'], host(2)['uuid']
    three.apply({('a', 1): host(1, uuid=two), ('a', 2): host(2, uuid=one)})
    assert (three.by_uuid[two], three.by_uuid[one]) == (0, 1)
    assert three.duplicate_uuids == {}


def test_a_node_may_get_and_lose_its_uuid(three):
    uuid = host(1)['uuid']
    three.apply({('a', 1): host(1, free_disk_gb=None)})
    assert uuid not in three.by_uuid
    three.apply({('a', 1): host(1)})
    assert three.by_uuid[uuid] == 0


def test_nodes_with_the_same_uuid_are_known(three):
    uuid = host(1)['uuid']
    three.apply({('b', 1): host(3, uuid=uuid)})
    assert three.duplicate_uuids == {uuid: [0, 2]}
    three.apply({}, [('a', 1)])
    assert three.duplicate_uuids == {}
    assert three.by_uuid[uuid] == 1


def test_values_that_no_host_has_any_more_are_forgotten(three):
    texts = [f'{{"version": {number}}}' for number in range(500)]
    for text in texts:
        three.apply({('a', 1): host(1, cpu_info=text)})
    column = three.columns()['cpu_info']
    assert len(column.values) < 100
    assert column.tolist() == [texts[-1], '{}', '{}']


def test_forgetting_values_leaves_earlier_columns_alone(three):
    three.apply({('a', 1): host(1, cpu_info='first')})
    before = three.columns()['cpu_info']
    for number in range(500):
        three.apply({('a', 1): host(1, cpu_info=str(number))})
    assert before.tolist() == ['first', '{}', '{}']


def test_supported_instances_are_parsed_once_per_text(three):
    text = '[["x86_64", "kvm", "hvm"]]'
    three.apply({(c, 1): host(1, supported_instances=text) for c in 'ab'})
    column = three.columns()['supported_instances']
    assert column.tolist()[0] == [['x86_64', 'kvm', 'hvm']]
    assert column.tolist()[0] is column.tolist()[2]


def test_nodes_and_devices_are_kept_once_per_text(three):
    text, free = factories.numa_topology(factories.numa_cell()), factories.pools(3)
    for cell in 'ab':
        three.apply({(cell, 1): host(1, numa_topology=text, pci_stats=free)})
    topology, none, same = three.columns()['numa_topology'].tolist()
    assert topology is same
    assert [cell.id for cell in topology.cells] == [0]
    assert none is None
    pools, nothing, alike = three.columns()['pci_stats'].tolist()
    assert pools is alike
    assert [pool['count'] for pool in pools.pools] == [3]
    assert nothing.pools == []


def test_a_value_that_does_not_fit_changes_nothing(three):
    with pytest.raises(OverflowError):
        three.apply({('a', 9): host(9), ('a', 1): host(1, vcpus=2**70)}, [('a', 2)])
    assert names(three) == ['h1', 'h2', 'h3']
    assert three.columns()['vcpus_total'].tolist() == [8, 8, 8]
    assert three.members == 1


def test_unreadable_column_is_logged_once_when_first_read(caplog):
    columns = HostColumns()
    rows = [host(n, numa_topology='[7]', pci_stats='{}}') for n in (1, 2)]
    columns.apply({('a', n): row for n, row in enumerate(rows)})
    made = columns.columns()
    for _ in range(2):
        assert not any(made['numa_topology'].tolist())
        assert [pools.free for pools in made['pci_stats'].tolist()] == [(), ()]
    found = [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]
    assert [line.partition(': ')[0] for line in found] == [
        'Ignoring numa_topology that cannot be read',
        'Ignoring pci_stats that cannot be read',
    ]
    assert found[0].endswith(": '[7]'")
