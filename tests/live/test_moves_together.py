# SPDX-License-Identifier: Apache-2.0
"""Members of a group that the peer's own conductor moves at once; two schedulers."""

from __future__ import annotations

import contextlib

import pytest

from tests.live.cloud import built
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import FLAVORS, PeerCloud, scheduling
from tests.live.servers.process import at_once

pytestmark = [
    pytest.mark.exhaustive("a cloud of the peer's of its own, and rounds of seconds"),
    pytest.mark.ours,
]

ROUNDS = 20
MOVE_S = 60
SCHEDULERS = 'moving-one', 'moving-two'


class EqualComputes(PeerCloud):
    """Five computes of the peer's, none of which is better than another."""

    cells = ('cell1',)
    computes = {
        f'moving-{n}': ('cell1', 'fake.FakeDriverWithoutFakeNodes') for n in range(5)
    }


@pytest.fixture(scope='module')
def moving(tmp_path_factory, servers, peer_programs):
    made = EqualComputes(tmp_path_factory.mktemp('moving'), servers, peer_programs)
    with contextlib.ExitStack() as stack:
        stack.enter_context(built(made))
        made.start_peer()
        for name in SCHEDULERS:
            stack.enter_context(scheduling(made, name))
        made.wait_mapped()
        api = stack.enter_context(contextlib.closing(PeerApi(made.port)))
        api.add_flavor(*FLAVORS[0])
        yield made, api


def live_migrate(cloud, api, uuid):
    return lambda: api.act(
        uuid, 'os-migrateLive', {'host': None, 'block_migration': 'auto'}
    )


def evacuate(cloud, api, uuid):
    host = cloud.instance(uuid)[0]['host']
    cloud.update('cell1', 'services', {'forced_down': True}, host=host)
    return lambda: api.act(uuid, 'evacuate', {})


@pytest.mark.parametrize('number', range(ROUNDS))
@pytest.mark.scenario('F46', 'I5', 'I6')
def test_members_that_move_at_once_never_meet(moving, placement, eventually, number):
    """Both are live-migrated, both evacuated, or one and the other."""
    cloud, api = moving
    ways = [(live_migrate, evacuate), (live_migrate,) * 2, (evacuate,) * 2][number % 3]
    group = {'name': 'apart', 'policy': 'anti-affinity'}
    group = api.request('POST', '/os-server-groups', {'server_group': group})
    group = group['server_group']['id']
    members = api.boot(count=2, hints={'group': group})
    before = {each: api.active(each)['OS-EXT-SRV-ATTR:host'] for each in members}
    at_once([way(cloud, api, each) for way, each in zip(ways, members, strict=True)])

    def moved():
        after = {each: cloud.instance(each)[0] for each in members}
        has_moved = [row['host'] != before[each] for each, row in after.items()]
        return after if all(has_moved) else None

    eventually(moved, 'both moves', MOVE_S)
    hosts = {api.active(each)['OS-EXT-SRV-ATTR:host'] for each in members}
    assert len(hosts) == 2
    cloud.update('cell1', 'services', {'forced_down': False}, forced_down=True)
    api.delete_all()
    api.request('DELETE', f'/os-server-groups/{group}')
    eventually(lambda: not cloud.left_over(), 'nothing to be left')
