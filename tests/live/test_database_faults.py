# SPDX-License-Identifier: Apache-2.0
"""Databases that refuse, lose connections or tell of clocks that differ."""

import datetime
import threading
import uuid

import pytest

from novasched.db import engines
from tests.live.hosts import HOSTS
from tests.live.mixed_cloud import BACK_S, LATE_S, NODE, host, timed
from tests.live.peer import PeerError
from tests.live.servers.tcp_gate import TcpGate
from tests.live.test_cells import asked, cells, shared, start

__all__ = ['asked', 'cells', 'shared', 'start']

pytestmark = pytest.mark.ours

FAILOVER_S = 3
STAMPS_APART = datetime.timedelta(seconds=5)


@pytest.fixture
def api_gate(mariadb):
    """A gate in front of the server of the API database."""
    made = TcpGate(mariadb.port)
    yield made
    made.stop()


@pytest.fixture
def cell_gate(second_mariadb, cells):
    """A gate in front of the server of the second cell, which is mapped to it."""
    made = TcpGate(second_mariadb.port)
    (row,) = cells.rows('api', 'cell_mappings', name='cell2')
    before = row['database_connection']
    by_gate = {'database_connection': made.url(before)}
    cells.update('api', 'cell_mappings', by_gate, name='cell2')
    yield made
    cells.update('api', 'cell_mappings', {'database_connection': before}, name='cell2')
    made.stop()


@pytest.mark.scenario('F19', 'I6', 'I7')
def test_a_cell_whose_server_is_stopped_costs_little_and_is_named(
    asked, second_mariadb, cells, claims, eventually
):
    assert host(asked, claims, zone='az3') == 'node-5'
    usual_s = max(timed(lambda: host(asked, claims))[1] for _ in range(3))
    second_mariadb.stop()
    try:
        took = [timed(lambda: host(asked, claims)) for _ in range(6)]
        assert [found for found, _ in took] == ['node-1'] * 6
        assert max(took_s for _, took_s in took) - usual_s <= LATE_S
        assert host(asked, claims, destination={'host': NODE}) == NODE
        with pytest.raises(PeerError) as failed:
            asked.client.select(zone='az3')
        assert failed.value.name == 'NoValidHost'
        assert 'cell2' in failed.value.text
        told = 'is left out of all decisions'
        eventually(lambda: told in asked.logged(), 'the cell is named')
        assert f'{cells.cell_uuid("cell2")}(cell2) {told}' in asked.logged()
    finally:
        second_mariadb.start()
    eventually(lambda: host(asked, claims, zone='az3') == 'node-5', 'back', BACK_S)


@pytest.mark.scenario('F45', 'I6')
def test_a_cell_that_fails_over_fails_no_request(start, cell_gate, claims, eventually):
    asked = start(novasched={'outage_patience': 30})
    assert host(asked, claims, zone='az3') == 'node-5'
    cell_gate.refuse()
    over = threading.Timer(FAILOVER_S, cell_gate.allow)
    over.start()
    found, took_s = timed(lambda: host(asked, claims, zone='az3'))
    assert found == 'node-5'
    assert took_s > FAILOVER_S / 2
    assert host(asked, claims) == 'node-1'
    over.join()
    eventually(lambda: 'is available again after' in asked.log, 'the end is logged')


@pytest.mark.scenario('F22', 'I6')
def test_a_connection_that_is_lost_in_a_statement_costs_no_host(
    start, cell_gate, claims
):
    """Or between two requests, as all others are."""
    asked = start(novasched={'check_interval': 600})
    assert host(asked, claims, zone='az3') == 'node-5'
    for table in (b'compute_nodes', b'services') * 3:
        cell_gate.cut_on(b'FROM ' + table)
        found, took_s = timed(lambda: host(asked, claims, zone='az3'))
        assert found == 'node-5'
        assert took_s < LATE_S
    for _ in range(3):
        cell_gate.cut()
        assert host(asked, claims, zone='az3') == 'node-5'
    assert 'Failed to get computes' not in asked.log


@pytest.mark.scenario('F21', 'I6')
def test_without_the_api_database_what_is_known_serves(
    start, api_gate, cells, claims, eventually
):
    asked = start(api_database={'connection': api_gate.url(cells.urls['api'])})
    assert host(asked, claims, zone='az3') == 'node-5'
    api_gate.refuse()
    named = 'check failed, trying again'
    eventually(lambda: named in asked.log, 'the database is named')
    for zone in ('az1', 'az3', None):
        request = {'zone': zone} if zone else {}
        found, took_s = timed(lambda r=request: host(asked, claims, **r))
        assert found == ('node-5' if zone == 'az3' else 'node-1')
        assert took_s < LATE_S
    assert 'The aggregates may have changed' in asked.log
    api_gate.allow()
    eventually(lambda: 'check succeeds again' in asked.log, 'it is back')
    assert host(asked, claims, zone='az3') == 'node-5'


@pytest.mark.exhaustive('it is waited for by one request')
@pytest.mark.scenario('F46', 'I6', 'I7')
def test_an_api_database_that_hangs_holds_up_one_request_of_a_group(
    start, api_gate, cells, claims
):
    asked = start(api_database={'connection': api_gate.url(cells.urls['api'])})
    group = {'policy': 'anti-affinity', 'members': [str(uuid.uuid4())]}
    assert host(asked, claims, group=group) == 'node-1'
    api_gate.hold()
    took = [timed(lambda: host(asked, claims, group=group)) for _ in range(4)]
    assert {found for found, _ in took} == {'node-1'}
    assert max(took_s for _, took_s in took) < 2 * engines.API_TIMEOUT_S + LATE_S
    assert sorted(took_s for _, took_s in took)[2] < LATE_S
    assert 'is verified for the members that the request names' in asked.log


@pytest.mark.parametrize('skew_s', [-120, 120])
@pytest.mark.scenario('F24', 'I6')
def test_clocks_two_minutes_off_never_take_all_hosts_in_silence(
    asked, cells, claims, eventually, skew_s
):
    assert host(asked, claims) == 'node-1'
    skew = datetime.timedelta(seconds=skew_s)
    with cells.beats:
        for each in HOSTS:
            cell = 'cell3' if each.name == NODE else each.cell
            if not each.down:
                seen = {'last_seen_up': cells.now() + skew}
                cells.update(cell, 'services', seen, host=each.name)
        assert host(asked, claims) == 'node-1'
        assert 'have fallen silent at once' in asked.logged()
        if skew_s > 0:
            future = 'are from the future'
            eventually(lambda: future in asked.logged(), 'they are named')
    cells.heartbeat()
    assert host(asked, claims, zone='az3') == 'node-5'
    assert 'send heartbeats again' in asked.logged()


def test_one_conductor_behind_hides_no_write_and_is_named(
    asked, cells, claims, eventually
):
    """Rows are stamped 40 or 50 s behind: each is seen by the next request."""
    assert host(asked, claims) == 'node-1'
    (row,) = cells.rows('cell1', 'compute_nodes', host='node-1')
    free, behind = row['free_ram_mb'], datetime.timedelta(seconds=50)
    # The stamp of a second that the row has already is called none.
    if abs(cells.now() - behind - row['updated_at']) < STAMPS_APART:
        behind -= 2 * STAMPS_APART
    try:
        for amount in (1, free, 2):
            stamp = cells.now() - behind
            values = {'updated_at': stamp, 'free_ram_mb': amount}
            values['memory_mb_used'] = free - amount
            cells.update('cell1', 'compute_nodes', values, host='node-1')
            expected = 'node-1' if amount == free else 'node-2'
            assert host(asked, claims) == expected
    finally:
        values = {'updated_at': cells.now(), 'free_ram_mb': free, 'memory_mb_used': 0}
        cells.update('cell1', 'compute_nodes', values, host='node-1')
    named = 'The time stamps of 1 compute nodes of cell'
    eventually(lambda: named in asked.log, 'it is named')
    assert asked.log.count(named) == 1
    assert 'behind our clock: node-1' in asked.log
