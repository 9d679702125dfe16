# SPDX-License-Identifier: Apache-2.0
"""Free PCI devices: final weights of the hosts."""

from __future__ import annotations

import json

import pytest

from novasched.objects.pci import PciDevicePool, PciDevicePoolList
from novasched.scheduler.pipeline import weigh
from novasched.scheduler.weighers.resources import PCIWeigher
from tests import factories
from tests.configuration import make_conf

OLD = {'vendor_id': '8086', 'product_id': '1520'}


def pools(*counts):
    made = [PciDevicePool(**OLD, count=count, tags={}) for count in counts]
    return json.dumps(PciDevicePoolList(objects=made).obj_to_primitive())


@pytest.mark.parametrize(
    ('free', 'weights'),
    [
        pytest.param(
            [None, pools(), pools(4), pools(16), pools(150), pools(99), pools(100)],
            [1.0, 1.0, 95 / 99, 83 / 99, 0, 0, 0],
            id='fewer devices are better, up to 99',
        ),
        pytest.param([pools(4), pools(2, 2)], [0, 0], id='equally many'),
    ],
)
def test_weights(free, weights):
    hosts = factories.hosts(pci_stats=free)
    weighed = weigh([PCIWeigher()], hosts, factories.request())
    assert weighed.totals.tolist() == weights


def test_the_option_may_not_be_negative():
    conf = make_conf()
    with pytest.raises(ValueError):
        conf.set_override('pci_weight_multiplier', -1.0, 'filter_scheduler')
