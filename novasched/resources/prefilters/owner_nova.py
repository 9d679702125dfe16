# SPDX-License-Identifier: Apache-2.0
"""Providers that nova owns."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements

NEEDED_VERSION = 73
"""The first nova-compute that marks its providers with OWNER_NOVA."""

_TRAIT: str = os_traits.OWNER_NOVA


def owner_nova_filter(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Ask for providers of nova, once every nova-compute marks its own."""
    if _TRAIT in request.root_required:
        return None
    version = facts.minimum_compute_version
    if version < NEEDED_VERSION:
        warning = (
            f'{_TRAIT} trait not added to scheduling request: not all nova-compute '
            f'services are upgraded (min_version={version}, need {NEEDED_VERSION}).'
        )
        return Requirements(warnings=(warning,))
    added = {suffix: frozenset({_TRAIT}) for suffix in _pci_suffixes(request)}
    notes = [f'Added required trait {_TRAIT} to root provider in request spec']
    if added:
        notes.append(
            f'Added required trait {_TRAIT} to PCI request groups in request spec'
        )
    return Requirements(
        root_required=frozenset({_TRAIT}), group_required=added, notes=tuple(notes)
    )


def _pci_suffixes(request: RequestSpec) -> list[str]:
    """Return the suffixes of the groups that stand for PCI aliases.

    They are the id of the PCI request and the number of the device; a PCI
    request without an alias comes from a network port.
    """
    pci = request.pci_requests if 'pci_requests' in request else None
    if pci is None:
        return []
    ids = {one.request_id for one in pci.requests if one.alias_name is not None}
    suffixes = [group.requester_id for group in request.requested_resources or ()]
    return [s for s in suffixes if s and s.rpartition('-')[0] in ids]
