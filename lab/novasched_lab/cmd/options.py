# SPDX-License-Identifier: Apache-2.0
"""Options of the command lines of both daemons."""

from __future__ import annotations

from oslo_config import cfg

BESIDE_NOVA = cfg.BoolOpt(
    'beside-nova',
    default=False,
    help='Start although a nova-conductor or nova-compute is alive in this database.',
)
