# SPDX-License-Identifier: Apache-2.0
"""The release of the cloud, and what follows it, wired from a configuration."""

from __future__ import annotations

import logging

from oslo_config import cfg

from novasched import errors
from novasched.app.sources import Sources
from novasched.cluster.discovery import ServiceDirectory
from novasched.cluster.heartbeat import Heartbeat
from novasched.cluster.release import FoundRelease, find
from novasched.compat import messaging_options
from novasched.db import engines
from novasched.db.stores import SqlServiceStore
from novasched.external import servicegroup
from novasched.manager.manager import SchedulerManager
from novasched.process import configuration
from novasched.process.service import host_of
from novasched.releases import NEWEST, named
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.runtime.periodic import HostLock, PeriodicTask

LOG = logging.getLogger(__name__)


def found_or_newest(conf: cfg.ConfigOpts, sources: Sources) -> FoundRelease:
    """Return the release of the cloud, for programs that only read.

    If the release cannot be found, return the newest and log a warning.
    """
    try:
        services = servicegroup.services(conf, sources.services, sources.clock)
        return find(conf, services, sources.clock)
    except errors.NovaschedError as problem:
        LOG.warning('Using the rules of nova %s: %s', NEWEST, problem)
        return FoundRelease(NEWEST, str(problem))


def follow_tasks(
    conf: cfg.ConfigOpts,
    found: FoundRelease,
    services: ServiceDirectory | None,
    clock: Clock,
    manager: SchedulerManager,
    heartbeat: Heartbeat | None,
) -> list[PeriodicTask]:
    """Return the look whether the cloud was upgraded, if no option pins its release.

    An older release than before does not count. One process of the machine logs it.
    """
    if found.is_pinned or services is None:
        return []
    lock = HostLock(f'release {host_of(conf)} {conf.database.connection}')

    def follow_release() -> None:
        before, (newer, how, _) = manager.release, find(conf, services, clock)
        if newer.service_version <= before.service_version:
            return
        manager.follow(newer)
        if heartbeat is not None:
            heartbeat.follow(newer.service_version)
        level = logging.INFO if lock.acquire() else logging.DEBUG
        LOG.log(level, 'Nova was upgraded from %s to %s: %s', before, newer, how)

    return [(conf.novasched.check_interval, follow_release)]


def use_names_of_release(
    conf: cfg.ConfigOpts, messaging: cfg.ConfigOpts | None = None
) -> None:
    """Read old names of options where the libraries of the cloud's release do.

    The database is asked which release it is, if the files have such names and none is
    pinned. ``messaging`` has the options, if not ``conf``. Raises errors.StoreFailed
    and errors.SetupError.
    """
    release = named(conf.novasched.nova_release)
    if release is None and messaging_options.present(configuration.held(conf)):
        engine = engines.main_engine(conf)
        try:
            store = SqlServiceStore(engine)
            services = servicegroup.services(conf, store, SYSTEM_CLOCK)
            release = find(conf, services, SYSTEM_CLOCK).release
        finally:
            engine.dispose()
    values = configuration.values(conf)
    messaging_options.apply(conf if messaging is None else messaging, values, release)
