# SPDX-License-Identifier: Apache-2.0
"""Warnings of the console at its start."""

import pytest

from novasched.console import program
from novasched.console.settings import ConsoleSettings
from novasched.observability.settings import Address

TCP, UNIX = Address('192.0.2.7', 9109), Address(path='/run/console.sock')


@pytest.mark.parametrize(
    ('listen', 'options', 'is_warned'),
    [
        (TCP, {'has_keystone': True}, True),
        (TCP, {'has_keystone': True, 'tls_certificate': 'a.pem'}, False),
        (UNIX, {'has_keystone': True}, False),
        (TCP, {}, False),
    ],
)
def test_keystone_without_tls_is_warned_of(caplog, listen, options, is_warned):
    program.warn_of_plain_http(ConsoleSettings(listen=listen, **options))
    assert ('tls_certificate' in caplog.text) == is_warned
