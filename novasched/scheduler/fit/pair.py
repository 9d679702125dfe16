# SPDX-License-Identifier: Apache-2.0
"""Whether one node of a host can take one node of a guest."""

from __future__ import annotations

import dataclasses

from novasched.scheduler.fit import pages, pinning
from novasched.scheduler.fit.guests import GuestCell
from novasched.scheduler.fit.refused import Refused
from novasched.scheduler.fit.topology import HostCell, Limits
from novasched.scheduler.reasons import Code


def fit_pair(
    host: HostCell, guest: GuestCell, limits: Limits | None, reserve: int
) -> GuestCell | Refused:
    """Return the guest node as it is on the host node, or why it cannot be there.

    ``reserve`` is 1 where the emulator gets a CPU beside it. Without limits there
    are no ratios to keep to. Other guest nodes are not looked at.
    """
    fitted, refused = examine(host, guest, limits, reserve)
    return fitted if refused is None else refused


def examine(
    host: HostCell, guest: GuestCell, limits: Limits | None, reserve: int
) -> tuple[GuestCell, Refused | None]:
    """Return the guest node as far as it was fitted, and why no further.

    Nova changes the guest node as it goes: one that is refused may have a page
    size already, or even host CPUs. Nova: virt/hardware.py.
    """
    if guest.pagesize:
        chosen = pages.choose(host, guest)
        if isinstance(chosen, Refused):
            return guest, chosen
        if chosen != guest.pagesize:
            guest = dataclasses.replace(guest, pagesize=chosen)
    elif refused := pages.lacking(host, guest):
        return guest, refused
    if refused := _short_of_cpus(host, guest, reserve):
        return guest, refused
    if guest.pins:
        pinned = pinning.pin(host, guest, reserve)
        if isinstance(pinned, Refused):
            return guest, pinned
        guest = _pinned(host, guest, pinned)
    if limits and guest.shares and (refused := _over_limits(host, guest, limits)):
        return guest, refused
    if guest.id != host.id:
        guest = dataclasses.replace(guest, id=host.id)
    return guest, None


def _short_of_cpus(host: HostCell, guest: GuestCell, reserve: int) -> Refused | None:
    wanted = len(guest.pcpuset) + reserve
    if guest.pins:
        if host.pcpuset is None:
            text = 'the compute reports no dedicated CPUs'
            return Refused(Code.NODE_DATA_MISSING, text)
        if wanted > len(host.pcpuset):
            code, have = Code.NOT_ENOUGH_DEDICATED_CPUS, len(host.pcpuset)
            return Refused.too_few(code, have, wanted, 'dedicated CPUs')
    if guest.shares and len(guest.cpuset) > len(host.cpuset):
        code, have = Code.NOT_ENOUGH_NODE_CPUS, len(host.cpuset)
        return Refused.too_few(code, have, len(guest.cpuset), 'shared CPUs')
    if guest.pins and wanted > len(host.free_cpus):
        code, have = Code.NOT_ENOUGH_DEDICATED_CPUS, len(host.free_cpus)
        return Refused.too_few(code, have, wanted, 'dedicated CPUs free')
    return None


def _pinned(host: HostCell, guest: GuestCell, pinned: pinning.Pinned) -> GuestCell:
    pairs = dict(guest.pinning or ())
    pairs.update(zip(sorted(guest.pcpuset), pinned.used, strict=True))
    return dataclasses.replace(
        guest,
        id=host.id,
        pinning=tuple(sorted(pairs.items())) or None,
        reserved=frozenset(pinned.reserved) or None,
    )


def _over_limits(host: HostCell, guest: GuestCell, limits: Limits) -> Refused | None:
    """Compare with products as they are, not rounded: 1.15 * 100 is below 115."""
    cpus, most_cpus = len(guest.cpuset), len(host.cpuset) * limits.cpu_allocation_ratio
    if host.cpu_usage + cpus > most_cpus:
        text = _over(
            f'CPUs used: {host.cpu_usage} + {cpus}',
            most_cpus,
            f'{len(host.cpuset)} CPUs x {limits.cpu_allocation_ratio}',
        )
        return Refused(Code.NOT_ENOUGH_NODE_CPUS, text)
    most_mb = host.memory * limits.ram_allocation_ratio
    if host.memory_usage + guest.memory > most_mb:
        text = _over(
            f'MiB used: {host.memory_usage} + {guest.memory}',
            most_mb,
            f'{host.memory} MiB x {limits.ram_allocation_ratio}',
        )
        return Refused(Code.NOT_ENOUGH_NODE_MEMORY, text)
    return None


def _over(used: str, most: float, product: str) -> str:
    return f'{used} is over {most:.17g} ({product})'
