# SPDX-License-Identifier: Apache-2.0
"""The candidates of hosts, in the order in which they are tried."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from novasched.objects.request_spec import RequestSpec
from novasched.ports import Candidate
from novasched.scheduler.hosts import HostState, HostTable

LOG = logging.getLogger(__name__)


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
