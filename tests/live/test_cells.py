# SPDX-License-Identifier: Apache-2.0
"""Three cells on three servers: mapped anew, taken away, paused and back again."""

import datetime
import os
import signal

import pytest

from tests.live.hosts import HOSTS
from tests.live.mixed_cloud import BACK_S, LATE_S, NODE, host, timed
from tests.live.servers.process import at_once

pytestmark = pytest.mark.ours

START_S = 60
CELL_TIMEOUT_S = 1.0
AT_ONCE = 10
OFTEN = {
    'check_interval': 1,
    'no_valid_host_detail': 'admin',
    'outage_patience': 0,
    'cell_timeout': None,  # as it comes
}


@pytest.fixture
def second(second_mariadb):
    """The MariaDB server of the second cell."""
    return second_mariadb


@pytest.fixture
def cells(mixed_cloud):
    """The cloud with a cell on each server."""
    return mixed_cloud


@pytest.fixture
def start(daemon, cells):
    """Start a daemon on these cells that looks at them once a second."""

    def started(novasched=None, **sections):
        return daemon(on=cells, novasched=OFTEN | (novasched or {}), **sections)

    return started


@pytest.fixture(scope='module')
def shared(module_daemon, mixed_cloud):
    return module_daemon(on=mixed_cloud, novasched=OFTEN)


@pytest.fixture
def asked(shared, claims, eventually):
    """A daemon that several tests ask; it has all cells. `logged()` is since then."""
    eventually(lambda: host(shared, claims, zone='az3') == 'node-5', 'cells', BACK_S)
    begins = len(shared.log)
    shared.logged = lambda: shared.log[begins:]
    return shared


@pytest.fixture
def paused(second):
    """Pause the server of the second cell: `paused()`, and `paused.end()`."""

    class Pause:
        def __call__(self):
            os.kill(second.process.pid, signal.SIGSTOP)

        def end(self):
            os.kill(second.process.pid, signal.SIGCONT)

    made = Pause()
    yield made
    made.end()


def test_cells_on_servers_of_different_kinds_are_disabled_and_enabled_without_a_signal(
    asked, cells, claims, eventually
):
    for number, of in ((1, 'cell1'), (5, 'cell2'), (4, 'cell3')):
        name = f'node-{number}'
        assert host(asked, claims, destination={'host': name}) == name
        cell = {'uuid': cells.cell_uuid(of)}
        assert host(asked, claims, destination={'cell': cell}) == name
    assert host(asked, claims, zone='az3') == 'node-5'
    cells.update('api', 'cell_mappings', {'disabled': True}, name='cell2')
    try:
        eventually(lambda: host(asked, claims, zone='az3') is None, 'it is gone')
        cell = {'uuid': cells.cell_uuid('cell2')}
        assert host(asked, claims, destination={'cell': cell}) == 'node-5'
    finally:
        cells.update('api', 'cell_mappings', {'disabled': False}, name='cell2')
    eventually(lambda: host(asked, claims, zone='az3') == 'node-5', 'it is back')


def test_a_host_that_moves_to_another_cell_is_found_there(
    start, cells, claims, eventually
):
    asked = start({'reconcile_interval': 1})
    named = {'host': NODE}
    here, there = ({'uuid': cells.cell_uuid(name)} for name in ('cell3', 'cell1'))
    assert host(asked, claims, destination={**named, 'cell': here}) == NODE
    cells.move(NODE, 'cell3', 'cell1')
    try:
        eventually(
            lambda: host(asked, claims, destination={**named, 'cell': there}) == NODE,
            'it is found in the other cell',
        )
        # Its rows are gone without a trace, which only a full read can show.
        eventually(
            lambda: host(asked, claims, destination={**named, 'cell': here}) is None,
            'it is found nowhere else',
        )
        assert host(asked, claims, destination=named) == NODE
    finally:
        cells.move(NODE, 'cell1', 'cell3')


@pytest.mark.scenario('F20', 'I6', 'I7')
def test_a_paused_cell_delays_one_request_and_comes_back(
    asked, paused, cells, claims, eventually
):
    assert host(asked, claims, zone='az3') == 'node-5'
    usual_s = max(timed(lambda: host(asked, claims))[1] for _ in range(3))
    paused()
    found, first_s = timed(lambda: host(asked, claims))
    assert found == 'node-1'
    following = [timed(lambda: host(asked, claims)) for _ in range(20)]
    assert first_s - usual_s <= LATE_S
    assert [found for found, _ in following] == ['node-1'] * 20
    assert sum(took_s < usual_s + CELL_TIMEOUT_S for _, took_s in following) > 15
    assert host(asked, claims, zone='az3') is None
    paused.end()
    eventually(lambda: host(asked, claims, zone='az3') == 'node-5', 'back', BACK_S)
    # On a busy machine another cell may be late, too.
    uuid = cells.cell_uuid('cell2')
    assert asked.logged().count(f'{uuid}(cell2) is left out of all') == 1
    assert asked.logged().count(f'Timeout getting computes for cell {uuid}') == 1


@pytest.mark.scenario('F20', 'I7')
def test_requests_at_once_are_delayed_once(asked, paused, claims):
    def longest_s():
        asks = [lambda: timed(lambda: host(asked, claims))[1]] * AT_ONCE
        return max(at_once(asks))

    usual_s = longest_s()
    paused()
    assert longest_s() < usual_s + (AT_ONCE - 2) * CELL_TIMEOUT_S


def test_a_start_and_a_reload_do_not_wait_for_a_paused_cell(
    start, paused, claims, eventually
):
    paused()
    asked, took_s = timed(start)
    assert took_s < START_S
    assert host(asked, claims) == 'node-1'
    assert 'is left out of all decisions' in asked.log
    said = len(asked.log)
    asked.process.send(signal.SIGHUP)
    eventually(lambda: len(asked.log) > said, 'a sign of the signal')
    found, took_s = timed(lambda: host(asked, claims))
    assert found == 'node-1'
    assert took_s < START_S
    paused.end()
    eventually(lambda: host(asked, claims, zone='az3') == 'node-5', 'back', BACK_S)


@pytest.mark.scenario('F25', 'I6')
def test_cell_with_silent_computes_is_kept_and_logged(asked, cells, claims):
    assert host(asked, claims) == 'node-1'
    ago = datetime.timedelta(seconds=90)
    with cells.beats:
        for each in HOSTS:
            cell = 'cell3' if each.name == NODE else each.cell
            if not each.down:
                seen = {'last_seen_up': cells.now() - ago}
                cells.update(cell, 'services', seen, host=each.name)
        assert host(asked, claims) == 'node-1'
        # The other cells have too few computes to tell.
        assert host(asked, claims, zone='az3') is None
    cells.heartbeat()
    assert 'have fallen silent at once' in asked.logged()
    assert host(asked, claims, zone='az3') == 'node-5'
