# SPDX-License-Identifier: Apache-2.0
"""Whether chosen nodes are near the networks that a guest asks for."""

from __future__ import annotations

from collections.abc import Collection

from novasched.scheduler.fit.topology import HostCell, Networks

_NONE = Networks()


def elsewhere(
    cells: Collection[HostCell], chosen: Collection[int], asked: Networks
) -> str:
    """Return what only nodes that were not chosen are near to; '' if nothing.

    ``chosen`` are ids of nodes. A network that no node is near to is no constraint.
    """
    near = [_of(cell) for cell in cells if cell.id in chosen]
    far = [_of(cell) for cell in cells if cell.id not in chosen]
    missed = {
        name
        for name in asked.physnets
        if any(name in networks.physnets for networks in far)
        and not any(name in networks.physnets for networks in near)
    }
    words = [f'physical network {name}' for name in sorted(missed)]
    if (
        asked.tunneled
        and any(networks.tunneled for networks in far)
        and not any(networks.tunneled for networks in near)
    ):
        words.append('tunnelled networks')
    return ' and '.join(words)


def sight(cell: HostCell, asked: Networks) -> Networks:
    """Return what the rule sees of a node."""
    networks = _of(cell)
    return Networks(
        networks.physnets & asked.physnets, networks.tunneled and asked.tunneled
    )


def _of(cell: HostCell) -> Networks:
    return cell.network_metadata or _NONE
