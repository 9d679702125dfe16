# SPDX-License-Identifier: Apache-2.0
"""What is looked at before the daemon starts, so that it fails in plain words.

Everything that is opened here is closed again: workers are forked afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from oslo_config import cfg
from oslo_log import log

from novasched import app, errors, opts, plugins, service
from novasched.cluster.services import down_time
from novasched.db import engines
from novasched.placement import session
from novasched.rpc import transport

LOG = logging.getLogger(__name__)


def configure(conf: cfg.ConfigOpts, argv: Sequence[str]) -> cfg.ConfigOpts:
    """Read the configuration and set up logging, as nova-scheduler does.

    Raises oslo_config.cfg.Error and errors.OptionError.
    """
    log.register_options(conf)
    opts.register(conf)
    conf(list(argv), project='nova', prog='nova-scheduler')
    _read_all(conf)
    log.setup(conf, 'nova')
    return conf


def _read_all(conf: cfg.ConfigOpts) -> None:
    """Read every option once: a wrong value is found now, not when it is used."""
    for group, listed in opts.list_opts():
        for opt in listed:
            values = conf if group == 'DEFAULT' else conf[group]
            try:
                getattr(values, opt.dest)
            except (cfg.Error, ValueError) as problem:
                raise errors.OptionError(
                    f'[{group}] {opt.name}', str(problem), 'Correct its value.'
                ) from problem


def check(conf: cfg.ConfigOpts) -> None:
    """Find out whether a scheduler can run with this configuration.

    Raises errors.SetupError that names the option and says what to do. Placement
    may be away: that is a warning.
    """
    plugins.profile_from_conf(conf)
    _, warning = down_time(conf.service_down_time, conf.report_interval)
    if warning:
        LOG.warning(warning)
    _check_databases(conf)
    given = app.given_from_conf(conf)
    try:
        warning = session.check(given.placement)
        if warning:
            LOG.warning('[placement]: %s', warning)
        transport.check(given.transport)
        view = app.view_from_conf(conf, given)
        view.check()
        tolerated = conf.workarounds.disable_compute_service_check_for_ffu
        service.check_compute_version(view.minimum_compute_version(), tolerated)
        view.close()
    finally:
        given.api_engine.dispose()
        given.transport.cleanup()


def _check_databases(conf: cfg.ConfigOpts) -> None:
    group = conf.database
    for make, option in (
        (engines.api_engine, engines.API),
        (engines.main_engine, engines.MAIN),
    ):
        engine = make(conf)
        try:
            engines.check(
                engine,
                option,
                max_retries=group.max_retries,
                retry_interval_s=group.retry_interval,
            )
        finally:
            engine.dispose()
