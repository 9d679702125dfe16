# SPDX-License-Identifier: Apache-2.0
"""A simulated compute host at work, and the neighbours of all hosts of a process."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Any

from novasched import errors
from novasched.objects.instance import Instance
from novasched_lab.allocations import Allocations
from novasched_lab.compute.fault_rules import FaultRules
from novasched_lab.compute.resource_tracker import Demand, ResourceTracker
from novasched_lab.compute.rows import HostRows
from novasched_lab.host_inventory import SimulatedHost
from novasched_lab.rpc_api import ComputeClient, ConductorClient
from novasched_lab.store.cell_servers import CellServers

LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ComputeContext:
    """What all hosts of a process work with."""

    allocations: Allocations
    conductor: ConductorClient
    rules: FaultRules


class FakeComputeHost:
    """A compute host without a hypervisor; one lock is held while a claim is made."""

    def __init__(
        self,
        host: SimulatedHost,
        servers: CellServers,
        rows: HostRows,
        computes: ComputeClient,
    ) -> None:
        self.host = host
        self.name = host.name
        self.servers = servers
        self.computes = computes
        self.tracker = ResourceTracker(host)
        self.lock = threading.RLock()
        self.node_id = 0
        self._rows = rows
        self._writing = threading.Lock()
        self._written: dict[str, Any] = {}

    def registered(self, node_id: int) -> None:
        """Take the id of the compute node, whose row has the usage of now."""
        self.node_id = node_id
        self._written = self.tracker.usage()

    def restore(self, instance: Instance) -> None:
        """Claim for an instance what its row says that it has here."""
        with self.lock:
            if not self.tracker.restore(instance.uuid, Demand.of_instance(instance)):
                LOG.warning(
                    '%s holds less on %s than it should', instance.uuid, self.name
                )
            self.tracker.mark(
                instance.uuid, instance.vm_state or 'active', instance.task_state
            )

    def publish(self) -> None:
        """Write the row of the node if its usage is not what was written last.

        One that cannot be written now is written by the next change.
        """
        with self._writing:
            with self.lock:
                usage = self.tracker.usage()
            if usage == self._written:
                return
            try:
                self._rows.write_usage(self.node_id, usage)
                self._written = usage
            except errors.StoreFailed as problem:
                LOG.warning('The row of %s stays old: %s', self.name, problem)

    def release(self, uuid: str) -> None:
        """Free what an instance holds, and publish the usage."""
        with self.lock:
            self.tracker.release(uuid)
        self.publish()

    def note(self, uuid: str, event: str, error: str | None = None) -> None:
        """Write how a step ended; failing to write it is only a warning."""
        try:
            self.servers.add_event(uuid, event, self.name, error)
        except errors.StoreFailed as problem:
            LOG.warning('%s of %s is not written: %s', event, uuid, problem)
