# SPDX-License-Identifier: Apache-2.0
"""Refusal to serve in the database of a running nova.

A conductor of the lab would take builds from the users of that cloud, and lose them.
"""

from __future__ import annotations

import os
import uuid

from oslo_config import cfg
from oslo_utils import timeutils

from novasched import errors
from novasched.cluster.services import Window, down_time
from novasched.db import engines, services
from novasched.db.transactions import Database
from novasched.ports import ServiceRow
from novasched_lab.cmd import BESIDE_NOVA

BINARIES = ('nova-conductor', 'nova-compute')
UUID_VERSION = 5
"""The version in the uuids of our services rows; nova's are of version 4."""


def new_uuid() -> str:
    """Return the uuid of a services row of the lab."""
    return str(uuid.UUID(bytes=os.urandom(16), version=UUID_VERSION))


def check(conf: cfg.ConfigOpts) -> None:
    """Look for a living conductor or compute of nova in [database] connection.

    Raises errors.OptionError if there is one, unless ``--beside-nova`` is given, and
    errors.StoreFailed.
    """
    if conf.beside_nova:
        return
    down_s, _ = down_time(conf.service_down_time, conf.report_interval)
    window = Window.around(timeutils.utcnow(), down_s)
    engine = engines.main_engine(conf)
    try:
        found = Database(engine).reading(
            lambda connection: [
                row for name in BINARIES for row in services.read(connection, name)
            ]
        )
    finally:
        engine.dispose()
    for row in found:
        if window.holds(row) and not _is_ours(row):
            raise errors.OptionError(
                engines.MAIN,
                f'{row.binary} is alive on {row.host}, and this program would take '
                'its work',
                f'Use the database of a test cloud, or give --{BESIDE_NOVA.name}',
            )


def _is_ours(row: ServiceRow) -> bool:
    try:
        return uuid.UUID(row.uuid).version == UUID_VERSION
    except (TypeError, ValueError):
        return False
