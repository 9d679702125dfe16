# SPDX-License-Identifier: Apache-2.0
"""The upgrade check tries the account that the copy of placement is read with."""

import io
import json

import pytest
import sqlalchemy as sa

from novasched.cmd.status import COMMANDS
from novasched.manage.status import Status
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

PASSWORD = 'reader-secret'
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
