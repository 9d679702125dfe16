# SPDX-License-Identifier: Apache-2.0
"""The credentials of [service_user]."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.network import service_user
from novasched.network.client import NetworkClient
from tests.unit.network.conftest import URL

SEND = 'send_service_user_token = true\n'
CREDENTIALS = f'auth_type = admin_token\nendpoint = {URL}\ntoken = service\n'


@pytest.fixture
def conf(read_conf):
    """Return a function from the text of [service_user] to a configuration."""
    return lambda text='': read_conf(f'[service_user]\n{text}\n')


@pytest.mark.parametrize(
    ('text', 'warnings'),
    [
        pytest.param('', 0, id='not asked for'),
        pytest.param(CREDENTIALS, 0, id='only credentials'),
        pytest.param(SEND, 1, id='no credentials'),
    ],
)
def test_no_token_is_sent(conf, caplog, text, warnings):
    assert service_user.from_conf(conf(text)) is None
    said = [r for r in caplog.records if r.name.startswith('novasched')]
    assert len(said) == warnings


def test_a_token_is_sent(conf):
    assert service_user.from_conf(conf(SEND + CREDENTIALS)).token == 'service'
    client = NetworkClient.from_conf(conf(SEND + CREDENTIALS))
    client.close()


def test_credentials_that_make_no_sense_end_the_start(conf):
    with pytest.raises(errors.OptionError, match='service_user'):
        service_user.from_conf(conf(f'{SEND}auth_type = nonsense'))
