# SPDX-License-Identifier: Apache-2.0
"""Whether devices and networks agree to a choice of host nodes."""

from __future__ import annotations

import pytest

from novasched.scheduler.fit.agreement import Agreement
from novasched.scheduler.fit.topology import Limits, Networks
from tests.topologies import FakeDevices, hosts

FAST = Networks(frozenset({'fast'}))
NEAR = Limits(16.0, 1.5, FAST)
CELLS = hosts({}, {'network_metadata': FAST}, {})


@pytest.mark.parametrize(('limits', 'devices', 'agreed'), [
    pytest.param(None, None, [True, True, True], id='nothing to agree to'),
    pytest.param(NEAR, None, [False, True, False], id='networks'),
    pytest.param(
        None, FakeDevices(supported=[{2}]), [False, False, True], id='devices'
    ),
    pytest.param(
        None, FakeDevices(wanted=False), [True, True, True], id='no devices wanted'
    ),
    pytest.param(
        NEAR, FakeDevices(supported=[{1}, {2}]), [False, True, False], id='both'
    ),
])  # fmt: skip
def test_what_is_agreed_to(limits, devices, agreed):
    agrees = Agreement(CELLS, limits, devices)
    assert [agrees([host]) for host in range(3)] == agreed


def test_devices_are_asked_once_for_the_same_nodes():
    devices = FakeDevices()
    agrees = Agreement(CELLS, None, devices)
    assert [agrees([0, 1]), agrees([1, 0])] == [False, False]
    assert devices.asked == [{0, 1}]


@pytest.mark.parametrize(('limits', 'devices', 'kinds'), [
    pytest.param(None, None, [0, 0, 0], id='all the same'),
    pytest.param(NEAR, None, [0, 1, 0], id='by their networks'),
    pytest.param(None, FakeDevices(), [0, 1, 2], id='by what devices see'),
])  # fmt: skip
def test_kinds_of_nodes(limits, devices, kinds):
    assert Agreement(CELLS, limits, devices).kinds() == kinds
