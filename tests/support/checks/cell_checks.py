# SPDX-License-Identifier: Apache-2.0
"""What must hold of the store of a cell on every back-end, as a table of checks."""

import datetime

import sqlalchemy as sa

from novasched.db import hosts, tables
from novasched.db.stores import SqlCellStore
from novasched.ports import ComputeNodeRow
from tests.support.databases.databases import NOON, SECOND, instance, node, service


def a_compute_node_comes_with_every_column(databases):
    full = node(
        service_id=3,
        free_ram_mb=-5,
        free_disk_gb=90,
        disk_available_least=None,
        running_vms=2,
        host_ip='192.0.2.1',
        cpu_allocation_ratio=4.5,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=None,
        stats='{"ä": "1"}',
        metrics='[]',
        pci_stats=None,
        numa_topology='x' * 60000,
        supported_instances='[]',
        cpu_info='y' * 100000,
        updated_at=NOON,
    )
    (id_,) = databases.add(tables.compute_nodes, full)
    (row,) = SqlCellStore(databases.cell).compute_nodes()
    full |= {'id': id_, 'deleted_at': None}
    assert isinstance(row, ComputeNodeRow)
    columns = {name: full[name] for name in ComputeNodeRow._fields if name in full}
    assert row._asdict() == columns | {'mark': row.mark, 'checksum': row.checksum}


def live_compute_nodes_come_by_id(databases):
    databases.add(
        tables.compute_nodes,
        node(hypervisor_hostname='b'),
        node(hypervisor_hostname='gone', deleted=7),
        node(hypervisor_hostname='a'),
    )
    rows = SqlCellStore(databases.cell).compute_nodes()
    assert [row.hypervisor_hostname for row in rows] == ['b', 'a']


def a_node_without_a_host_has_the_host_of_its_service(databases):
    (id_,) = databases.add(tables.services, service(host='old'))
    databases.add(
        tables.compute_nodes,
        node(hypervisor_hostname='a', host=None, service_id=id_),
        node(hypervisor_hostname='b', host=None, service_id=None),
        node(hypervisor_hostname='c', host='own', service_id=id_),
    )
    rows = SqlCellStore(databases.cell).compute_nodes()
    assert [row.host for row in rows] == ['old', None, 'own']


def node_news(store, since=NOON):
    return store.news(since, since, 0, NOON, NOON).nodes


def changed_compute_nodes_are_those_stamped_since(databases):
    before = NOON - SECOND
    databases.add(
        tables.compute_nodes,
        node(hypervisor_hostname='old', updated_at=before),
        node(hypervisor_hostname='updated', updated_at=NOON),
        node(hypervisor_hostname='created', created_at=NOON),
        node(hypervisor_hostname='deleted', deleted=9, deleted_at=NOON + SECOND),
        node(hypervisor_hostname='long gone', deleted=8, deleted_at=before),
    )
    store = SqlCellStore(databases.cell)
    # Stamps may have lost their fraction: a change at 12:00:00.9 says 12:00:00.
    news = node_news(store, NOON + datetime.timedelta(microseconds=900000))
    rows = store.compute_nodes_of(sorted(news.checksums))
    assert [row.hypervisor_hostname for row in rows] == [
        'updated',
        'created',
        'deleted',
    ]
    assert [row.deleted for row in rows] == [0, 0, 9]
    assert node_news(store, NOON + 2 * SECOND).checksums == {}
    assert store.compute_nodes_of([]) == []


def live_compute_nodes_are_summed_up_by_their_marks(databases):
    before = NOON - SECOND
    *_, gone, _ = databases.add(
        tables.compute_nodes,
        node(hypervisor_hostname='a', updated_at=NOON, created_at=before),
        node(hypervisor_hostname='b', updated_at=NOON, created_at=None),
        node(hypervisor_hostname='never', updated_at=None, created_at=None),
        node(hypervisor_hostname='gone', deleted=9, deleted_at=NOON),
        node(hypervisor_hostname='odd', deleted=None),
    )
    store = SqlCellStore(databases.cell)
    rows = store.compute_nodes()
    marks = {row.id: row.mark for row in rows}
    written = {row.id: row.checksum for row in rows[:2]}
    news = node_news(store)
    assert (news.live, news.total) == (3, sum(marks.values()))
    assert news.checksums == {**written, gone: 0}
    assert store.compute_node_checksums(NOON) == written
    assert store.compute_node_marks() == marks
    assert len(set(marks.values())) == 3
    assert node_news(store, NOON + 9 * SECOND).total == news.total


def checksums_of_now_come_with_services(databases):
    databases.add(
        tables.services,
        service(host='a', binary='nova-conductor'),
        service(host='a', deleted=5),
        service(host='b', disabled=None),
    )
    ids = databases.add(
        tables.compute_nodes,
        node(host='a', hypervisor_hostname='a', updated_at=NOON),
        node(host='b', hypervisor_hostname='b', updated_at=NOON),
        node(host='c', hypervisor_hostname='c', deleted=3),
    )
    store = SqlCellStore(databases.cell)
    (of_b,) = store.compute_services()
    written = store.compute_node_checksums(NOON)
    of_a, on_b, _ = ids
    now = {of_a: (written[of_a], None), on_b: (written[on_b], of_b)}
    assert store.compute_checksums_now([*ids, 99]) == now
    assert of_b.disabled is False


def every_write_changes_the_mark(databases):
    (id_,) = databases.add(tables.compute_nodes, node(updated_at=NOON))
    store = SqlCellStore(databases.cell)
    table = tables.compute_nodes
    seen = [node_news(store).total]
    for values in (
        {'updated_at': NOON + SECOND},
        {'vcpus_used': 2},
        {'memory_mb_used': 513},
        {'local_gb_used': 11},
        {'running_vms': 1},
        {'current_workload': 1},
    ):
        with databases.cell.begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == id_).values(values))
        seen.append(node_news(store).total)
    assert len(set(seen)) == len(seen)


def every_write_changes_the_checksum(databases):
    (id_,) = databases.add(tables.compute_nodes, node(updated_at=NOON))
    store, table = SqlCellStore(databases.cell), tables.compute_nodes
    seen = [store.compute_nodes()[0].checksum]
    for values in (
        {'pci_stats': 'one'},
        {'pci_stats': 'o\u00f1e'},
        {'numa_topology': '{}'},
        {'pci_stats': None},
        {'metrics': 'o\u00f1e'},  # not what moves from one column to another
        {'cpu_allocation_ratio': 16.5},
        {'disk_available_least': -1},
        {'host_ip': '192.0.2.9'},
        {'updated_at': NOON + SECOND},
    ):
        with databases.cell.begin() as connection:
            connection.execute(sa.update(table).where(table.c.id == id_).values(values))
        (row,) = store.compute_nodes()
        assert node_news(store).checksums == {id_: row.checksum}
        seen.append(row.checksum)
    assert len(set(seen)) == len(seen)


def a_thousand_new_nodes_are_listed(databases):
    rows = [node(hypervisor_hostname=f'n{n}', created_at=NOON) for n in range(1000)]
    with databases.cell.begin() as connection:
        connection.execute(sa.insert(tables.compute_nodes), rows)
    news = node_news(SqlCellStore(databases.cell))
    assert (news.live, len(news.checksums)) == (1000, 1000)


def compute_services_include_disabled_ones(databases):
    databases.add(
        tables.services,
        service(host='h2', disabled=True, disabled_reason='why', last_seen_up=NOON),
        service(host='h1', disabled=None, forced_down=None, version=None),
        service(host='gone', deleted=3),
        service(host='ctl', binary='nova-scheduler', topic='scheduler'),
        service(host=None),
    )
    second, first = SqlCellStore(databases.cell).compute_services()
    assert (second.host, second.disabled, second.disabled_reason) == ('h2', True, 'why')
    assert second.last_seen_up == NOON
    assert second.forced_down is False
    assert (first.host, first.disabled, first.forced_down) == ('h1', False, False)
    assert first.version == 0
    assert first.created_at == NOON


def compute_services_are_found_by_host(databases):
    databases.add(
        tables.services,
        service(host='h1'),
        service(host='h2', disabled=True),
        service(host='h3', deleted=3),
        service(host='h4', binary='nova-scheduler', topic='scheduler'),
        service(host='h5'),
    )
    store = SqlCellStore(databases.cell)
    names = [f'h{number}' for number in range(2500) if number != 5]
    assert {row.host for row in store.compute_services_of(names)} == {'h1', 'h2'}
    assert store.compute_services_of([]) == []


def services_that_are_not_as_usual_are_told(databases):
    hour_ago = NOON - 3600 * SECOND
    usual = {'created_at': hour_ago, 'last_seen_up': NOON}
    late = NOON - 61 * SECOND
    ids = databases.add(
        tables.services,
        service(host='usual', **usual),
        service(host='disabled', **usual | {'disabled': True}),
        service(host='forced-down', **usual | {'forced_down': True}),
        service(host='silent', **usual | {'last_seen_up': late}),
        service(host='ahead', **usual | {'last_seen_up': NOON + 61 * SECOND}),
        service(host='never', **usual | {'last_seen_up': None}),
        service(host='nobody-knows', created_at=None),
        service(host='new', **usual | {'created_at': NOON}),
        service(host='gone', **usual | {'deleted': 9, 'deleted_at': NOON}),
        service(host='gone-late', **usual | {'deleted': 10, 'deleted_at': late}),
        service(host='long-gone', **usual | {'deleted': 11, 'deleted_at': hour_ago}),
        service(host='unknown', **usual | {'deleted': None, 'deleted_at': NOON}),
        service(host='ctl', binary='nova-scheduler', created_at=NOON),
        service(host='fraction', **usual | {'created_at': NOON - SECOND / 2}),
        service(host='known', **usual | {'created_at': late}),
        service(host='behind', **usual | {'created_at': late}),
        service(host='too-old', **usual | {'created_at': late - SECOND}),
    )
    window = NOON - 60 * SECOND, NOON + 60 * SECOND
    # A fraction of a second is dropped: what is stamped in that second counts.
    wide = late + SECOND / 2
    store = SqlCellStore(databases.cell)
    news = store.news(NOON + SECOND / 2, wide, ids[-3], *window).services
    told = ['disabled', 'forced-down', 'silent', 'ahead', 'never', 'nobody-knows']
    assert [row.host for row in news.live] == [*told, 'new', 'behind']
    assert news.deleted == [ids[8], ids[9]]


def many_compute_nodes_come_in_pages(databases):
    ids = databases.add(
        tables.compute_nodes,
        *(node(hypervisor_hostname=f'n{n}', deleted=int(n == 3)) for n in range(8)),
    )
    with databases.cell.connect() as connection:
        for size in (1, 2, 7, 8):
            found = [row.id for row in hosts.read(connection, size)]
            assert found == [id_ for id_ in ids if id_ != ids[3]]


def nodes_share_texts_that_are_alike(databases):
    databases.add(
        tables.compute_nodes,
        node(hypervisor_hostname='n1', numa_topology='{"cells": 1}', stats=None),
        node(hypervisor_hostname='n2', numa_topology='{"cells": 1}'),
    )
    store = SqlCellStore(databases.cell)
    one, two = store.compute_nodes()
    new = node_news(store, NOON - 3600 * SECOND).checksums
    three, _ = store.compute_nodes_of(sorted(new))
    assert one.numa_topology is two.numa_topology is three.numa_topology
    assert one.stats is None


def a_reading_asks_by_one_connection(databases):
    databases.add(tables.compute_nodes, node())
    databases.add(tables.services, service())
    begun = []

    def note(*_):
        begun.append(1)

    sa.event.listen(databases.cell, 'begin', note)
    try:
        with SqlCellStore(databases.cell).together() as store:
            assert (len(store.compute_nodes()), len(store.compute_services())) == (1, 1)
    finally:
        sa.event.remove(databases.cell, 'begin', note)
    assert len(begun) == 1


def the_minimum_version_ignores_the_forced_down_and_the_unversioned(databases):
    store = SqlCellStore(databases.cell)
    assert store.minimum_compute_version() == 0
    databases.add(
        tables.services,
        service(host='a', version=73),
        service(host='b', version=74),
        service(host='c', version=60, forced_down=True),
        service(host='d', version=61, deleted=4),
        service(host='e', version=0),
        service(host='f', version=None),
        service(host='g', version=62, binary='nova-conductor', topic='conductor'),
    )
    assert store.minimum_compute_version() == 73


def instances_of_many_hosts_come_in_one_call(databases):
    databases.add(
        tables.instances,
        instance(uuid='i1', vm_state='soft-delete', instance_type_id=5),
        instance(uuid='i2', host='h2', hidden=True),
        instance(uuid='i3', deleted=3),
        instance(uuid='i4', host=None),
        instance(uuid='i5', host='elsewhere'),
    )
    store = SqlCellStore(databases.cell)
    names = [f'h{number}' for number in range(2500)]
    assert set(store.instances_on(names)) == {('i1', 'h1', 5), ('i2', 'h2', None)}
    assert store.instances_on([]) == []


def images_of_the_instances_of_many_hosts_come_in_one_call(databases):
    databases.add(
        tables.instances,
        instance(uuid='i1', vm_state='soft-delete'),
        instance(uuid='i2', host='h2'),
        instance(uuid='i3', deleted=3),
        instance(uuid='i4', host='elsewhere'),
        instance(uuid='i5'),
    )
    texts = [
        ('i1', 'image_os_distro', 'old', 7),
        ('i1', 'image_os_distro', 'new', 0),
        ('i1', 'image_hw_disk_bus', 'ide', 4),
        ('i1', 'imageXos_type', 'no', 0),
        ('i1', 'boot_roles', 'no', 0),
        ('i2', 'image_os_distro', 'x', 0),
        ('i2', 'image_os_type', None, 0),
        ('i2', 'Image_os_type', 'no', 0),
        ('i3', 'image_os_distro', 'no', 0),
        ('i4', 'image_os_distro', 'no', 0),
    ]
    databases.add(
        tables.instance_system_metadata,
        *(
            {'instance_uuid': uuid, 'key': key, 'value': value, 'deleted': deleted}
            for uuid, key, value, deleted in texts
        ),
    )
    store = SqlCellStore(databases.cell)
    names = [f'h{number}' for number in range(2500)]
    assert sorted(store.images_on(names)) == [
        ('i1', 'h1', {'os_distro': 'new', 'hw_disk_bus': 'ide'}),
        ('i2', 'h2', {'os_distro': 'x'}),
    ]
    assert store.images_on([]) == []


def host_of_an_instance_is_kept_while_it_is_shelved(databases):
    databases.add(
        tables.instances,
        instance(uuid='here', host='h1'),
        instance(uuid='shelved', host=None),
        instance(uuid='nowhere', host=None),
        instance(uuid='gone', host='h1', deleted=3),
    )
    texts = [
        ('here', 'shelved_host', 'h2', 0),
        ('shelved', 'shelved_host', 'h3', 0),
        ('shelved', 'shelved_at', 'h4', 0),
        ('nowhere', 'shelved_host', 'h5', 9),
    ]
    databases.add(
        tables.instance_system_metadata,
        *(
            {'instance_uuid': uuid, 'key': key, 'value': value, 'deleted': deleted}
            for uuid, key, value, deleted in texts
        ),
    )
    store = SqlCellStore(databases.cell)
    uuids = 'here', 'shelved', 'nowhere', 'gone', 'unknown'
    assert [store.source_hosts(uuid) for uuid in uuids] == [['h1'], ['h3'], [], [], []]


def a_read_sees_what_was_committed_before_it(databases):
    store = SqlCellStore(databases.cell)
    assert store.compute_nodes() == []
    databases.add(tables.compute_nodes, node())
    assert len(store.compute_nodes()) == 1


def heartbeats_from_the_future_are_found(databases):
    moment = NOON + 10 * SECOND
    rows = [
        service(host='in-time', last_seen_up=moment),
        service(host='ahead', last_seen_up=moment + SECOND),
        service(host='unseen', last_seen_up=None),
        service(host='deleted', last_seen_up=moment + SECOND, deleted=1),
        service(host='ctl', binary='nova-scheduler', last_seen_up=moment + SECOND),
    ]
    databases.add(tables.services, *rows)
    found = SqlCellStore(databases.cell).computes_seen_after(moment)
    assert [row.host for row in found] == ['ahead']


def the_time_of_the_server_is_utc(databases):
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    theirs = SqlCellStore(databases.cell).utcnow()
    assert theirs.tzinfo is None
    assert abs(theirs - now) < 60 * SECOND


CHECKS = [
    heartbeats_from_the_future_are_found,
    the_time_of_the_server_is_utc,
    a_compute_node_comes_with_every_column,
    live_compute_nodes_come_by_id,
    a_node_without_a_host_has_the_host_of_its_service,
    changed_compute_nodes_are_those_stamped_since,
    live_compute_nodes_are_summed_up_by_their_marks,
    checksums_of_now_come_with_services,
    every_write_changes_the_mark,
    every_write_changes_the_checksum,
    a_thousand_new_nodes_are_listed,
    compute_services_include_disabled_ones,
    compute_services_are_found_by_host,
    services_that_are_not_as_usual_are_told,
    many_compute_nodes_come_in_pages,
    nodes_share_texts_that_are_alike,
    a_reading_asks_by_one_connection,
    the_minimum_version_ignores_the_forced_down_and_the_unversioned,
    instances_of_many_hosts_come_in_one_call,
    images_of_the_instances_of_many_hosts_come_in_one_call,
    host_of_an_instance_is_kept_while_it_is_shelved,
    a_read_sees_what_was_committed_before_it,
]
