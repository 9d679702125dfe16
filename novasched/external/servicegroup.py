# SPDX-License-Identifier: Apache-2.0
"""Service group drivers: heartbeats by the database, or by memcached.

By the database is what everything else here knows. Where it is memcached, a beat
found there takes the place of the heartbeat in the row of its service. Nova's driver
``mc`` writes its time to the key ``<topic>:<host>``, which never expires at the server:
the reader judges how old it is.
"""

from __future__ import annotations

import concurrent.futures
import datetime
import logging
import socket
import threading
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import oslo_cache
from oslo_cache import _opts as cache
from oslo_config import cfg
from oslo_utils import netutils

from novasched import errors
from novasched.cluster.discovery import ServiceDirectory
from novasched.ports import ServiceRow
from novasched.runtime import connections
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.executor import BulkheadExecutor
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    str(group): list(options) for group, options in cache.list_opts()
}
"""Options of oslo.cache, which ``servicegroup_driver = mc`` needs."""

LOOK_S = 1.0
"""How long what was found counts: a beat holds for much longer."""

NEVER = datetime.datetime(1970, 1, 1)  # noqa: DTZ001

REACH_S = 5.0
"""How long a check waits for a server of memcached."""

WAIT_S = 0.5
"""How long a request waits for memcached; then what was found before counts."""


LOCAL_BACKENDS = frozenset(
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
    if conf.cache.backend in LOCAL_BACKENDS:
        raise errors.OptionError(
            '[cache] backend',
            f'{conf.cache.backend} shares nothing with other processes',
            'Choose the one that all services of the cloud use, such as '
            'oslo_cache.memcache_pool',
        )
    if conf.cache.tls_enabled:
        connections.check_authorities('[cache] tls_cafile', conf.cache.tls_cafile)
        connections.check_certificate(
            '[cache] tls_certfile',
            conf.cache.tls_certfile,
            '[cache] tls_keyfile',
            conf.cache.tls_keyfile,
        )
    Beats.region_from_conf(conf)


def reach(conf: Any) -> None:
    """Connect to each server of memcached, if heartbeats are there.

    Raises errors.OptionError that names those that do not answer.
    """
    if conf.servicegroup_driver == 'db' or 'memcache' not in conf.cache.backend:
        return
    silent = []
    for server in conf.cache.memcache_servers:
        host, port = netutils.parse_host_port(server.removeprefix('inet6:'), 11211)
        try:
            socket.create_connection((host, port), REACH_S).close()
        except OSError as problem:
            silent.append(f'{server}: {connections.reason(problem)}')
    if silent:
        raise errors.OptionError(
            '[cache] memcache_servers',
            f'no answer: {"; ".join(silent)}',
            'Name the servers that the computes write their heartbeats to',
        )


def heartbeats(conf: Any, clock: Clock) -> Beats | None:
    """Return the heartbeats of computes; None if they are in the rows of services."""
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


class Beats:
    """What is known of heartbeats. Satisfies ports.Heartbeats.

    A beat that was seen counts while it is young enough, even if its key is gone:
    memcached forgets, and its servers come and go. ``region`` is one of dogpile.cache.
    """

    def __init__(self, region: Any, clock: Clock, within_s: float = WAIT_S) -> None:
        self._region = region
        self._within_s = within_s
        self._clock = clock
        self._executor = BulkheadExecutor('memcached', 1)
        weakref.finalize(self, self._executor.close)
        self._lock = threading.Lock()
        self._look: concurrent.futures.Future[None] | None = None
        self._seen: dict[str, datetime.datetime] = {}
        self._asked_s: dict[str, float] = {}
        self._failing = LogOnce()

    @classmethod
    def from_conf(cls, conf: Any, clock: Clock) -> Self:
        """Read the options. Raises errors.OptionError."""
        return cls(cls.region_from_conf(conf), clock)

    @staticmethod
    def region_from_conf(conf: Any) -> Any:
        """Make what [cache] describes; it connects when it is first used.

        Raises errors.OptionError.
        """
        oslo_cache.configure(conf)
        region = oslo_cache.create_region()
        try:
            region = oslo_cache.configure_cache_region(conf, region)
            _ = region.actual_backend
        except Exception as problem:  # a backend is a plugin
            raise errors.OptionError(
                '[cache] backend',
                f'{conf.cache.backend} cannot be used: {problem}',
                'Correct the options of [cache], and install the client library',
            ) from problem
        return region

    def dated(self, rows: Iterable[ServiceRow]) -> list[ServiceRow]:
        """Return the rows, ``last_seen_up`` the newest beat seen in memcached.

        A beat ahead of our clock counts as a beat at this moment, as in nova.
        """
        rows = list(rows)
        found = self.latest([_key(row) for row in rows])
        now = self._clock.utcnow()
        return [
            row._replace(last_seen_up=min(found.get(_key(row), NEVER), now))
            for row in rows
        ]

    def latest(self, keys: Collection[str]) -> Mapping[str, datetime.datetime]:
        """Return the newest beat seen of these keys, and maybe of others.

        Each is looked up once in ``LOOK_S`` at most. If that takes longer than
        ``within_s``, return what was known before.
        """
        deadline = SYSTEM_CLOCK.monotonic() + self._within_s
        looks = False
        while not looks and (due := self._due(keys)):
            with self._lock:
                # Who waits for the look of another cell has one of his own after it.
                looks = self._look is None or self._look.done()
                if looks or self._look is None:
                    self._look = self._executor.submit(lambda: self._look_up(due))
                waiting = self._look
            left_s = max(0.0, deadline - SYSTEM_CLOCK.monotonic())
            if not concurrent.futures.wait([waiting], left_s).done:
                break
        return self._seen

    def _due(self, keys: Collection[str]) -> list[str]:
        soonest = self._clock.monotonic() - LOOK_S
        return [key for key in keys if self._asked_s.get(key, soonest) <= soonest]

    def _look_up(self, keys: Sequence[str]) -> None:
        asked_s = self._clock.monotonic()
        try:
            found = self._region.get_multi(keys, ignore_expiration=True)
        except Exception as problem:  # noqa: BLE001 a backend is a plugin
            if self._failing.begins():
                LOG.error('Heartbeats cannot be read from memcached: %s', problem)
            return
        if self._failing.ends():
            LOG.info('Heartbeats can be read from memcached again.')
        for key, value in zip(keys, found, strict=True):
            self._asked_s[key] = asked_s
            if isinstance(value, datetime.datetime):
                self._seen[key] = value.replace(tzinfo=None)

    def put(self, key: str) -> None:
        """Write a heartbeat with the present time, and make sure that it is there.

        Raises errors.StoreFailed.
        """
        now = self._clock.utcnow()
        try:
            self._region.set(key, now)
            (found,) = self._region.get_multi([key], ignore_expiration=True)
        except Exception as problem:  # a backend is a plugin
            said = connections.reason(problem)
            raise errors.StoreFailed('memcached', said) from problem
        if found != now:
            raise errors.StoreFailed('memcached', 'it did not keep a heartbeat')


def _key(row: ServiceRow) -> str:
    return f'{row.topic}:{row.host}'


@dataclass(eq=False)
class MemcachedServices:
    """The services rows of schedulers. Satisfies cluster.discovery.ServiceDirectory.

    Our own heartbeat goes to memcached, and the row stays as it is.
    """

    inner: ServiceDirectory
    beats: Beats
    _keys: dict[int, str] = field(default_factory=dict)

    def register(
        self, host: str, binary: str, topic: str, version: int
    ) -> tuple[ServiceRow, bool]:
        row, created = self.inner.register(host, binary, topic, version)
        self._keys[row.id] = _key(row)
        return row, created

    def beat(self, service_id: int, report_count: int) -> bool:
        key = self._keys.get(service_id)
        if key is None:
            raise errors.StoreFailed('memcached', 'the service is not registered')
        self.beats.put(key)
        return True

    def of_program(self, binary: str) -> list[ServiceRow]:
        return self.beats.dated(self.inner.of_program(binary))
