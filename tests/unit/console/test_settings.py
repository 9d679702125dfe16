# SPDX-License-Identifier: Apache-2.0
"""Options of the console: who may look from where."""

import pytest

from novasched import errors
from novasched.console import settings
from novasched.console.settings import ConsoleSettings
from tests.support.clouds.configuration import make_conf

ELSEWHERE = (
    'tcp://0.0.0.0:9109',
    'tcp://[::]:9109',
    'tcp://192.0.2.7:9109',
    'tcp://console.test:9109',
)


def read(listen=None, **options):
    return ConsoleSettings.from_conf(make_conf(novasched_console=options), listen)


def test_a_unix_socket_is_the_default():
    assert str(read().listen) == settings.DEFAULT_SOCKET
    assert not read().has_keystone


@pytest.mark.parametrize(
    'listen',
    ['tcp://127.0.0.1:9109', 'tcp://[::1]:80', 'tcp://localhost:0', 'unix:///run/c'],
)
def test_local_address_needs_no_login(listen):
    assert str(read(listen).listen) == listen


@pytest.mark.parametrize('listen', ELSEWHERE)
def test_elsewhere_is_refused_without_keystone(listen):
    with pytest.raises(errors.OptionError) as found:
        read(listen)
    assert found.value.option == '[novasched_console] listen'
    assert listen in str(found.value)
    for way in ('auth_strategy = keystone', settings.DEFAULT_SOCKET, settings.LOOPBACK):
        assert way in found.value.remedy


@pytest.mark.parametrize('listen', ELSEWHERE)
def test_elsewhere_with_keystone(listen):
    made = read(listen, auth_strategy='keystone')
    assert made.has_keystone
    assert str(made.listen) == listen


def test_argument_overrides_the_option():
    conf = make_conf(novasched_console={'listen': ELSEWHERE[0]})
    assert str(ConsoleSettings.from_conf(conf, 'unix:///a').listen) == 'unix:///a'
    with pytest.raises(errors.OptionError, match=r'0\.0\.0\.0'):
        ConsoleSettings.from_conf(conf)


@pytest.mark.parametrize('listen', ['nonsense', 'unix:///a,unix:///b', 'tcp://h', ','])
def test_listen_takes_one_address_only(listen):
    with pytest.raises(errors.OptionError, match='listen'):
        read(listen)


def test_names_are_compared_without_brackets_and_case():
    made = read(allowed_hosts=['[::1]', ' Console.Test '])
    assert made.allowed_hosts == {'::1', 'console.test'}
