# SPDX-License-Identifier: Apache-2.0
"""The upgrade check tries accounts: that which reads the copy of placement, and those
of a shadow."""

import io
import json

import pytest
import sqlalchemy as sa

from novasched.cmd.status import COMMANDS
from novasched.manage.status import Status
from tests.live.servers.rabbitmq import vhost_of
from tests.live.shadow_accounts import PASSWORD, at_broker, at_database, run_command
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

TABLES = (
    'resource_providers',
    'inventories',
    'allocations',
    'resource_provider_traits',
    'resource_provider_aggregates',
    'resource_classes',
    'traits',
)


@pytest.fixture
def urls(placement, cloud):
    """What [placement_database] connection may say, by what is the matter with it."""
    url = sa.make_url(placement.database_url)
    engine = sa.create_engine(url, isolation_level='AUTOCOMMIT')
    with engine.connect() as connection:
        for name in ('whole', 'partly'):
            connection.exec_driver_sql(
                f"CREATE OR REPLACE USER {name} IDENTIFIED BY '{PASSWORD}'"
            )
        connection.exec_driver_sql(f'GRANT SELECT ON {url.database}.* TO whole')
        for table in TABLES:
            connection.exec_driver_sql(
                f'GRANT SELECT ON {url.database}.{table} TO partly'
            )
    engine.dispose()
    made = {
        name: url.set(username=name, password=PASSWORD)
        for name in ('whole', 'partly', 'nobody')
    }
    made['API database'] = sa.make_url(cloud.urls['api'])
    return {
        name: each.render_as_string(hide_password=False) for name, each in made.items()
    }


@cases(
    'account, says',
    ('one that may read all', 'whole', None),
    ('one that there is not', 'nobody', 'access denied for user nobody'),
    ('one that lacks a table', 'partly', "command denied to user 'partly'"),
    ('another database', 'API database', 'database of placement'),
)
def test_the_account_of_the_copy_is_tried(cloud, tmp_path, urls, account, says):
    conf = cloud.write_conf(
        tmp_path / 'nova.conf',
        placement_database={'connection': urls[account]},
        novasched={'candidates': 'mirror'},
    )
    out = io.StringIO()
    program = Status(COMMANDS, stdout=out)
    code = program.run(['--config-file', str(conf), 'upgrade', 'check', '--json'])
    assert PASSWORD not in out.getvalue()
    checks = {each['check']: each for each in json.loads(out.getvalue())['checks']}
    found = checks['Placement database']
    assert (code, found['result']) == ((2, 2) if says else (0, 0)), out.getvalue()
    if says:
        assert found['details'].startswith('[placement_database] connection: ')
        assert says in found['details']


# -- with --shadow

LEAST = {'Message queue', 'Accounts of databases'}
"""Checks that warn of accounts of nova, which may do more than a shadow needs."""


class ShadowCheck:
    """Runs `upgrade check --shadow`, and the commands that it prints."""

    def __init__(self, cloud, rabbitmq, mariadb, directory):
        self._cloud = cloud
        self._rabbitmq = rabbitmq
        self._mariadb = mariadb
        self._dir = directory
        self.url = rabbitmq.create_vhost()
        self.databases = dict(cloud.urls)

    def declare(self, *exchanges):
        """Declare exchanges as nova-scheduler does."""
        with self._rabbitmq.connect(vhost_of(self.url)) as connection:
            for name, kind in exchanges:
                channel = connection.channel()
                channel.exchange_declare(name, kind, auto_delete=False)

    def run(self, **sections):
        """Return the exit code, and the checks by name."""
        conf = self._cloud.write_conf(
            self._dir / 'shadow.conf',
            transport_url=self.url,
            api_database={'connection': self.databases['api']},
            database={'connection': self.databases['cell0']},
            placement_database={'connection': self.databases['placement']},
            novasched={'decisions_dir': self._dir / 'own', 'shadow': True},
            **sections,
        )
        out = io.StringIO()
        program = Status(COMMANDS, stdout=out)
        code = program.run(['--config-file', str(conf), 'upgrade', 'check', '--json'])
        assert PASSWORD not in out.getvalue()
        found = json.loads(out.getvalue())['checks']
        return code, {each['check']: each for each in found}

    def do(self, *commands):
        """Run commands that mend."""
        for command in commands:
            run_command(command, self._rabbitmq, self._mariadb)

    def use(self, broker, database):
        """Use these accounts from now on."""
        self.url = at_broker(self.url, broker)
        self.databases = {
            name: at_database(url, database) for name, url in self.databases.items()
        }


@pytest.fixture
def shadow(cloud, placement, rabbitmq, mariadb, tmp_path):
    """A check on a cloud whose mappings of cells have templates."""
    made = ShadowCheck(cloud, rabbitmq, mariadb, tmp_path)
    made.databases['placement'] = placement.database_url
    before = cloud.rows('api', 'cell_mappings')
    for row in before:
        url = sa.make_url(row['database_connection'])
        template = '{scheme}://{username}:{password}@{hostname}:{port}/' + url.database
        values = {'database_connection': f'{template}?{{query}}'}
        cloud.update('api', 'cell_mappings', values, id=row['id'])
    yield made
    for row in before:
        values = {'database_connection': row['database_connection']}
        cloud.update('api', 'cell_mappings', values, id=row['id'])


NOVAS = (('nova', 'topic'), ('scheduler_fanout', 'fanout'))


def test_commands_of_the_check_make_accounts_that_a_shadow_needs(shadow):
    """Nova's own accounts are warned of; with those of the commands all is well."""
    shadow.declare(*NOVAS)
    code, checks = shadow.run()
    warned = {name for name, each in checks.items() if each['result'] == 1}
    assert (code, warned) == (1, LEAST), checks
    assert 'live may write, such as to ' in checks['Accounts of databases']['details']
    assert 'live may also read other queues, ' in checks['Message queue']['details']
    commands = [command for name in LEAST for command in checks[name]['commands']]
    shadow.do(*commands)
    shadow.use(broker='novasched_shadow', database='novasched_read')
    code, checks = shadow.run()
    assert code == 0, checks
    assert {name for name, each in checks.items() if 'commands' in each} == set()


def test_missing_privileges_are_named_and_granted(shadow):
    shadow.declare(*NOVAS)
    names = {name: sa.make_url(url).database for name, url in shadow.databases.items()}
    api = names.pop('api')
    some = [f'{api}.{table}' for table in ('cell_mappings', 'host_mappings')]
    shadow.do(
        "CREATE USER 'poor'@'%' IDENTIFIED BY '...'",
        *(f"GRANT SELECT ON {table} TO 'poor'@'%'" for table in some),
        *(f"GRANT SELECT ON {name}.* TO 'poor'@'%'" for name in names.values()),
        'rabbitmqctl add_user mute PASSWORD',
        f"rabbitmqctl set_permissions -p {vhost_of(shadow.url)} mute '' '' ''",
    )
    shadow.use(broker='mute', database='poor')
    code, checks = shadow.run()
    assert code == 2
    accounts, queue = checks['Accounts of databases'], checks['Message queue']
    assert (accounts['result'], queue['result']) == (2, 2)
    assert 'it may not read aggregate_hosts, ' in accounts['details']
    assert queue['details'].startswith('mute cannot tap: AccessRefused: ')
    shadow.do(*accounts['commands'], *queue['commands'])
    code, checks = shadow.run()
    assert code == 0, checks


def test_exchange_that_is_not_there_yet_is_a_warning(shadow):
    code, checks = shadow.run()
    queue = checks['Message queue']
    assert (code, queue['result']) == (1, 1)
    assert "no exchange 'nova'" in queue['details']
