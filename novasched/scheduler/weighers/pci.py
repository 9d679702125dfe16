# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by free PCI devices."""

from __future__ import annotations

import json
from typing import Any

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import PerValue
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


def free_devices(pci_stats: str | None) -> int:
    """Return how many devices the pools in a pci_stats column hold.

    The text is a list of pools in nova's object form, or of old one pool or a
    list of them as plain dicts. What is not a pool holds none.
    """
    try:
        pools = _content(json.loads(pci_stats or '[]'))
    except (ValueError, RecursionError):
        return 0
    if isinstance(pools, dict):
        pools = pools.get('objects', [pools])
    return sum(map(_count, pools)) if isinstance(pools, list) else 0


def _content(primitive: Any) -> Any:
    if isinstance(primitive, dict):
        return primitive.get('nova_object.data', primitive)
    return primitive


def _count(pool: Any) -> int:
    try:
        return int(_content(pool)['count'])
    except (ValueError, TypeError, KeyError, OverflowError):
        return 0


class PCIWeigher(Weigher):
    """Prefer hosts with fewer free PCI devices, whatever the request asks for.

    Devices beyond 99 make no difference. Nova: scheduler/weights/pci.py.
    """

    option = 'pci_weight_multiplier'

    def __init__(self, multiplier: float = 1.0) -> None:
        super().__init__(multiplier)
        self._free = PerValue[str | None](
            lambda text: min(free_devices(text), MOST_DEVICES)
        )

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Ints:
        free: Ints = self._free.of(hosts.pci_stats)
        return MOST_DEVICES + 1 - free
