# SPDX-License-Identifier: Apache-2.0
"""A wrong option ends the start with one line that says which and what to do."""

import json
import re

import pytest

from tests.live.daemon import own_program
from tests.live.peer import PeerError
from tests.live.servers.keystone import WRONG
from tests.live.servers.process import completed, free_port
from tests.live.servers.rabbitmq import PASSWORD
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

START_S = 60
# A warning for each attempt to connect is welcome.
ROUTINE = re.compile(r' (DEBUG|INFO|WARNING) ')
BRIEFLY = {'max_retries': 1, 'retry_interval': 1}


def _closed_port(url):
    """The URL with a port where nobody listens."""
    return re.sub(r'(@[^:/]+):\d+', rf'\1:{free_port()}', url)


def _wrong_password(url):
    return re.sub(r':[^:@/]+@', f':{WRONG}@', url)


def _api(change):
    return lambda cloud: {
        'api_database': {'connection': change(cloud.urls['api']), **BRIEFLY}
    }


def _own(change):
    return lambda cloud: {
        'database': {'connection': change(cloud.urls['cell0']), **BRIEFLY}
    }


def _broker(change):
    return lambda cloud: {'DEFAULT': {'transport_url': change(cloud.transport_url)}}


def _placement(**options):
    return lambda cloud: {'placement': options}


@cases(
    'sections, group, option',
    ('no API database', _api(lambda url: None), 'api_database', 'connection'),
    ('no own database', _own(lambda url: None), 'database', 'connection'),
    (
        'an API database that nobody serves',
        _api(_closed_port),
        'api_database',
        'connection',
    ),
    (
        'an API database with a wrong password',
        _api(_wrong_password),
        'api_database',
        'connection',
    ),
    (
        'an own database that nobody serves',
        _own(_closed_port),
        'database',
        'connection',
    ),
    (
        'a broker with a wrong password',
        _broker(_wrong_password),
        'DEFAULT',
        'transport_url',
    ),
    ('a broker that nobody serves', _broker(_closed_port), 'DEFAULT', 'transport_url'),
    (
        'an unknown filter',
        lambda cloud: {'filter_scheduler': {'enabled_filters': 'NoSuchFilter'}},
        'filter_scheduler',
        'enabled_filters',
    ),
    (
        'no way to authenticate to placement',
        _placement(auth_type=None),
        'placement',
        'auth_type',
    ),
    (
        'a wrong password for placement',
        _placement(password=WRONG),
        'placement',
        'auth_type',
    ),
)
def test_a_wrong_option_is_one_plain_line(daemon, cloud, sections, group, option):
    ended = daemon(wait=False, **sections(cloud))
    assert ended.process.wait(START_S) != 0
    said = [line for line in ended.log.splitlines() if not ROUTINE.search(line)]
    assert 'Traceback' not in ended.log
    assert len(said) == 1, ended.log
    assert re.search(rf'\[{group}\] ?{option}\b', said[0]), said
    assert WRONG not in said[0]


@cases(
    'change, result, says',
    ('a broker that answers', lambda url: url, 0, None),
    ('a wrong port', _closed_port, 2, 'connection refused'),
    ('a wrong password', _wrong_password, 2, 'access denied'),
    more=[
        (
            'no such vhost',
            lambda url: f'{url}-nosuch',
            2,
            'unknown virtual host .*-nosuch',
        )
    ],
)
def test_the_upgrade_check_tries_the_broker(rabbitmq, tmp_path, change, result, says):
    conf = tmp_path / 'nova.conf'
    conf.write_text(f'[DEFAULT]\ntransport_url = {change(rabbitmq.create_vhost())}\n')
    status = completed(
        [
            own_program('novasched-status'),
            f'--config-file={conf}',
            'upgrade',
            'check',
            '--json',
        ],
        timeout_s=START_S,
    )
    assert (status.returncode, status.stderr) == (2, '')
    checks = {each['check']: each for each in json.loads(status.stdout)['checks']}
    queue = checks['Message queue']
    assert queue['result'] == result
    assert WRONG not in status.stdout
    assert PASSWORD not in status.stdout
    if says:
        assert queue['details'].startswith('[DEFAULT] transport_url: ')
        assert re.search(says, queue['details'])
        assert '\n' not in queue['details']


def test_missing_placement_is_a_warning_and_no_valid_host(daemon):
    nobody = f'http://127.0.0.1:{free_port()}'
    alone = daemon(
        placement={'endpoint_override': nobody}, novasched={'outage_patience': 0}
    )
    warnings = [line for line in alone.log.splitlines() if ' WARNING ' in line]
    assert any('[placement]' in line for line in warnings), alone.log
    with pytest.raises(PeerError) as raised:
        alone.select()
    assert raised.value.name == 'NoValidHost'
    assert raised.value.text == 'No valid host was found. '
