# SPDX-License-Identifier: Apache-2.0
"""A shadow beside two schedulers of the release, on each kind of queue."""

from __future__ import annotations

import os

import pytest

from tests.live.shadows import Shadow, boot_compared, move_compared
from tests.matrix.release_cloud import ReleaseCloud, at_work, opened

BOOTS = int(os.environ.get('NOVASCHED_SHADOW_BOOTS', '12'))
QUEUES = {
    'classic': {},
    'quorum': {'rabbit_quorum_queue': True, 'amqp_durable_queues': True},
}


class ShadowedCloud(ReleaseCloud):
    """Its programs declare queues of one kind, and two schedulers serve.

    Another cloud of the release has the same placement: the names of hosts differ.
    """

    computes = {
        f'shadowed-{number}': ('cell1', 'fake.MediumFakeDriver') for number in (1, 2)
    }

    def __init__(self, directory, servers, environment, queues):
        self._queues = queues
        super().__init__(directory, servers, environment)

    def write_conf(self, path, **sections):
        return super().write_conf(path, oslo_messaging_rabbit=self._queues, **sections)


@pytest.fixture(params=QUEUES)
def cloud(request, tmp_path, servers, environment):
    directory = tmp_path / f'shadowed_{request.param}'
    made = ShadowedCloud(directory, servers, environment, QUEUES[request.param])
    with at_work(made):
        for name in ('one', 'other'):
            made.write_scheduler_conf(name)
            made.start_peer_scheduler(name)
            made.wait_consumed(made.transport_url, f'scheduler.{name}', made[name])
        made.wait_mapped()
        yield made


def test_a_shadow_compares_what_two_schedulers_decide(cloud):
    with opened(cloud) as api:
        shadow = Shadow(cloud)
        boot_compared(api, shadow, BOOTS)
        move_compared(api, shadow, max(1, BOOTS // 5))
        api.delete_all()
