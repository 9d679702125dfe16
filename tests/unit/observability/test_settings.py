# SPDX-License-Identifier: Apache-2.0
"""Addresses are read as operators write them; what is none is named."""

import pytest

from novasched import errors
from novasched.observability.settings import Address, parse
from tests.support.tables.cases import cases


@pytest.mark.parametrize(
    ('text', 'expected'),
    [
        pytest.param('', (), id='none'),
        pytest.param('tcp://localhost:9090', (Address('localhost', 9090),), id='port'),
        pytest.param('tcp://[::1]:9090', (Address('::1', 9090),), id='IPv6'),
        pytest.param('unix:///run/a_b-c.sock', (Address(path='/run/a_b-c.sock'),)),
        pytest.param(
            'tcp://10.0.0.1:1, unix:///run/x',
            (Address('10.0.0.1', 1), Address(path='/run/x')),
            id='several',
        ),
    ],
)
def test_addresses_are_read_and_written_alike(text, expected):
    found = parse('[healthcheck] uri', text)
    assert found == expected
    assert ', '.join(map(str, found)) == text


@cases(
    'text, said',
    ('no scheme', 'localhost:80', "'localhost:80' is no address"),
    ('relative', 'unix://run/x', "'unix://run/x' is no address"),
    ('no port', 'tcp://localhost', "'tcp://localhost' is no address"),
    ('no label', 'tcp://a..b:80', "'tcp://a..b:80' is no address"),
    ('a long label', f'tcp://{"x" * 64}:80', "x:80' is no address"),
    ('a high port', 'tcp://localhost:70000', 'no port 70000'),
    ('a long path', f'unix:///{"x" * 120}', 'too long'),
)
def test_invalid_address_is_named_with_its_option(text, said):
    with pytest.raises(errors.OptionError) as raised:
        parse('[healthcheck] uri', text)
    assert said in str(raised.value)
    assert '[healthcheck] uri' in str(raised.value)
