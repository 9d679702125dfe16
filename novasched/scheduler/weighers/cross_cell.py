# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by whether a move stays within its cell."""

from __future__ import annotations

import numpy as np
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'cross_cell_move_weight_multiplier',
            default=1000000.0,
            help='Weight of staying in the cell when an instance moves. Positive '
            'prefers hosts of its cell, negative those of other cells.',
        )
    ]
}


def preferred_cell(request: RequestSpec) -> str | None:
    """Return the uuid of the cell that a move may leave; None: no such move."""
    destination = request.requested_destination
    # Reading what is unset would set it.
    if (
        destination is None
        or 'cell' not in destination
        or destination.cell is None
        or 'allow_cross_cell_move' not in destination
        or not destination.allow_cross_cell_move
    ):
        return None
    return destination.cell.uuid


class CrossCellWeigher(Weigher):
    """Prefer the cell that the instance is in, if it may move to another.

    Nova: scheduler/weights/cross_cell.py.
    """

    option = 'cross_cell_move_weight_multiplier'

    def __init__(self, multiplier: float = 1000000.0) -> None:
        super().__init__(multiplier)

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        preferred = preferred_cell(request)
        if preferred is None:
            return np.zeros(len(hosts), np.int64)
        return hosts.cell_uuid.map(
            lambda uuid: 1 if uuid == preferred else -1, np.int64
        )
