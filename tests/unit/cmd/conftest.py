# SPDX-License-Identifier: Apache-2.0
"""Programs run in this process, and leave its logging as it was."""

import logging
import threading

import pytest

from tests.unit.cmd.status_cloud import cloud, copies, placement  # noqa: F401  fixtures


@pytest.fixture(autouse=True)
def _as_before(logging_as_before):
    """Every test here may run a program, whose log is that of the process. What servers
    of other tests say there of a broker that has gone is not heard."""
    mine = threading.current_thread()

    def is_mine(_):
        return threading.current_thread() is mine

    broker = logging.getLogger('oslo.messaging._drivers.impl_rabbit')
    broker.addFilter(is_mine)
    yield
    broker.removeFilter(is_mine)
