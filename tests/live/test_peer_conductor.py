# SPDX-License-Identifier: Apache-2.0
"""The scheduler under test between the peer's own API, conductors and computes."""

import contextlib
import json
import signal

import pytest

from tests.live.daemon import OURS, own_program
from tests.live.peer_cloud import COMPUTES, MORTAL, PICKY
from tests.live.servers.process import completed

COMMAND_S = 150
WITHIN = ('--timeout', '120')
SMALL = {'VCPU': 1, 'MEMORY_MB': 512, 'DISK_GB': 1}
NO_VALID_HOST = (
    'No valid host was found. ',
    'No valid host was found. There are not enough hosts available.',
)
"""Placement has no candidate; none of its candidates will do, as hosts that just came
back or went away have room in it."""
BIGGER = {'VCPU': 2, 'MEMORY_MB': 1024, 'DISK_GB': 2}

TRIES = 10


@pytest.fixture
def api(peer_api):
    return peer_api


@contextlib.contextmanager
def enabled(api, host):
    """Let a compute take part that stands aside; it is larger than all others."""
    api.set_service(host, status='enabled')
    try:
        yield
    finally:
        api.set_service(host, status='disabled')


def test_a_boot_is_active_where_placement_has_it_until_it_is_deleted(
    api, peer_cloud, eventually
):
    (uuid,) = api.boot()
    api.active(uuid)
    row, cell = peer_cloud.instance(uuid)
    assert row['vm_state'] == 'active'
    assert COMPUTES[row['host']][0] == cell
    assert peer_cloud.held(uuid) == {row['host']: SMALL}
    api.delete(uuid)
    eventually(lambda: peer_cloud.held(uuid) == {}, 'its release')


def test_five_of_one_request_are_active_and_spread(api, peer_cloud):
    uuids = api.boot(count=5)
    for uuid in uuids:
        api.active(uuid)
    rows = [peer_cloud.instance(uuid)[0] for uuid in uuids]
    for row in rows:
        assert peer_cloud.held(row['uuid']) == {row['host']: SMALL}
    # The weighers prefer the emptier host.
    assert len({row['host'] for row in rows}) > 1


def test_a_refused_server_is_active_on_an_alternate(api, peer_cloud):
    with enabled(api, PICKY):
        for _ in range(TRIES):  # its copy of placement follows
            (uuid,) = api.boot()
            api.active(uuid)
            if uuid in peer_cloud[PICKY].log:
                break
    row, cell = peer_cloud.instance(uuid)
    assert uuid in peer_cloud[PICKY].log
    assert row['host'] != PICKY
    assert cell == COMPUTES[PICKY][0]
    assert peer_cloud.held(uuid) == {row['host']: SMALL}


def test_a_resize_holds_both_hosts_until_it_is_reverted_or_confirmed(
    api, peer_cloud, eventually
):
    (uuid,) = api.boot(host='peer-1')
    api.active(uuid)
    for action in ('revertResize', 'confirmResize'):
        api.act(uuid, 'resize', {'flavorRef': 'bigger'})
        api.becomes(uuid, 'VERIFY_RESIZE')
        row, cell = peer_cloud.instance(uuid)
        *_, migration = peer_cloud.rows(cell, 'migrations', instance_uuid=uuid)
        assert row['host'] != 'peer-1'
        assert peer_cloud.held(uuid) == {row['host']: BIGGER}
        assert peer_cloud.held(migration['uuid']) == {'peer-1': SMALL}
        api.act(uuid, action)
        api.becomes(uuid, 'ACTIVE')
        after, _ = peer_cloud.instance(uuid)
        is_back = action == 'revertResize'
        assert after['host'] == ('peer-1' if is_back else row['host'])
        held, move = {after['host']: SMALL if is_back else BIGGER}, migration['uuid']
        eventually(lambda held=held: peer_cloud.held(uuid) == held, 'one host alone')
        eventually(lambda move=move: peer_cloud.held(move) == {}, 'its end')


@pytest.mark.ours
def test_an_unshelved_server_returns_to_its_host(api, peer_cloud, eventually):
    uuid, other = (api.boot(host='peer-1')[0] for _ in range(2))
    api.active(other)
    api.active(uuid)
    api.act(uuid, 'shelve')
    api.becomes(uuid, 'SHELVED_OFFLOADED')
    eventually(lambda: peer_cloud.instance(uuid)[0]['host'] is None, 'its end', 60)
    # The weighers prefer the emptier host, but for SameHostWeigher.
    api.act(uuid, 'unshelve')
    api.active(uuid)
    assert peer_cloud.instance(uuid)[0]['host'] == 'peer-1'


def test_a_resize_that_fits_nowhere_leaves_all_as_it_was(api, peer_cloud):
    (uuid,) = api.boot(host='peer-3')
    api.active(uuid)
    # There is no other host in the cell.
    api.act(uuid, 'resize', {'flavorRef': 'bigger'})
    api.becomes(uuid, 'ACTIVE')
    row, cell = peer_cloud.instance(uuid)
    (migration,) = peer_cloud.rows(cell, 'migrations', instance_uuid=uuid)
    assert migration['status'] == 'error'
    assert row['host'] == 'peer-3'
    assert peer_cloud.held(uuid) == {'peer-3': SMALL}


def test_servers_are_evacuated_from_a_compute_that_has_died(
    api, peer_cloud, eventually
):
    sizes = {}
    with enabled(api, MORTAL):
        for flavor, size in (('small', SMALL), ('bigger', BIGGER)):
            (uuid,) = api.boot(flavor, host=MORTAL)
            sizes[uuid] = size
    for uuid in sizes:
        api.active(uuid)
    peer_cloud[MORTAL].end_by(signal.SIGKILL)
    api.set_service(MORTAL, forced_down=True)
    eventually(peer_cloud.is_settled, 'every compute to be idle', 90)
    planned = dict.fromkeys(sizes)
    if OURS:
        code, answer = novasched(peer_cloud, 'plan', 'drain', MORTAL, '--evacuate')
        assert (code, answer['fits'], answer['asked']) == (0, 2, 2)
        planned = {each['server']: each['host'] for each in answer['placed']}
    for uuid, host in planned.items():
        api.act(uuid, 'evacuate', {})
        eventually(
            lambda uuid=uuid: peer_cloud.instance(uuid)[0]['host'] != MORTAL,
            'the evacuation',
        )
        api.active(uuid)
        row, _ = peer_cloud.instance(uuid)
        assert row['host'] == (host or row['host'])
        # The dead host is charged until it is back and has seen what it lost.
        held = {MORTAL: sizes[uuid], row['host']: sizes[uuid]}
        assert peer_cloud.held(uuid) == held
        eventually(peer_cloud.is_settled, 'every compute to be idle', 90)
    peer_cloud.restart_compute(MORTAL)
    for uuid, size in sizes.items():
        released = {peer_cloud.instance(uuid)[0]['host']: size}
        eventually(
            lambda u=uuid, r=released: peer_cloud.held(u) == r, 'the release', 60
        )
    # Only now does the API let the service up again.
    eventually(lambda: peer_cloud.is_told_of_evacuations(MORTAL), 'the news')
    api.set_service(MORTAL, forced_down=False)
    peer_cloud.wait_compute(MORTAL)


def test_a_server_that_a_full_cloud_has_no_room_for_is_buried(
    api, peer_cloud, eventually
):
    uuids = api.boot('half', count=3)
    for uuid in uuids:
        api.active(uuid)
    (late,) = api.boot('half')
    server = api.becomes(late, 'ACTIVE', 'ERROR')
    assert server['status'] == 'ERROR'
    assert server['fault']['message'] in NO_VALID_HOST
    assert server['fault']['code'] == 500
    row, cell = peer_cloud.instance(late)
    assert (cell, row['vm_state'], row['host']) == ('cell0', 'error', None)
    assert peer_cloud.held(late) == {}
    eventually(lambda: peer_cloud.rows('api', 'build_requests') == [], 'none is asked')


def novasched(cloud, *words):
    """Run a command of ours on the peer's cloud; give its exit code and its answer."""
    conf = cloud.dir / 'cell0.conf'
    done = completed(
        [own_program('novasched'), '--config-file', conf, *words, '-f', 'json'],
        timeout_s=COMMAND_S,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.skipif(not OURS, reason='the command is ours')
def test_our_command_boots_servers_on_the_conductor_of_the_peer(
    api, peer_cloud, eventually
):
    code, booted = novasched(
        peer_cloud, 'boot', 'ours', '--count', '2', '--flavor', 'small', *WITHIN
    )
    assert code == 0, booted
    assert [(s['Name'], s['Status']) for s in booted] == [
        ('ours-1', 'ACTIVE'),
        ('ours-2', 'ACTIVE'),
    ]
    for server in booted:
        assert peer_cloud.held(server['ID']) == {server['Host']: SMALL}
    _, shown = novasched(peer_cloud, 'show', 'ours-1')
    assert (shown['status'], shown['fault']) == ('ACTIVE', None)
    assert shown['actions'][0]['action'] == 'create'
    names = 'ours-1', 'ours-2'
    code, deleted = novasched(peer_cloud, 'delete', *names, '--yes', *WITHIN)
    assert (code, [s['Outcome'] for s in deleted]) == (0, ['deleted', 'deleted'])
    for server in booted:
        eventually(lambda s=server: peer_cloud.held(s['ID']) == {}, 'its release')


@pytest.mark.skipif(not OURS, reason='the command is ours')
def test_our_command_shows_why_the_conductor_of_the_peer_failed(
    api, peer_cloud, eventually
):
    """Which writes the fault after the state."""
    code, (server,) = novasched(
        peer_cloud, 'boot', 'huge', '--flavor', 'vcpus=5000,ram=512,disk=1', *WITHIN
    )
    try:
        assert (code, server['Status']) == (1, 'ERROR')

        def shown():
            _, found = novasched(peer_cloud, 'show', 'huge')
            return found['fault'] and found

        found = eventually(shown, 'the fault')
        assert found['fault'].startswith('No valid host was found.')
        assert server['Fault'] in (None, found['fault'])
        assert found['cell'] == 'cell0'
    finally:
        assert novasched(peer_cloud, 'delete', 'huge', '--yes')[0] == 0
