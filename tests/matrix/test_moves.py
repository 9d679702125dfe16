# SPDX-License-Identifier: Apache-2.0
"""Servers of the release move."""

from __future__ import annotations

import signal

import pytest

from tests.live.servers.process import wait_until
from tests.matrix.release_cloud import HOST, host_of, hosts_of

STEP_S = 120
TRIES = 10
ANOTHER_IMAGE = '22222222-2222-4333-8444-555555555555'


@pytest.fixture
def server(api, scheduler):
    """A server, and the host that it is on; all are deleted in the end."""
    (uuid,) = api.boot()
    yield uuid, host_of(api, uuid)
    api.delete_all()


def test_a_resize_is_reverted_and_confirmed(api, server):
    uuid, before = server
    for action in ('revertResize', 'confirmResize'):
        api.act(uuid, 'migrate')
        api.becomes(uuid, 'VERIFY_RESIZE')
        api.act(uuid, action)
        assert (host_of(api, uuid) == before) is (action == 'revertResize')


def test_a_live_migration_goes_elsewhere(api, server):
    uuid, before = server
    api.act(uuid, 'os-migrateLive', {'host': None, 'block_migration': 'auto'})
    wait_until(lambda: host_of(api, uuid) != before, STEP_S, 'the migration')


def test_a_rebuild_with_another_image_stays(api, server, scheduler):
    uuid, before = server
    api.act(uuid, 'rebuild', {'imageRef': ANOTHER_IMAGE})
    wait_until(lambda: api.show(uuid)['image']['id'] == ANOTHER_IMAGE, STEP_S, 'image')
    assert host_of(api, uuid) == before


def test_a_shelved_server_comes_back(api, cloud, server):
    uuid, _ = server
    api.act(uuid, 'shelve')
    api.becomes(uuid, 'SHELVED_OFFLOADED')
    assert cloud.held(uuid) == {}
    # A compute writes that there is no host after it has said so.
    wait_until(lambda: api.show(uuid)[HOST] is None, STEP_S, 'the end of the host')
    api.act(uuid, 'unshelve')
    host = host_of(api, uuid)
    assert list(cloud.held(uuid)) == [host]


@pytest.fixture(params=['ours', 'theirs'])
def either(request, cloud, start):
    """One of the schedulers, alone."""
    if request.param == 'ours':
        yield start()
        return
    cloud.write_scheduler_conf('theirs')
    cloud.start_peer_scheduler('theirs')
    cloud.wait_consumed(cloud.transport_url, 'scheduler.theirs', cloud['theirs'])
    cloud.wait_mapped()
    yield cloud['theirs']
    cloud.stop_program('theirs')
    cloud.delete('cell0', 'services', host='theirs')


def test_a_server_that_is_asked_back_too_early_loses_its_host(api, cloud, either):
    """Its old compute, held up here, writes that there is no host after it has said
    SHELVED_OFFLOADED, wherever the server is by then. No scheduler can help it."""
    for _ in range(TRIES):
        (uuid,) = api.boot()
        before = host_of(api, uuid)
        old = cloud[before]
        api.act(uuid, 'shelve')
        wait_until(lambda u=uuid: is_offloaded(cloud, u), STEP_S, 'it', every_s=0.001)
        old.send(signal.SIGSTOP)
        try:
            if is_early := cloud.instance(uuid)[0]['host'] is not None:
                api.set_service(before, forced_down=True)  # it builds nothing now
                api.act(uuid, 'unshelve')
                host = host_of(api, uuid)
        finally:
            old.send(signal.SIGCONT)
            api.set_service(before, forced_down=False)
        if is_early:
            break
        api.delete_all()
    assert is_early
    wait_until(lambda: api.show(uuid)[HOST] is None, STEP_S, 'the end of the host')
    assert api.show(uuid)['status'] == 'ACTIVE'
    assert list(cloud.held(uuid)) == [host]
    api.delete_all()


def is_offloaded(cloud, uuid):
    return cloud.instance(uuid)[0]['vm_state'] == 'shelved_offloaded'


@pytest.mark.parametrize('policy', ['affinity', 'anti-affinity'])
def test_a_group_keeps_its_policy(api, scheduler, policy):
    body = {'server_group': {'name': policy, 'policy': policy}}
    path = '/os-server-groups'
    group = api.request('POST', path, body)['server_group']['id']
    hints = {'group': group}
    hosts = hosts_of(api, [*api.boot(hints=hints), *api.boot(hints=hints)])
    assert len(set(hosts)) == (1 if policy == 'affinity' else 2)
    (third,) = api.boot(hints=hints)
    status = api.becomes(third, 'ACTIVE', 'ERROR')['status']
    assert status == ('ACTIVE' if policy == 'affinity' else 'ERROR')
    api.delete_all()
    api.request('DELETE', f'{path}/{group}')
