# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by free PCI devices."""

from __future__ import annotations

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import PerValue
from novasched.scheduler.fit.parse import HostPools
from novasched.scheduler.hosts import HostTable, Ints
from novasched.scheduler.weighers import Weigher

MOST_DEVICES = 99

OPTS = {
    'filter_scheduler': [
        cfg.FloatOpt(
            'pci_weight_multiplier',
            default=1.0,
            min=0.0,
            help='Weight of free PCI devices. Positive keeps hosts that have many '
            'for the instances that need them.',
        )
    ]
}


class PCIWeigher(Weigher):
    """Prefer hosts with fewer free PCI devices, whatever the request asks for.

    Devices beyond 99 make no difference. Nova: scheduler/weights/pci.py.
    """

    option = 'pci_weight_multiplier'

    def __init__(self, multiplier: float = 1.0) -> None:
        super().__init__(multiplier)
        self._free = PerValue[HostPools](lambda pools: min(pools.devices, MOST_DEVICES))

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        free: Ints = self._free.of(hosts.pci_stats)
        return MOST_DEVICES + 1 - free
