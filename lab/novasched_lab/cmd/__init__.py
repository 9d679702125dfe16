# SPDX-License-Identifier: Apache-2.0
"""The daemons novasched-conductor and novasched-compute."""

import novasched.cmd  # noqa: F401, I001  first of all: how a program ends

from oslo_config import cfg

BESIDE_NOVA = cfg.BoolOpt(
    'beside-nova',
    default=False,
    help='Start although a nova-conductor or nova-compute is alive in this database.',
)
