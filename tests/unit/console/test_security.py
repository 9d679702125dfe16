# SPDX-License-Identifier: Apache-2.0
"""Clients that are answered without authentication."""

from novasched.console.security import Guard
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address
from tests.support.tables.cases import cases


@cases(
    'client, has_keystone, status',
    ('of this machine', '127.0.0.1', False, '200 OK'),
    ('of this machine, by IPv6', '::1', False, '200 OK'),
    ('by a local socket', '', False, '200 OK'),
    ('of another machine', '192.0.2.7', False, '403 Forbidden'),
    ('of another, by IPv6', '2001:db8::7', False, '403 Forbidden'),
    ('of another, with keystone', '192.0.2.7', True, '200 OK'),
)
def test_without_keystone_only_clients_of_this_machine_are_answered(
    client, has_keystone, status
):
    def shown(environ, start_response):
        start_response('200 OK', [])
        return [b'page']

    settings = ConsoleSettings(
        listen=Address('127.0.0.1', 9109), has_keystone=has_keystone
    )
    said = []
    environ = {
        'REQUEST_METHOD': 'GET',
        'PATH_INFO': '/',
        'HTTP_HOST': 'localhost:9109',
        'REMOTE_ADDR': client,
    }
    Guard(shown, settings)(environ, lambda line, headers, *more: said.append(line))
    assert said == [status]
