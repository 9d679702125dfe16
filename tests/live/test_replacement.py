# SPDX-License-Identifier: Apache-2.0
"""Walk docs/replace-nova-scheduler.md in a cloud of the peer where servers are booted.

What the page says to type is read from the page: its files, its `sed`, its SQL.
"""

import contextlib
import functools
import json
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
import requests
import sqlalchemy as sa

from tests.faults.audit import Audit
from tests.live.daemon import own_program
from tests.live.peer_api import PeerApi
from tests.live.servers.process import completed, free_port
from tests.live.shadow_accounts import at_broker, at_database, run_command

pytestmark = pytest.mark.ours

PAGE = Path(__file__).parents[2] / 'docs/replace-nova-scheduler.md'
SAMPLE = PAGE.parents[1] / 'etc/novasched/novasched-shadow.conf.sample'
OLD, TRIAL = 'ctl1', 'ctl1-novasched'
STEP_S = 60
ON_ITS_WAY_S = 60
"""How long a boot may take to reach a scheduler."""


class Page:
    """What the page says, for files in a directory and ports that are free."""

    def __init__(self, directory):
        text = PAGE.read_text().replace('/etc/nova', str(directory))
        self.dir = directory
        self.health, self.metrics = free_port(), free_port()
        self._text = text.replace(':9107', f':{self.health}').replace(
            ':9108', f':{self.metrics}'
        )

    def _find(self, pattern):
        (found,) = re.findall(pattern, self._text, re.MULTILINE | re.DOTALL)
        return found

    def write_trial_conf(self):
        """Write the file of step 3; give its path."""
        path = self.dir / 'novasched-trial.conf'
        path.write_text(self._find(r'^```ini\n(.*?)^```'))
        return path

    def write_shadow_conf(self, **urls):
        """Write the file of step 0, with accounts by group; give its path."""
        path, text = self.dir / 'novasched-shadow.conf', SAMPLE.read_text()
        text = text.replace('/var/lib/novasched-shadow', str(self.dir / 'shadow'))
        text = text.replace(':9109', f':{self.health}')
        text = text.replace(':9110', f':{self.metrics}')
        for group, url in urls.items():
            commented = rf'^(\[{group}\]\n)#(\w+ = )\S+'
            text, found = re.subn(commented, rf'\1\2{url}', text, flags=re.MULTILINE)
            assert found == 1, group
        path.write_text(text)
        return path

    def make_final_conf(self):
        """Run the `sed` of step 5; give the path of what it writes."""
        subprocess.run(
            self._find(r'^ *(sed (?:[^\n]*\\\n)*[^\n]*)'), shell=True, check=True
        )
        return self.dir / 'novasched.conf'

    def forget_trial(self):
        """The SQL of step 5."""
        return sa.text(self._find(r'^(UPDATE services SET deleted = id[^;]*);'))

    def bring_trial_back(self):
        """The SQL of step 5 that takes the other one back."""
        return sa.text(self._find(r'^(UPDATE services SET deleted = 0[^;]*);'))

    def is_ready(self):
        """Tell whether the daemon takes requests, as step 0 looks."""
        with contextlib.suppress(requests.ConnectionError):
            return requests.get(f'http://localhost:{self.health}/ready', timeout=10).ok
        return False

    def is_healthy(self):
        """Tell whether the health that step 7 looks at is `pass`."""
        answer = requests.get(f'http://localhost:{self.health}/health', timeout=10)
        return answer.json()['status'] == 'pass'

    def attempts(self, result=''):
        """Add up the counter that steps 4 and 7 look at."""
        answer = requests.get(f'http://localhost:{self.metrics}/metrics', timeout=10)
        counter = rf'^novasched_schedule_attempts_total.*{result}.* (\S+)$'
        return sum(map(float, re.findall(counter, answer.text, re.MULTILINE)))


class Traffic:
    """A user who boots a server, sees it run, deletes it, and boots the next.

    ``failures`` are those that did not run: when each was asked for, and why not.
    ``strays`` run elsewhere than placement has them, or in two places.
    """

    def __init__(self, cloud):
        self._cloud = cloud
        self._api = PeerApi(cloud.port)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._boot, daemon=True)
        self.booted = 0
        self.failures = []
        self.strays = []

    def _boot(self):
        while not self._ended.is_set():
            asked_s = time.monotonic()
            (uuid,) = self._api.boot()
            try:
                host = self._api.active(uuid)['OS-EXT-SRV-ATTR:host']
                self.booted += 1
                if (held := set(self._cloud.held(uuid))) != {host}:
                    self.strays.append((uuid, host, held))
            except AssertionError as failure:
                self.failures.append((asked_s, str(failure)))
            self._api.delete(uuid)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join(2 * STEP_S)
        self._api.delete_all()
        self._api.close()


@pytest.fixture
def api(peer_cloud, eventually):
    """The API, with a scheduler of the peer; nothing is left of the servers."""
    peer_cloud.write_scheduler_conf(OLD)
    peer_cloud.start_peer_scheduler(OLD)
    peer_cloud.wait_ready(peer_cloud[OLD])
    with contextlib.closing(PeerApi(peer_cloud.port)) as api:
        yield api
        api.delete_all()
        eventually(lambda: not peer_cloud.left_over(), 'nothing to be left')
        peer_cloud[OLD].end_by(signal.SIGKILL)  # else it takes half a minute
        api.delete_service('nova-scheduler', OLD)


def test_a_week_in_the_shadow_is_set_up_read_and_leaves_nothing(
    peer_cloud, api, rabbitmq, mariadb, eventually
):
    conf, page = peer_cloud.dir / f'{OLD}.conf', Page(peer_cloud.dir)
    url, rows = peer_cloud.transport_url, len(api.services(binary='nova-scheduler'))

    def queues():
        names = rabbitmq.messages(url)
        return {name for name in names if name.startswith('novasched_shadow.')}

    def checked(own):
        files = ['--config-file', conf, '--config-file', own]
        words = ['upgrade', 'check', '--shadow', '-f', 'json']
        done = completed([own_program('novasched-status'), *files, *words])
        found = {each['check']: each for each in json.loads(done.stdout)['checks']}
        return done.returncode, found

    def reported():
        words = ['shadow', 'report', '--since', '1h', '-f', 'json']
        files = ['--config-file', conf, '--config-file', own]
        done = completed([own_program('novasched'), *words, *files])
        return json.loads(done.stdout)

    code, checks = checked(page.write_shadow_conf())
    assert code == 1, checks
    for check in checks.values():
        for command in check.get('commands', ()):
            run_command(command, rabbitmq, mariadb)
    own = page.write_shadow_conf(
        DEFAULT=at_broker(url, 'novasched_shadow'),
        api_database=at_database(peer_cloud.urls['api'], 'novasched_read'),
        database=at_database(peer_cloud.urls['cell0'], 'novasched_read'),
    )
    code, checks = checked(own)
    # The mappings of cells name accounts of nova: that warning stays.
    left = {name for name, check in checks.items() if 'commands' in check}
    assert (code, left) == (1, {'Accounts of databases'}), checks
    shadow = peer_cloud.start_scheduler(conf, own, name='shadow')
    eventually(page.is_ready, 'a shadow', STEP_S)
    eventually(
        lambda: {name.split('.')[2] for name in queues()} == {'requests', 'casts'},
        'its queues',
        STEP_S,
    )
    for uuid in api.boot(count=3):  # nova-scheduler may fail by itself
        api.becomes(uuid, 'ACTIVE', 'ERROR')
    report = eventually(
        lambda: (found := reported())['servers'] == 3 and found, 'a report', STEP_S
    )
    assert report['verdicts'].get('unknown', 0) == 0, report
    assert len(api.services(binary='nova-scheduler')) == rows
    assert shadow.stop(timeout_s=STEP_S) == 0
    assert queues() == set()


@pytest.mark.scenario('F33', 'I1', 'I2', 'I4')
def test_the_page_is_right_while_servers_are_booted(
    peer_cloud, api, rabbitmq, placement, eventually
):
    audit = Audit.of(placement)
    conf, page = peer_cloud.dir / f'{OLD}.conf', Page(peer_cloud.dir)

    def consumers():
        return rabbitmq.queue(peer_cloud.transport_url, 'scheduler')[1]

    def boot(count):
        for uuid in api.boot(count=count):
            host = api.active(uuid)['OS-EXT-SRV-ATTR:host']
            assert set(peer_cloud.held(uuid)) == {host}
        audit.check('I1')

    def services():
        found = api.services(binary='nova-scheduler')
        return {each['host']: each['state'] for each in found}

    with Traffic(peer_cloud) as traffic:
        # Step 2
        status = completed(
            [own_program('novasched-status'), '--config-file', conf, 'upgrade', 'check']
        )
        assert status.returncode in (0, 1), status.stdout + status.stderr
        before = consumers()
        # Steps 3 and 4
        trial = peer_cloud.start_scheduler(conf, page.write_trial_conf(), name=TRIAL)
        eventually(lambda: consumers() == before + 2, 'two more consumers', STEP_S)
        assert rabbitmq.queue(peer_cloud.transport_url, f'scheduler.{TRIAL}')
        eventually(
            lambda: boot(1) or page.attempts() >= 2,
            'novasched to have its share',
            2 * STEP_S,
        )
        assert set(services()) == {OLD, TRIAL}
        # Step 5
        stopping_s = time.monotonic()
        peer_cloud[OLD].end_by(signal.SIGTERM, 120)
        stopped_s = time.monotonic()
        eventually(lambda: consumers() == 2, 'the end of the old one', STEP_S)
        boot(2)
        final_conf = page.make_final_conf()
        assert trial.stop(timeout_s=STEP_S) == 0
        final = peer_cloud.start_scheduler(conf, final_conf, name='final')
        boot(2)
        assert peer_cloud.would_change('cell0', page.forget_trial()) == 1
        api.delete_service('nova-scheduler', TRIAL)
        eventually(lambda: services() == {OLD: 'up'}, 'one service that is up')
        assert peer_cloud.would_change('cell0', page.bring_trial_back()) == 1
        left = rabbitmq.queue(peer_cloud.transport_url, f'scheduler.{TRIAL}')
        assert left == (0, 0)
        # Step 7
        eventually(page.is_healthy, 'health')
        scheduled = functools.partial(page.attempts, 'result="scheduled"')
        eventually(lambda: scheduled() >= 2, 'novasched to be the one that places')
        assert page.attempts('result="error"') == 0
        # Step 8
        assert final.stop(timeout_s=STEP_S) == 0
        peer_cloud.start_peer_scheduler(OLD, again=True)
        boot(2)
        eventually(lambda: services() == {OLD: 'up'}, 'one service that is up')
    # The peer's scheduler loses what it takes from the queue while it stops.
    lost = [asked_s for asked_s, _ in traffic.failures]
    assert all(stopping_s - ON_ITS_WAY_S < each < stopped_s for each in lost), (
        traffic.failures
    )
    assert traffic.booted > 0
    assert traffic.strays == []
    audit.check('I1')
