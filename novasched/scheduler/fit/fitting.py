# SPDX-License-Identifier: Apache-2.0
"""Options of the search for host cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from oslo_config import cfg

from novasched.releases import Release
from novasched.scheduler.fit.nova_search import fit_as_nova
from novasched.scheduler.fit.pci_allocation import HostDevices
from novasched.scheduler.fit.search import Attempt, fit_each
from novasched.scheduler.fit.topology import CellLimits, Guest, HostCell

OPTS: dict[str, list[cfg.Opt]] = {
    'compute': [
        cfg.BoolOpt(
            'packing_host_numa_cells_allocation_strategy',
            default=False,
            help='Fill the NUMA nodes of a host one after the other: of the nodes '
            'that could take an instance, the fullest is tried first. Otherwise the '
            'emptiest is. The computes should be configured alike.',
        )
    ],
    'novasched': [
        cfg.StrOpt(
            'numa_compat',
            default='right',
            choices=[
                (
                    'right',
                    'every way to place the nodes of an instance is tried, from the '
                    'request as it came',
                ),
                (
                    'nova',
                    'as nova does, with its defects: a place may be missed, or given '
                    'though it does not fit, on hosts with three nodes and more; what '
                    'was tried before, for another allocation candidate or another '
                    'instance of the request, changes what is asked for',
                ),
            ],
            help='How NUMA nodes of instances are placed on the NUMA nodes of a host.',
        )
    ],
}


@dataclass(frozen=True)
class Fitting:
    """``pack``: the fullest cells first; ``as_nova``: with the defects of nova.

    ``pins_within_free_memory``: see releases.Release.
    """

    pack: bool = False
    as_nova: bool = False
    pins_within_free_memory: bool = False

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Make it from the options."""
        return cls(
            conf.compute.packing_host_numa_cells_allocation_strategy,
            conf.novasched.numa_compat == 'nova',
        )

    def of_release(self, release: Release) -> Self:
        """Return the same search by the rules of a release."""
        return replace(self, pins_within_free_memory=release.pins_within_free_memory)

    def attempt(
        self,
        cells: Sequence[HostCell],
        guest: Guest,
        limits: CellLimits | None,
        devices: HostDevices | None,
    ) -> Attempt:
        """Put the cells of a guest on cells of a host."""
        return self.attempts(cells, guest, limits, [devices])[0]

    def attempts(
        self,
        cells: Sequence[HostCell],
        guest: Guest,
        limits: CellLimits | None,
        each: Sequence[HostDevices | None],
    ) -> list[Attempt]:
        """Put them there once for each allocation candidate, given its devices.

        Each starts from the guest as it came, but for nova, where one starts from
        what the one before it has left.
        """
        if not self.as_nova:
            return fit_each(cells, guest, limits, each, self.pack)
        found = []
        for devices in each:
            attempt = fit_as_nova(cells, guest, limits, devices, self.pack)
            guest = attempt.guest
            found.append(attempt)
        return found
