# SPDX-License-Identifier: Apache-2.0
"""All hosts of a process."""

import threading

from novasched_lab.compute.service import ComputeService

WAIT_S = 30


class CellHosts:
    """Stops only together with its neighbours."""

    def __init__(self, barrier):
        self._barrier = barrier

    def stop(self):
        self._barrier.wait(WAIT_S)


def test_cells_stop_at_once():
    barrier, closed = threading.Barrier(3), []
    groups = [CellHosts(barrier) for _ in range(3)]
    ComputeService(groups, {}, lambda: None, lambda: closed.append(True)).stop()
    assert closed == [True]
    assert not barrier.broken
