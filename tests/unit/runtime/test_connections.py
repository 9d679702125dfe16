# SPDX-License-Identifier: Apache-2.0
"""Exceptions of libraries become a few words, which name what was looked for."""

import contextlib
import socket
import ssl

import amqp
import psycopg2
import pymysql
import pytest
import sqlalchemy as sa
from keystoneauth1 import adapter as ksa_adapter
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import noauth, session

from novasched import errors, http
from novasched.db import transactions
from novasched.runtime import connections
from tests.live.servers.process import free_port

NO_NAME = 'no-such-host.invalid'


@contextlib.contextmanager
def silent_port():
    """A port that takes connections and answers nothing."""
    with socket.create_server(('127.0.0.1', 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture(scope='module')
def places():
    with silent_port() as silent:
        yield {
            'closed': f'127.0.0.1:{free_port()}',
            'silent': f'127.0.0.1:{silent}',
            'no name': NO_NAME,
        }


WORDS = {
    'closed': 'connection refused',
    'silent': 'no answer in time',
    'no name': 'its name does not resolve',
}


@pytest.mark.parametrize('place', WORDS)
def test_a_service_that_cannot_be_reached(places, place):
    url = f'http://{places[place]}'
    adapter = ksa_adapter.Adapter(
        session.Session(noauth.NoAuth(), timeout=0.2),
        endpoint_override=url,
        service_type='placement',
    )
    with pytest.raises(ksa.ClientException) as raised:
        adapter.get('/resource_providers?in_tree=x')
    said = http.failure_words(adapter, 'placement', raised.value)
    assert said == f'placement at {url}/ cannot be reached: {WORDS[place]}'


@pytest.mark.parametrize('place', WORDS)
@pytest.mark.parametrize(
    'url',
    ['mysql+pymysql://u:secret@{}/nova', 'postgresql+psycopg2://u:secret@{}/nova'],
)
def test_a_database_that_cannot_be_reached(places, url, place):
    limits = {'connect_timeout': 2}  # psycopg2 waits for no less
    if url.startswith('mysql'):
        limits = {'connect_timeout': 1, 'read_timeout': 1}
    engine = sa.create_engine(url.format(places[place]), connect_args=limits)
    database = transactions.Database(engine, 'The API database')
    with pytest.raises(errors.StoreFailed) as raised, database.read():
        pass
    said = f'{places[place]} cannot be reached: {WORDS[place]}'
    if limits.get('read_timeout') and place == 'silent':  # there was a connection
        said = WORDS[place]
    assert str(raised.value) == f'The API database could not be asked: {said}'


AT = 'connection to server at "127.0.0.1", port 5432 failed: FATAL:  '
ANSWERS = {
    'access denied for user nova': [
        pymysql.err.OperationalError(
            1045, "Access denied for user 'nova'@'localhost' (using password: YES)"
        ),
        pymysql.err.OperationalError(
            1044, "Access denied for user 'nova'@'%' to database 'nova_api'"
        ),
        psycopg2.OperationalError(
            f'{AT}password authentication failed for user "nova"\n'
        ),
        psycopg2.OperationalError(f'{AT}role "nova" does not exist\n'),
        psycopg2.OperationalError(
            f'{AT}no pg_hba.conf entry for host "192.0.2.1", user "nova", database "d"'
        ),
    ],
    'unknown database nova_api': [
        pymysql.err.OperationalError(1049, "Unknown database 'nova_api'"),
        psycopg2.OperationalError(f'{AT}database "nova_api" does not exist\n'),
    ],
    'no answer in time': [
        pymysql.err.OperationalError(
            2013, 'Lost connection to MySQL server during query (timed out)'
        )
    ],
    'connection closed by the server': [
        psycopg2.OperationalError('server closed the connection unexpectedly\n\tThis')
    ],
    "Table 'nova.cells' doesn't exist (error 1146)": [
        pymysql.err.ProgrammingError(1146, "Table 'nova.cells' doesn't exist")
    ],
}


@pytest.mark.parametrize(
    ('problem', 'words'),
    [
        pytest.param(each, words, id=str(each.args[0])[-40:])
        for words, problems in ANSWERS.items()
        for each in problems
    ],
)
def test_answers_of_database_servers_become_a_few_words(problem, words):
    assert transactions.describe(problem) == words


def certificate():
    problem = ssl.SSLCertVerificationError(1, 'CERTIFICATE_VERIFY_FAILED')
    problem.verify_message = 'self-signed certificate'
    return problem


@pytest.mark.parametrize(
    ('problem', 'words'),
    [
        pytest.param(
            certificate(),
            'its certificate cannot be verified: self-signed certificate',
            id='a certificate',
        ),
        pytest.param(
            amqp.AccessRefused(
                '(0, 0): (403) ACCESS_REFUSED - Login was refused using '
                'authentication mechanism PLAIN.'
            ),
            'access denied',
            id='a broker and its user',
        ),
        pytest.param(
            amqp.NotAllowed('NOT_ALLOWED - vhost /nova not found'),
            'unknown virtual host /nova',
            id='a broker and its virtual host',
        ),
        pytest.param(OSError('no socket'), 'no socket', id='no other words'),
        pytest.param(ConnectionError(), 'ConnectionError', id='no words'),
    ],
)
def test_the_words_of_what_failed(problem, words):
    assert connections.reason(problem) == words
