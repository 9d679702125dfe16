# SPDX-License-Identifier: Apache-2.0
"""The driver is chosen by options, and what it needs is looked at."""

import pytest

from novasched import errors
from novasched.external import servicegroup
from novasched.external.servicegroup import Beats, MemcachedServices
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.tables.cases import cases

POOL = {'enabled': True, 'backend': 'oslo_cache.memcache_pool'}


@pytest.fixture
def configured():
    """Make a configuration of a driver and of [cache]."""

    def make(driver, **cache):
        conf = make_conf()
        conf.set_override('servicegroup_driver', driver)
        for name, value in cache.items():
            conf.set_override(name, value, 'cache')
        return conf

    return make


def test_by_the_database_nothing_is_in_between(configured):
    conf, services = configured('db'), object()
    servicegroup.check(conf)
    assert servicegroup.heartbeats(conf, FakeClock()) is None
    assert servicegroup.services(conf, services, FakeClock()) is services


def test_by_memcached_it_stands_in_between(configured):
    conf, clock = configured('mc', **POOL), FakeClock()
    servicegroup.check(conf)
    assert isinstance(servicegroup.heartbeats(conf, clock), Beats)
    assert isinstance(servicegroup.services(conf, object(), clock), MemcachedServices)
    assert servicegroup.services(conf, None, clock) is None


@cases(
    'cache, option, says',
    ('no cache', {}, '[cache] enabled', 'needs a cache'),
    ('a null cache', {'enabled': True}, '[cache] backend', 'shares nothing'),
    (
        'dogpile.cache.pylibmc',
        {'enabled': True, 'backend': 'dogpile.cache.pylibmc'},
        '[cache] backend',
        'pylibmc cannot be used',
    ),
    (
        'options that contradict each other',
        {**POOL, 'expiration_time': 9, 'backend_expiration_time': 1},
        '[cache] backend',
        'backend_expiration_time should not be smaller',
    ),
    (
        'no file of authorities',
        {**POOL, 'tls_enabled': True, 'tls_cafile': '/none.pem'},
        '[cache] tls_cafile',
        'no such file or directory',
    ),
)
def test_unusable_cache_option_is_named(configured, cache, option, says):
    with pytest.raises(errors.OptionError, match=says) as failed:
        servicegroup.check(configured('mc', **cache))
    assert failed.value.option == option
