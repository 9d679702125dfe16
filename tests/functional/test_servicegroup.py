# SPDX-License-Identifier: Apache-2.0
"""Heartbeats in a memcached, as nova's driver ``mc`` (34.0) leaves them there."""

import base64
import datetime
import hashlib
import pickle

import pytest

from novasched.external.servicegroup import Beats
from novasched.runtime.clock import SystemClock
from tests.functional.conftest import Host, new_uuids
from tests.support.clouds.configuration import make_conf
from tests.support.databases.memcached import Memcached

# What the peer wrote for the key compute:cmp-1, by backend.
SAMPLES = {
    'oslo_cache.memcache_pool': (
        'Y2NvcHlfcmVnCl9yZWNvbnN0cnVjdG9yCnAwCihjZG9ncGlsZS5jYWNoZS5hcGkKQ2FjaGVkVmFs'
        'dWUKcDEKY19fYnVpbHRpbl9fCnR1cGxlCnAyCihjZGF0ZXRpbWUKZGF0ZXRpbWUKcDMKKGNfY29k'
        'ZWNzCmVuY29kZQpwNAooVgfqCxYBKg4JY1x1MDAwYQpwNQpWbGF0aW4xCnA2CnRwNwpScDgKdHA5'
        'ClJwMTAKKGRwMTEKVmN0CnAxMgpGMTc5NTMxMTczNC42MTUyMTg5CnNWdgpwMTMKSTIKc3RwMTQK'
        'dHAxNQpScDE2Ci4=',
        datetime.datetime(2026, 11, 22, 1, 42, 14, 615178),  # noqa: DTZ001
    ),
    'dogpile.cache.pymemcache': (
        'gAWVagAAAAAAAACMEWRvZ3BpbGUuY2FjaGUuYXBplIwLQ2FjaGVkVmFsdWWUk5SMCGRhdGV0aW1l'
        'lIwIZGF0ZXRpbWWUk5RDCgfqCxYBKiAMUDeUhZRSlH2UKIwCY3SUR0HawJIiM6YyjAF2lEsCdYaU'
        'gZQu',
        datetime.datetime(2026, 11, 22, 1, 42, 32, 806967),  # noqa: DTZ001
    ),
}
PICKLED = 1
LONG_S = 60.0
"""A busy machine may need longer than a request waits."""


def name(key):
    """The key as it is on the wire."""
    return hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()


def disconnect(beats):
    beats._region.actual_backend.client.disconnect_all()


@pytest.fixture
def memcached():
    server = Memcached()
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=list(SAMPLES))
def backend(request):
    return request.param


@pytest.fixture
def beats(memcached, backend):
    conf = make_conf()
    conf.set_override('enabled', True, 'cache')
    conf.set_override('backend', backend, 'cache')
    conf.set_override('memcache_servers', [memcached.address], 'cache')
    made = Beats.from_conf(conf, SystemClock())
    made._within_s = LONG_S
    yield made
    # Each thread may have a connection of its own.
    made._executor.submit(lambda: disconnect(made)).result()
    disconnect(made)


def test_a_beat_of_nova_is_read(beats, memcached, backend):
    text, beaten = SAMPLES[backend]
    memcached.values[name('compute:cmp-1')] = (PICKLED, base64.b64decode(text))
    found = beats.latest(['compute:cmp-1', 'compute:cmp-2'])
    assert dict(found) == {'compute:cmp-1': beaten}


def test_a_beat_of_ours_is_what_nova_reads(beats, memcached):
    before = beats._clock.utcnow()
    beats.put('scheduler:us')
    (found,) = memcached.values
    assert found == name('scheduler:us')
    flags, text = memcached.values[found]
    beaten, metadata = pickle.loads(text)
    assert flags == PICKLED
    assert before <= beaten <= beats._clock.utcnow()
    assert beaten.tzinfo is None
    seconds = beaten.replace(tzinfo=datetime.UTC).timestamp()
    assert metadata['ct'] == pytest.approx(seconds, abs=5)


def test_hosts_whose_computes_beat_in_memcached_are_used(cloud, memcached):
    made = cloud([Host('one'), Host('two'), Host('three')])
    for group, name, value in (
        (None, 'servicegroup_driver', 'mc'),
        ('cache', 'enabled', True),
        ('cache', 'backend', 'oslo_cache.memcache_pool'),
        ('cache', 'memcache_servers', [memcached.address]),
    ):
        made.conf.set_override(name, value, group)
    beats = Beats.from_conf(made.conf, SystemClock())
    beats.put('compute:two')
    scheduler = made.compose()
    heartbeats = scheduler.view._nodes._heartbeats
    heartbeats._within_s = LONG_S
    assert made.ask(scheduler, new_uuids()) == [['two']]
    assert made.decisions[-1].cells_left_out == ()
    for each in (beats, heartbeats):
        disconnect(each)
