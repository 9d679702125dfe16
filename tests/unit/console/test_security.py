# SPDX-License-Identifier: Apache-2.0
"""Clients that are answered without authentication."""

from __future__ import annotations

import pytest

from novasched.console.security import Guard
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address


@pytest.mark.parametrize(
    ('client', 'has_keystone', 'status'),
    [
        pytest.param('127.0.0.1', False, '200 OK', id='of this machine'),
        pytest.param('::1', False, '200 OK', id='of this machine, by IPv6'),
        pytest.param('', False, '200 OK', id='by a local socket'),
        pytest.param('192.0.2.7', False, '403 Forbidden', id='of another machine'),
        pytest.param('2001:db8::7', False, '403 Forbidden', id='of another, by IPv6'),
        pytest.param('192.0.2.7', True, '200 OK', id='of another, with keystone'),
    ],
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
