# SPDX-License-Identifier: Apache-2.0
"""Service group drivers: heartbeats by the database, or by memcached.

By the database is what everything else here knows. Where it is memcached, a beat
found there takes the place of the heartbeat in the row of its service.
"""

from __future__ import annotations

from typing import Any

from novasched import errors
from novasched.clock import Clock
from novasched.cluster.discovery import ServiceDirectory
from novasched.ports import Heartbeats
from novasched.servicegroup.memcached import Beats, MemcachedServices

NOBODY_ELSE_READS = frozenset(
    {'dogpile.cache.null', 'dogpile.cache.memory', 'oslo_cache.dict'}
)


def check(conf: Any) -> None:
    """Find out whether the driver can be used. Raises errors.OptionError."""
    if conf.servicegroup_driver == 'db':
        return
    if not conf.cache.enabled:
        raise errors.OptionError(
            '[cache] enabled',
            'servicegroup_driver = mc needs a cache',
            'Set it to true, and name the backend and the servers in [cache]',
        )
    if conf.cache.backend in NOBODY_ELSE_READS:
        raise errors.OptionError(
            '[cache] backend',
            f'{conf.cache.backend} shares nothing with other processes',
            'Choose the one that all services of the cloud use, such as '
            'oslo_cache.memcache_pool',
        )
    Beats.region_from_conf(conf)


def heartbeats(conf: Any, clock: Clock) -> Heartbeats | None:
    """Return the heartbeats of computes; None: they are in the rows of services."""
    if conf.servicegroup_driver == 'db':
        return None
    return Beats.from_conf(conf, clock)


def services(
    conf: Any, database: ServiceDirectory | None, clock: Clock
) -> ServiceDirectory | None:
    """Return the services rows of schedulers with the heartbeats that count."""
    if conf.servicegroup_driver == 'db' or database is None:
        return database
    return MemcachedServices(database, Beats.from_conf(conf, clock))
