# SPDX-License-Identifier: Apache-2.0
"""What nova's tables say that helps to read placement's API."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from novasched.scheduler.hosts import HostTable


class NodeSize(NamedTuple):
    """What a compute node reports of itself, but allocation candidates do not show.

    The amounts are the largest that one server may have.
    """

    vcpus: int
    memory_mb: int
    local_gb: int
    has_memory: bool = True  # whether memory is free

    def max_units(self) -> dict[str, int]:
        """Return the largest amount by resource class."""
        return {
            'VCPU': self.vcpus,
            'MEMORY_MB': self.memory_mb,
            'DISK_GB': self.local_gb,
        }


@dataclass(frozen=True)
class CloudHints:
    """What is known of the cloud without placement."""

    sizes: Callable[[], Mapping[str, NodeSize]] = dict  # of all compute nodes by uuid
    aggregates: Callable[[], Collection[str]] = tuple  # uuids that requests may name

    def naming(self, aggregates: Collection[str]) -> CloudHints:
        """Return hints that name these aggregates, too."""
        known = self.aggregates
        return replace(self, aggregates=lambda: {*known(), *aggregates})


NO_HINTS = CloudHints()


def node_sizes(hosts: HostTable) -> dict[str, NodeSize]:
    """Return the sizes of the nodes of a table, by uuid."""
    free_mb = hosts.free_ram_mb + hosts.total_usable_ram_mb * (
        np.nan_to_num(hosts.ram_allocation_ratio, nan=1.0) - 1.0
    )
    columns = (
        hosts.uuid.tolist(),
        hosts.vcpus_total.tolist(),
        hosts.total_usable_ram_mb.tolist(),
        hosts.total_usable_disk_gb.tolist(),
        (free_mb >= 1).tolist(),
    )
    return {uuid: NodeSize(*size) for uuid, *size in zip(*columns, strict=True) if uuid}
