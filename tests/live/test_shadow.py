# SPDX-License-Identifier: Apache-2.0
"""A shadow beside the peer's scheduler, conductors and computes."""

import contextlib
import os
import signal
import time
from collections import Counter

import pytest

from novasched.decisions.reading import DecisionFiles
from tests.live.cloud import built
from tests.live.peer_api import PeerApi
from tests.live.peer_cloud import PeerCloud
from tests.live.servers.process import wait_until

pytestmark = pytest.mark.ours

BOOTS = int(os.environ.get('NOVASCHED_SHADOW_BOOTS', '30'))
"""More of them, and as many moves as a fifth, are for who wants a longer proof."""
KNOWN_S = 90
TAPPED = 'novasched_shadow'


class ShadowedCloud(PeerCloud):
    """One cell, four equal computes and one that refuses each server once."""

    cells = ('cell1',)
    computes = {
        **{f'shadowed-{n}': ('cell1', 'fake.MediumFakeDriver') for n in range(4)},
        'shadowed-picky': ('cell1', 'fake.FakeRescheduleDriver'),
    }


@pytest.fixture(scope='module')
def cloud(tmp_path_factory, servers, peer_programs):
    with built(
        ShadowedCloud(tmp_path_factory.mktemp('shadowed'), servers, peer_programs)
    ) as made:
        made.start_peer()
        made.write_scheduler_conf('nova')
        made.start_peer_scheduler('nova')
        made._wait_consumed(made.transport_url, 'scheduler.nova', made['nova'])
        for name in made.computes:
            made.wait_compute(name)
        made.discover_hosts()
        yield made


@pytest.fixture(scope='module')
def api(cloud):
    with contextlib.closing(PeerApi(cloud.port)) as made:
        made.wait_ready(cloud['api'])
        made.add_flavor('small', 1, 256, 1)
        made.add_flavor('bigger', 2, 512, 2)
        made.set_service('shadowed-picky', status='disabled')
        yield made
        made.delete_all()


@pytest.fixture(scope='module')
def shadow(cloud):
    conf = cloud.write_scheduler_conf(
        'shadow',
        novasched={'shadow': True, 'decisions_dir': str(cloud.dir / 'decisions')},
    )
    process = cloud.start_scheduler(conf, name='shadow')
    wait_until(lambda: 'Starting scheduler' in process.log, 60, 'a shadow', process)
    yield process


def test_it(cloud, api, shadow):
    before = time.monotonic()
    for _ in range(BOOTS // 3):
        for u in api.boot(count=1) + api.boot(count=2):
            pass
        while len(api.made) > 18:
            api.active(api.made[0])
            api.delete(api.made[0])
    for u in api.made:
        api.active(u)
    print('boots', time.monotonic() - before)
    for u in api.made[: BOOTS // 5]:
        api.act(u, 'migrate')
        api.becomes(u, 'VERIFY_RESIZE')
        api.act(u, 'confirmResize')
        api.active(u)
    print('moves', time.monotonic() - before)
    time.sleep(3)
    reader = DecisionFiles(cloud.dir / 'decisions')
    found = list(reader.compared(0))
    print(len(found), Counter((c.verdict, c.cause, c.known_by) for c in found))
    for c in found:
        print(c)
    print(reader.listened(0))
    print(shadow.log[-5000:])
    raise SystemError
