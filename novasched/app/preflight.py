# SPDX-License-Identifier: Apache-2.0
"""Checks before the daemon starts, so that it fails in plain words.

Everything that is opened here is closed again: workers are forked afterwards.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from oslo_config import cfg
from oslo_db import exception as db_exc  # type: ignore[import-untyped]
from oslo_log import log

from novasched import app, errors, plugins
from novasched.app import decisions
from novasched.cluster.heartbeat import BINARY
from novasched.cluster.release import FoundRelease
from novasched.cluster.services import down_time
from novasched.cluster.view import ClusterView
from novasched.compat import deprecated_options, messaging_options, removed_options
from novasched.db import engines
from novasched.db.stores import SqlServiceStore
from novasched.external import servicegroup
from novasched.journal import recovery
from novasched.observability import serving, tracing
from novasched.placement import session
from novasched.process import configuration, opts, service
from novasched.rpc import logs, transport
from novasched.rpc.shared_picks import topics
from novasched.scheduler.pipeline import Profile

LOG = logging.getLogger(__name__)

JOIN_S = 10.0
"""How long the threads that were used here may take to end."""


def configure(conf: cfg.ConfigOpts, argv: Sequence[str]) -> cfg.ConfigOpts:
    """Read the configuration of nova-scheduler, and set up logging as it does.

    Raises oslo_config.cfg.Error and errors.OptionError.
    """
    _read_files(conf, argv)
    logs.set_up(conf)
    _read_all(conf)
    return conf


def _read_files(conf: cfg.ConfigOpts, argv: Sequence[str]) -> None:
    log.register_options(conf)
    opts.register(conf)
    configuration.read(conf, argv, 'nova-scheduler', prog='novasched-scheduler')


def reread(conf: cfg.ConfigOpts, argv: Sequence[str]) -> None:
    """Read the files again and set up logging again, if they make sense.

    Else raises oslo_config.cfg.Error or errors.SetupError, and all is as it was.
    Plugins go on with the configuration that they know, which is changed.
    """
    found = cfg.ConfigOpts()
    _read_files(found, argv)
    _read_all(found)
    plugins.profile_from_conf(found, seen=conf)
    servicegroup.check(found)
    if found.novasched.shadow != conf.novasched.shadow:
        raise errors.OptionError(
            '[novasched] shadow', 'a reload cannot change it', 'Restart the service'
        )
    conf.reload_config_files()
    logs.set_up(conf)


def _read_all(conf: cfg.ConfigOpts) -> None:
    """Read every option once: a wrong value is found now, not when it is used.

    The log is set up by now, for oslo.config warns of old names at the first read.
    """
    for problem in configuration.invalid(conf, opts.list_opts()):
        raise problem


def check(conf: cfg.ConfigOpts) -> None:
    """Find out whether a scheduler can run with this configuration.

    Raises errors.SetupError that names the option and says what to do. Placement
    may be unavailable: that is a warning.
    """
    profile = load_plugins(conf)
    servicegroup.check(conf)
    serving.check(conf)
    journal = None if conf.novasched.shadow else recovery.prepare(conf)
    kept = filter(None, [journal, decisions.prepare(conf)])
    for warning in (*deprecations(profile), *warnings(conf), *kept):
        LOG.warning('%s', warning)
    _check_databases(conf)
    with opened(conf, profile) as (given, view, found):
        LOG.info('Serving nova %s: %s', found.release, found.how)
        if found.warning:
            LOG.warning('%s', found.warning)
        problem = session.check(given.placement)
        if problem:
            LOG.warning('[placement]: %s', problem)
        transport.check(given.transport)
        if not conf.novasched.shadow:
            host = service.host_of(conf)
            transport.check_queues(given.transport, topics(conf), host)
        _read_cells(view)
        check_compute_version(
            view.minimum_compute_version(),
            conf.workarounds.disable_compute_service_check_for_ffu,
            found,
        )


@contextlib.contextmanager
def opened(
    conf: cfg.ConfigOpts, profile: Profile
) -> Iterator[tuple[app.Dependencies, ClusterView, FoundRelease]]:
    """Compose a scheduler, and close it again; give the release that it serves, too.
    Raises errors.SetupError."""
    with contextlib.ExitStack() as stack:
        dependencies = app.dependencies_from_conf(conf)
        stack.callback(dependencies.close)
        scheduler = app.compose(conf, dependencies, profile)
        stack.callback(scheduler.view.close, JOIN_S)
        yield dependencies, scheduler.view, scheduler.found


def warnings(conf: cfg.ConfigOpts) -> list[str]:
    """Return a line for each option that does not do what its name promises."""
    known, held = opts.known(), configuration.held(conf)
    _, raised = down_time(conf.service_down_time, conf.report_interval)
    found = (
        raised,
        service.warning(conf),
        tracing.warning(conf),
        *removed_options.warnings(held, known),
        *messaging_options.warnings(held),
        *configuration.misspelt(conf, known),
        *deprecated_options.warnings(conf),
        *engines.warnings(conf),
    )
    return [each for each in found if each]


def deprecations(profile: Profile) -> list[str]:
    """Return a line for each filter that is on its way out."""
    found = (each.deprecated for each in profile.filters if each.deprecated)
    return list(dict.fromkeys(found))


def check_compute_version(minimum: int, tolerated: bool, found: FoundRelease) -> None:
    """Raise errors.TooOldComputeService when a compute is too old for the release of
    the cloud; 0: there is none."""
    release = found.release
    if not minimum or minimum >= release.oldest_compute:
        return
    problem = errors.TooOldComputeService(
        minimum, release.oldest_compute, release.oldest_release, str(found)
    )
    if not tolerated:
        raise problem
    LOG.warning('%s', problem)


def load_plugins(conf: cfg.ConfigOpts) -> Profile:
    """Load the filters and weighers. Raises errors.OptionError."""
    try:
        return plugins.profile_from_conf(conf)
    except (errors.FilterNotFound, errors.ClassNotFound) as problem:
        names = 'enabled_filters'
        if isinstance(problem, errors.ClassNotFound):
            names = 'available_filters or weight_classes'
        raise errors.OptionError(
            f'[filter_scheduler] {names}',
            str(problem),
            'Name only what is installed, here and in available_filters.',
        ) from problem


def _read_cells(view: ClusterView) -> None:
    try:
        view.check(judges=True)
    except errors.StoreFailed as problem:
        raise _unreadable(engines.API, 'api_db sync', problem) from problem


def _unreadable(
    option: str, command: str, problem: errors.StoreFailed
) -> errors.OptionError:
    remedy = 'Check the database and its server'
    if isinstance(problem.__cause__, db_exc.DBNonExistentTable):
        remedy = f'Make its tables with nova-manage {command}'
    return errors.OptionError(option, str(problem), remedy)


def _check_databases(conf: cfg.ConfigOpts) -> None:
    """Connect, and find out whether a newer nova-scheduler has taken over."""
    for make, option, group in (
        (engines.api_engine, engines.API, conf.api_database),
        (engines.main_engine, engines.MAIN, conf.database),
    ):
        engine = make(conf)
        try:
            engines.check(
                engine,
                option,
                max_retries=group.max_retries,
                retry_interval_s=group.retry_interval,
            )
            if option == engines.MAIN:
                SqlServiceStore(engine).check_version(BINARY)
        except errors.StoreFailed as problem:
            raise _unreadable(option, 'db sync', problem) from problem
        finally:
            engine.dispose()
