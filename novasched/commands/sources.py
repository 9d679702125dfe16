# SPDX-License-Identifier: Apache-2.0
"""Where the commands read decisions: the log of this machine, and the schedulers of
the others. What asks them is imported when it is first needed."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from oslo_config import cfg

from novasched import errors
from novasched.compat import messaging_options
from novasched.decisions import files
from novasched.decisions.primitives import origin_of
from novasched.decisions.reading import DecisionFiles
from novasched.inspection.questions.all_decisions import AllDecisions, OwnLog
from novasched.inspection.questions.schedulers import OtherSchedulers
from novasched.process import configuration
from novasched.runtime import state_directory

if TYPE_CHECKING:
    from novasched.decisions.record import DecisionRecord
    from novasched.rpc.inspection_client import InspectionClient

LOG = logging.getLogger(__name__)

OPTIONS: Mapping[str, Sequence[cfg.Opt]] = {**files.OPTS, **state_directory.OPTS}
"""Options that a configuration must have for sources(); the rest is added."""
DATABASE_WITHIN_S = 2.0
REPLIES_EXPIRE_S = 60
"""A queue for answers is left behind when a command ends; the broker removes it."""


def sources(
    conf: cfg.ConfigOpts,
    local_only: bool = False,
    warn: Callable[[str], None] = LOG.warning,
) -> AllDecisions:
    """Return the decisions of all schedulers, or of this machine alone; close it.

    ``warn`` gets a line about a file that cannot be read. Raises errors.OptionError
    where the log of this machine alone is asked for, and it has none.
    """
    own = None
    try:
        directory = files.existing(conf)
        own = OwnLog(
            lambda: _host(conf),
            DecisionFiles(directory, warn),
            origin_of(directory, ''),
        )
    except errors.OptionError:
        if local_only:
            raise
    return AllDecisions(
        own,
        OtherSchedulers(
            lambda: [] if local_only else _live_hosts(conf, own is not None),
            lambda: _client(conf),
        ),
    )


def record(conf: cfg.ConfigOpts, name: str) -> DecisionRecord:
    """Return the record of a decision, whichever scheduler has it. Raises
    errors.DecisionNotFound and errors.AmbiguousDecision."""
    with contextlib.closing(sources(conf)) as decisions:
        found = decisions.read(name)
        if found is None:
            raise errors.DecisionNotFound(name, decisions.unanswered)
        return found


def _host(conf: cfg.ConfigOpts) -> str:
    from novasched.process import service

    configuration.register(conf, service.OPTS.items())
    return service.host_of(conf)


def _live_hosts(conf: cfg.ConfigOpts, has_own: bool) -> list[str]:
    """Return the hosts of live schedulers; our own only if it has no files to read.

    Raises errors.StoreFailed and errors.OptionError.
    """
    from novasched.cluster import services
    from novasched.cluster.heartbeat import BINARY
    from novasched.db import engines
    from novasched.db.stores import SqlServiceStore
    from novasched.external import servicegroup
    from novasched.runtime.clock import SYSTEM_CLOCK

    for module in (engines, services, servicegroup):
        configuration.register(conf, module.OPTS.items())
    engine = engines.main_engine(conf, timeout_s=DATABASE_WITHIN_S)
    try:
        directory = servicegroup.services(conf, SqlServiceStore(engine), SYSTEM_CLOCK)
        rows = directory.of_program(BINARY) if directory is not None else []
    finally:
        engine.dispose()
    down_s, _ = services.down_time(conf.service_down_time, conf.report_interval)
    window = services.Window.around(SYSTEM_CLOCK.utcnow(), down_s)
    own = _host(conf) if has_own else None
    return [
        row.host
        for row in rows
        if row.host != own and not row.forced_down and window.holds(row)
    ]


def _client(conf: cfg.ConfigOpts) -> InspectionClient:
    """Return a client that asks over the broker. Raises errors.OptionError, and
    errors.StoreFailed where the release of the cloud must be known for that."""
    from novasched.rpc import transport
    from novasched.rpc.inspection_client import InspectionClient

    # Another configuration knows the URL of the broker as an option of its own.
    copied = configuration.copied(conf, transport.OPTS)
    if messaging_options.present(configuration.held(conf)):
        from novasched.app.release import use_names_of_release
        from novasched.cluster import release

        configuration.register(conf, release.OPTS.items())
        use_names_of_release(conf, copied)
    copied.set_override(
        'rabbit_transient_queues_ttl', REPLIES_EXPIRE_S, 'oslo_messaging_rabbit'
    )
    return InspectionClient(transport.transport_from_conf(copied))
