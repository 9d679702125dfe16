# SPDX-License-Identifier: Apache-2.0
"""Privileges of database accounts are found out without writing anything."""

import pytest
import sqlalchemy as sa

from novasched.db.privileges import privileges
from novasched.db.transactions import Database
from tests.support.tables.cases import cases

pytestmark = pytest.mark.ours

SECRET = 'account-secret'
TABLES = ('first', 'second')
GRANTED = {
    'reader': {'first': 'SELECT', 'second': 'SELECT'},
    'updater': {'first': 'SELECT', 'second': 'SELECT, UPDATE'},
    'partial': {'second': 'SELECT'},
}
CREATE = {
    'mysql': "CREATE USER {} IDENTIFIED BY '{}'",
    'postgresql': "CREATE ROLE {} LOGIN PASSWORD '{}'",
}


@pytest.fixture(scope='module')
def open_as(request):
    """Open a database by an account: `open_as(server, name)`."""
    urls, engines = {}, []

    def database(url):
        engines.append(sa.create_engine(url))
        return Database(engines[-1])

    def make(server):
        url = sa.make_url(request.getfixturevalue(server).create_database('granted'))
        with database(url).write() as connection:
            for table in TABLES:
                sql = f'CREATE TABLE {table} (id INT, created_at INT)'
                connection.exec_driver_sql(sql)
                connection.exec_driver_sql(f'INSERT INTO {table} VALUES (1, 1)')
            for name, granted in GRANTED.items():
                account = f'{server}_{name}'
                create = CREATE[url.get_backend_name()].format(account, SECRET)
                connection.exec_driver_sql(create)
                for table, words in granted.items():
                    grant = f'GRANT {words} ON {table} TO {account}'
                    connection.exec_driver_sql(grant)
        urls[server] = url

    def opened(server, name):
        if server not in urls:
            make(server)
        if name == 'owner':
            return database(urls[server])
        account = {'username': f'{server}_{name}', 'password': SECRET}
        return database(urls[server].set(**account))

    yield opened
    for each in engines:
        each.dispose()


@pytest.mark.parametrize('server', ['mariadb', 'postgres'])
@cases(
    'account, unreadable, writable',
    ('reader', 'reader', [], None),
    ('updater', 'updater', [], 'second'),
    ('partial', 'partial', ['first'], None),
    ('owner', 'owner', [], 'first'),
)
def test_privileges_of_an_account_are_found(
    open_as, server, account, unreadable, writable
):
    found = privileges(open_as(server, account), TABLES)
    assert (sorted(found.unreadable), found.writable) == (unreadable, writable)
    assert all('denied' in why for why in found.unreadable.values())
    with open_as(server, 'owner').read() as connection:
        for table in TABLES:
            assert connection.exec_driver_sql(f'SELECT * FROM {table}').all() == [
                (1, 1)
            ]
