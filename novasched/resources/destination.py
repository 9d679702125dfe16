# SPDX-License-Identifier: Apache-2.0
"""Host, node and aggregates that a request is restricted to."""

from __future__ import annotations

from dataclasses import dataclass

from novasched.objects.request_spec import Destination, RequestSpec
from novasched.resources.requirements import Requirements


@dataclass(frozen=True)
class Target:
    """A service host, a node or both."""

    host: str | None
    node: str | None


def target_of(request: RequestSpec) -> Target | None:
    """Return where the request must go; a destination comes before force_hosts."""
    host = node = None
    destination = request.requested_destination
    if destination is not None:
        host = destination.host if 'host' in destination else None
        node = destination.node if 'node' in destination else None
    forced_hosts = request.force_hosts if 'force_hosts' in request else None
    forced_nodes = request.force_nodes if 'force_nodes' in request else None
    host = host or (forced_hosts[0] if forced_hosts else None)
    node = node or (forced_nodes[0] if forced_nodes else None)
    if not host and not node:
        return None
    return Target(host, node)


def not_found(request: RequestSpec) -> str:
    """Return nova's reason for NoValidHost when no compute node is the target."""
    target = target_of(request)
    host, node = (target.host, target.node) if target else (None, None)
    return f'No such host - host: {host} node: {node} '


def with_aggregates(request: RequestSpec, added: Requirements) -> RequestSpec:
    """Return the request with the aggregates that prefilters demand or forbid.

    They are for notifications and plugins. A query must be built from the request
    as it came. Nova: scheduler/request_filter.py.
    """
    if not added.member_of and not added.not_member_of:
        return request
    before = request.requested_destination or Destination()
    must = [','.join(sorted(uuids)) for uuids in added.member_of]
    must_not = set(before.forbidden_aggregates or ()) | added.not_member_of
    after = before.replaced(
        aggregates=[*(before.aggregates or ()), *must] or None,
        forbidden_aggregates=must_not or None,
    )
    return request.replaced(requested_destination=after)
