# SPDX-License-Identifier: Apache-2.0
"""What an instance wants of the host that was chosen for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from novasched.objects.instance import Instance
from novasched.objects.numa import InstanceNUMATopology, NUMATopologyLimits
from novasched.objects.pci import InstancePCIRequests
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.fit.pci import ProviderMapping


@dataclass(frozen=True)
class Demand:
    """Amounts in MiB and GiB, NUMA nodes, and devices.

    ``providers`` are those that placement chose for each group of the request; None
    if it was not asked.
    """

    vcpus: int
    memory_mb: int
    disk_gb: int
    project_id: str | None = None
    topology: InstanceNUMATopology | None = None
    devices: InstancePCIRequests | None = None
    limits: NUMATopologyLimits | None = None
    providers: ProviderMapping | None = None

    @classmethod
    def of_request(
        cls, request: RequestSpec, limits: NUMATopologyLimits | None
    ) -> Self:
        """Return what a request for one instance wants."""
        flavor = request.flavor
        groups = (
            request.requested_resources if 'requested_resources' in request else None
        )
        return cls(
            flavor.vcpus,
            flavor.memory_mb,
            flavor.root_gb + flavor.ephemeral_gb,
            request.project_id if 'project_id' in request else None,
            request.numa_topology if 'numa_topology' in request else None,
            request.pci_requests if 'pci_requests' in request else None,
            limits,
            None
            if groups is None
            else {group.requester_id or '': group.provider_uuids for group in groups},
        )

    @classmethod
    def of_instance(cls, instance: Instance) -> Self:
        """Return what an instance wanted, from its rows."""
        return cls(
            instance.vcpus or 0,
            instance.memory_mb or 0,
            (instance.root_gb or 0) + (instance.ephemeral_gb or 0),
            instance.project_id,
            instance.numa_topology if 'numa_topology' in instance else None,
            instance.pci_requests if 'pci_requests' in instance else None,
        )
