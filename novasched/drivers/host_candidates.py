# SPDX-License-Identifier: Apache-2.0
"""The allocation candidates of each host, and the order in which they are tried."""

from __future__ import annotations

import logging
from collections.abc import Collection, Container, Iterator, Mapping
from typing import Any

from novasched.clock import SYSTEM_CLOCK, Clock
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate, Candidates
from novasched.scheduler.hosts import HostState, HostTable

LOG = logging.getLogger(__name__)


FORGET_AFTER_S = 600.0
"""A known root is looked up again after this time: it may have got a parent."""


class KnownRoots:
    """The providers that were found to be roots though they are no compute nodes."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._uuids: set[str] = set()
        self._forget_at = clock.monotonic() + FORGET_AFTER_S

    def uuids(self) -> set[str]:
        """Return the set of their uuids, to which callers add those that they find."""
        if self._clock.monotonic() >= self._forget_at:
            self._uuids = set()
            self._forget_at = self._clock.monotonic() + FORGET_AFTER_S
        return self._uuids


def by_provider(
    candidates: Candidates | None,
    nodes: Container[str] = frozenset(),
    roots: set[str] | None = None,
) -> dict[str, list[Candidate]] | None:
    """Return the candidates by each provider that they take from, in order.

    One that takes from none of ``nodes``, the known compute nodes, is also under
    the root of each of its providers: it asks a host only for what the children of
    the host have. ``roots`` are known to be such and get more; no summary is looked
    at for them.
    """
    if candidates is None:
        return None
    found: dict[str, list[Candidate]] = {}
    roots = set() if roots is None else roots
    for candidate in candidates.requests:
        uuids = candidate['allocations']
        for uuid in uuids:
            found.setdefault(uuid, []).append(candidate)
        if not any(uuid in nodes for uuid in uuids) and not roots.issuperset(uuids):
            above = _above(uuids, candidates.summaries)
            roots.update(uuid for uuid, root in above.items() if root == uuid)
            for root in dict.fromkeys(above.values()):
                if root not in uuids:
                    found.setdefault(root, []).append(candidate)
    return found


def _above(uuids: Collection[str], summaries: Mapping[str, Any]) -> dict[str, str]:
    """Return the root of each provider that has a summary."""
    known = {uuid: summaries[uuid] for uuid in uuids if uuid in summaries}
    return {
        uuid: each.get('root_provider_uuid') or uuid for uuid, each in known.items()
    }


def offers(hosts: HostTable) -> Iterator[tuple[HostState, Candidate]]:
    """Yield the first candidates of the hosts, the best first, then all others."""
    several = []
    for host in hosts.states():
        if not host.allocation_candidates:
            LOG.debug(
                'The nova scheduler removed every allocation candidate'
                'for host %s so this host was skipped.',
                host,
            )
            continue
        if len(host.allocation_candidates) > 1:
            several.append(host)
        yield host, host.allocation_candidates[0]
    for host in several:
        for candidate in host.allocation_candidates[1:]:
            yield host, candidate


def with_providers(request: RequestSpec, candidate: Candidate | None) -> RequestSpec:
    """Write down for each requested group which providers the candidate gives it."""
    groups = request.requested_resources if 'requested_resources' in request else None
    if not groups or candidate is None:
        return request
    mappings = candidate.get('mappings', {})
    filled = [
        group.replaced(provider_uuids=mappings.get(group.requester_id, []))
        for group in groups
    ]
    return request.replaced(requested_resources=filled)
