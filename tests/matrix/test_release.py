# SPDX-License-Identifier: Apache-2.0
"""What must hold in a cloud of each release, in the order in which it is tried."""

from __future__ import annotations

import json
import subprocess

from tests.live.daemon import own_program
from tests.live.servers.process import wait_until
from tests.matrix.release_cloud import NAME, hosts_of

STEP_S = 120


def upgrade_check(cloud):
    """What novasched-status says, by the name of the check."""
    conf = cloud.dir / f'{NAME}.conf'
    words = ['--config-file', conf, 'upgrade', 'check', '-f', 'json']
    done = subprocess.run(
        [own_program('novasched-status'), *words], capture_output=True, text=True
    )
    checks = json.loads(done.stdout)['checks']
    return {each['check']: (each['result'], each['details']) for each in checks}


def test_1_it_starts_where_computes_are(cloud, scheduler, release):
    found = release.number if release.number != 30 else 29
    assert f'Serving nova {found} (' in scheduler.log
    assert cloud.row(NAME)['version'] == release.service_version


def test_2_boots_are_served(api, scheduler, release):
    assert len(hosts_of(api, api.boot())) == 1
    shown = 'A request shows that nova is 30 (2024.2)' in scheduler.log
    assert shown is (release.number == 30)
    assert len(hosts_of(api, api.boot(count=5))) == 5
    api.delete_all()


def test_3_a_full_cloud_says_so(api, scheduler):
    assert set(hosts_of(api, api.boot('half', count=2))) == {'peer-1', 'peer-2'}
    (uuid,) = api.boot('half')
    server = api.becomes(uuid, 'ACTIVE', 'ERROR')
    assert 'No valid host was found' in server['fault']['message']
    api.delete_all()


def test_4_a_tpm_asks_for_what_the_release_knows(cloud, api, scheduler, release):
    traits = ['COMPUTE_SECURITY_TPM_2_0']
    if release.has_tpm_model_trait:
        traits += ['COMPUTE_SECURITY_TPM_TIS']
    if release.has_tpm_secret_trait:
        traits += ['COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER']
    api.add_flavor('tpm', 1, 512, 1)
    specs = {'extra_specs': {'hw:tpm_version': '2.0'}}
    api.request('POST', '/flavors/tpm/os-extra_specs', specs)
    for provider in cloud.providers():
        path = f'/resource_providers/{provider}/traits'
        held = cloud._placement.get(path)
        body = {**held, 'traits': sorted({*held['traits'], *traits})}
        cloud._placement.put(path, body)
    (uuid,) = api.boot('tpm')
    api.active(uuid)
    api.delete_all()


def test_5_the_check_says_which_release(cloud, release):
    verdicts = upgrade_check(cloud)
    found = release.number if release.number != 30 else 29
    result, details = verdicts['Nova release']
    assert (result, details.startswith(f'nova {found} (')) == (0, True)
    assert verdicts['Message queue'] == (0, None)
    assert verdicts['Older than N-1 computes'] == (0, None)


def test_6_oldest_accepted_computes_follow_the_release(cloud, release):
    before = cloud.rows('cell1', 'services', host='peer-1')[0]['version']
    try:
        found = []
        for version in (release.oldest_compute, release.oldest_compute - 1):
            cloud.update('cell1', 'services', {'version': version}, host='peer-1')
            found.append(upgrade_check(cloud)['Older than N-1 computes'][0])
        assert found == [0, 2]
    finally:
        cloud.update('cell1', 'services', {'version': before}, host='peer-1')


def test_7_its_own_scheduler_takes_the_row_back(cloud, api, start, release):
    """As after an earlier novasched, which wrote 74 into all rows, too."""
    cloud.update('cell0', 'services', {'version': 74}, binary='nova-scheduler')
    start().stop()
    assert cloud.row(NAME)['version'] == release.service_version
    cloud.start_peer_scheduler(NAME)
    try:
        url, own = cloud.transport_url, f'scheduler.{NAME}'
        cloud.wait_consumed(url, own, cloud[NAME])
        cloud.wait_mapped()
        assert len(hosts_of(api, api.boot())) == 1
    finally:
        cloud.stop_program(NAME)
        api.delete_all()
    start()
    assert len(hosts_of(api, api.boot())) == 1
    api.delete_all()


def test_8_both_share_the_queue(cloud, api, start):
    cloud.write_scheduler_conf('theirs')
    cloud.start_peer_scheduler('theirs')
    try:
        cloud.wait_consumed(cloud.transport_url, 'scheduler.theirs', cloud['theirs'])
        process = start()
        cloud.wait_consumed(cloud.transport_url, 'scheduler', process, 2)
        assert len(hosts_of(api, [api.boot()[0] for _ in range(6)])) == 6
        words = ['--config-file', cloud.dir / f'{NAME}.conf', 'decisions', 'list']
        done = subprocess.run(
            [own_program('novasched'), *words], capture_output=True, text=True
        )
        assert 'theirs runs nova-scheduler' in done.stderr
        assert 'Endpoint does not support RPC version' not in cloud['theirs'].log
    finally:
        cloud.stop_program('theirs')
        api.delete_all()


def test_9_a_conductor_of_the_next_release_is_followed(cloud, start, release):
    if release.number == 29:
        following = release.service_version + 1
    else:
        following = release.service_version + 2
    path = cloud.write_conf(
        cloud.dir / 'following.conf',
        DEFAULT={'host': 'following', 'report_interval': 2},
        novasched={'check_interval': 1},
    )
    assert path.exists()
    process = start('following')
    row = {**cloud.rows('cell0', 'services', binary='nova-conductor')[0]}
    row |= {'host': 'newer', 'version': following}
    row |= {'id': None, 'uuid': '11111111-0000-4000-8000-000000000000'}
    try:
        cloud.insert('cell0', 'services', [row])
        wait_until(
            lambda: 'Nova was upgraded from' in process.log, STEP_S, 'the upgrade'
        )
        wait_until(
            lambda: cloud.row('following')['version'] > release.service_version,
            STEP_S,
            'the version in the row',
        )
    finally:
        cloud.delete('cell0', 'services', host='newer')
        process.stop()
        cloud.delete('cell0', 'services', host='following')


def test_a_nothing_is_left(cloud):
    wait_until(lambda: not cloud.left_over(), STEP_S, 'nothing to be left')
