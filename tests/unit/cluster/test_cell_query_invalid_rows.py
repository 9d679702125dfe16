# SPDX-License-Identifier: Apache-2.0
"""A row that holds what no nova writes costs no other host anything, and is named."""

import datetime

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from novasched.cluster.cell_query import QueryTime, blank, readable_nodes
from novasched.cluster.host_columns import Ratios
from novasched.cluster.nodes import ComputeNodes
from novasched.cluster.services import Window
from novasched.ports import ComputeNodeRow, ServiceRow
from tests.support.clouds.fakes import NOON, SECOND, FakeClock
from tests.support.databases.fake_databases import FakeCellStore, node, service
from tests.support.tables.examples import examples
from tests.unit.cluster.conftest import Cloud

ZERO_DATE = '0000-00-00 00:00:00'
"""What PyMySQL gives for a date of zeros."""

ODD = [
    None, '', 'garbage', '{', '[]', 'null', '"x"', 'NaN', '[' * 5000, '9' * 5000,
    '{"a": [' + '[' * 900 + ']' * 900 + ']}', ZERO_DATE, '\x00\n\r', b'\xff\xfe', b'h1',
    -1, 0, 2**31, 2**63 - 1, -(2**70), 1.5, float('inf'), float('nan'), True,
    NOON, datetime.date(2026, 1, 1),
]  # fmt: skip


def put(cloud, id_, now, **fields):
    cloud.a.put(cloud.a.nodes[id_]._replace(**{'updated_at': now, **fields}))


def named(caplog):
    return [m for m in caplog.messages if m.startswith('Ignoring row')]


COLUMNS = sorted(set(ComputeNodeRow._fields) - {'id', 'mark', 'deleted'})


@pytest.mark.parametrize('when', ['start', 'delta', 'full read', 'alternate'])
@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(ODD), min_size=1)
)
def test_an_odd_node_costs_no_other_host_anything(when, fields):
    cloud = Cloud()
    try:
        if when == 'start':
            put(cloud, 1, NOON, **fields)
        cloud.view.load()
        cloud.clock.advance(30)
        put(cloud, 1, cloud.clock.utcnow(), **fields)
        if when == 'full read':
            cloud.view.reconcile()
        put(cloud, 2, cloud.clock.utcnow(), vcpus_used=7)
        cloud.view.refresh()
        hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (3, 1, 2)})
        used = dict(zip(hosts.host.tolist(), hosts.vcpus_used.tolist(), strict=True))
        assert (used['h2'], used['h3']) == (7, 1)
        assert all(type(name) is str for name in hosts.nodename.tolist())
        for host in hosts.states():
            assert host.service_up
            assert host.cpu_allocation_ratio == host.cpu_allocation_ratio
        cloud.view.nodes_named('h2', None)
        cloud.view.check_instances()
        assert cloud.view.cells.unavailable() == []
    finally:
        cloud.view.close()


@pytest.mark.parametrize('when', ['start', 'delta', 'list'])
@examples(100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(
        st.sampled_from(sorted(set(ServiceRow._fields) - {'id', 'binary'})),
        st.sampled_from(ODD),
        min_size=1,
    )
)
def test_an_odd_service_costs_no_other_host_anything(when, fields):
    cloud = Cloud()
    try:
        odd = service('h1', disabled=True)._replace(**fields)
        if when == 'start':
            cloud.a.services['h1'] = odd
        cloud.view.load()
        cloud.a.services['h1'] = odd
        if when == 'list':
            cloud.view.read_services()
        cloud.view.refresh()
        hosts = cloud.view.hosts({node(id_).uuid: [] for id_ in (2, 3)})
        assert hosts.host.tolist() == ['h2', 'h3']
        assert hosts.service_up.all()
        assert cloud.view.cells.unavailable() == []
    finally:
        cloud.view.close()


@pytest.mark.parametrize(
    ('column', 'value', 'says'),
    [
        ('host', None, 'None'),
        ('host', b'h1', "b'h1'"),
        ('hypervisor_hostname', None, 'None'),
        ('hypervisor_hostname', '', "''"),
        ('created_at', ZERO_DATE, repr(ZERO_DATE)),
        ('updated_at', ZERO_DATE, repr(ZERO_DATE)),
        ('deleted_at', ZERO_DATE, repr(ZERO_DATE)),
        ('memory_mb', None, 'None'),
        ('vcpus', 2**70, '1180591620717411303424'),
        ('free_ram_mb', 2**31, '2147483648'),
        ('hypervisor_version', 'six', "'six'"),
        ('pci_stats', [], '[]'),
        ('cpu_allocation_ratio', float('nan'), 'nan'),
        ('ram_allocation_ratio', float('inf'), 'inf'),
    ],
)
def test_an_odd_node_is_left_out_and_named_once(cloud, caplog, column, value, says):
    good = cloud.a.nodes[1]
    for second in range(3):
        put(cloud, 1, NOON + second * SECOND, **{column: value})
        assert cloud.shown() == ['h2', 'h3']
    cloud.view.reconcile()
    (line,) = named(caplog)
    assert line.startswith('Ignoring row 1 of compute_nodes in cell a, of host ')
    assert line.endswith(f': its {column} is {says}')
    cloud.a.put(good._replace(updated_at=NOON + 9 * SECOND))
    assert cloud.shown() == ['h1', 'h2', 'h3']


def test_an_odd_node_is_found_by_no_name(cloud):
    put(cloud, 1, NOON, hypervisor_hostname=None)
    cloud.view.refresh()
    assert cloud.view.nodes_named('h1', None) == []


def test_a_node_that_never_reported_may_lack_its_amounts():
    row = node(free_disk_gb=None, vcpus=None, memory_mb=None, local_gb_used=None)
    odd = []
    assert readable_nodes([row], odd, {}) == [row]
    assert odd == []


def test_a_row_that_is_known_is_not_looked_at_again():
    known = {id_: node(id_) for id_ in (1, 2)}
    same, other = node(1), node(2, vcpus=2**70)
    odd = []
    found = readable_nodes([same, other], odd, known)
    assert same is not known[1]
    assert found[0] is known[1]
    assert found[1] == blank(other)
    assert [each.id for each in odd] == [2]


def test_an_answer_holds_the_rows_that_are_known():
    store, nodes, clock = FakeCellStore(), ComputeNodes(Ratios(), 10), FakeClock()
    store.add_host(1)
    for _ in range(2):
        moment = QueryTime(Window.around(clock.utcnow(), 60), clock.monotonic())
        reading = nodes.begin('a', moment, complete=True)
        store.nodes[1] = store.nodes[1]._replace(updated_at=NOON)
        answer = reading.ask(store)
        nodes.take(reading, answer)
    assert answer.nodes[0] is reading.rows[1]
    assert answer.nodes[0] is not store.nodes[1]


@pytest.mark.parametrize('field', ['last_seen_up', 'created_at'])
def test_a_service_without_a_time_was_never_heard_of(cloud, caplog, field):
    row = cloud.a.services['h1']
    cloud.a.services['h1'] = row._replace(**{field: ZERO_DATE}, disabled=True)
    for _ in range(2):
        cloud.view.refresh()
        hosts = {found.host: found for found in cloud.view.hosts(None).states()}
        assert (hosts['h1'].service_up, hosts['h2'].service_up) == (False, True)
    (line,) = named(caplog)
    assert line == (
        f'Ignoring row {row.id} of services in cell a, of host h1: its {field} is '
        f'{ZERO_DATE!r}'
    )


def test_a_service_whose_update_has_no_time_serves(cloud, caplog):
    row = cloud.a.services['h1']
    cloud.a.services['h1'] = row._replace(updated_at=ZERO_DATE)
    cloud.view.read_services()
    cloud.view.refresh()
    assert cloud.view.hosts(None).service_up.all()
    assert len(named(caplog)) == 1


def test_invalid_row_is_named_again_when_its_cell_comes_back(cloud, caplog):
    put(cloud, 1, NOON, host=None)
    found = cloud.api.found_cells
    for _ in range(2):
        assert cloud.shown() == ['h2', 'h3']
        cloud.api.found_cells = []
        cloud.view.check()
        cloud.api.found_cells = found
        cloud.view.check()
    assert len(named(caplog)) == 2
