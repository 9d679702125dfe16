# SPDX-License-Identifier: Apache-2.0
"""Servers of the release move, and hosts come, die and come back."""

from __future__ import annotations

import signal

import pytest

from tests.live.servers.process import wait_until
from tests.matrix.release_cloud import LATER, hosts_of

STEP_S = 120
DRIVER = 'fake.FakeDriverWithoutFakeNodes'
ANOTHER_IMAGE = '22222222-2222-4333-8444-555555555555'


def host_of(api, uuid):
    return hosts_of(api, [uuid])[0]


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
    # Nova 31 and 32 write that there is no host after they have said so.
    wait_until(lambda: host_of(api, uuid) is None, STEP_S, 'the end of the host')
    api.act(uuid, 'unshelve')
    host = api.becomes(uuid, 'ACTIVE')['OS-EXT-SRV-ATTR:host']
    assert list(cloud.held(uuid)) == [host]


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


@pytest.fixture
def later(cloud, api):
    """The name of a host that comes later; it is gone in the end."""
    cloud.computes = {**cloud.computes, LATER: ('cell1', DRIVER)}
    try:
        cloud.start_compute(LATER)
        cloud.wait_compute(LATER)
        yield LATER
        api.delete_all()
        cloud.stop_program(LATER)
        api.delete_service('nova-compute', LATER)
    finally:
        del cloud.computes[LATER]


def test_a_host_is_found_dies_and_returns(cloud, api, scheduler, later):
    cloud.wait_mapped()
    (there,), (here,) = api.boot(host=later), api.boot(host='peer-1')
    assert hosts_of(api, [there, here]) == [later, 'peer-1']

    cloud[later].end_by(signal.SIGKILL)
    api.set_service(later, forced_down=True)
    api.act(there, 'evacuate', {})
    wait_until(
        lambda: cloud.instance(there)[0]['host'] != later, STEP_S, 'the evacuation'
    )
    assert host_of(api, there) in ('peer-1', 'peer-2')
    cloud.restart_compute(later)
    wait_until(lambda: later not in cloud.held(there), STEP_S, 'the release')
    wait_until(lambda: cloud.is_told_of_evacuations(later), STEP_S, 'the news')
    api.set_service(later, forced_down=False)

    cloud.stop_program(later)
    api.delete_service('nova-compute', later)
    assert later not in [row['host'] for row in cloud.rows('api', 'host_mappings')]
    # Nova 29 leaves the mark, by which no discovery of any release looks at the node.
    cloud.update('cell1', 'compute_nodes', {'mapped': 0}, host=later)
    cloud.restart_compute(later)
    cloud.wait_mapped()
    assert hosts_of(api, api.boot(host=later)) == [later]
