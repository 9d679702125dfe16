# SPDX-License-Identifier: Apache-2.0
"""Where prefilters send a request, written into the request as nova writes it."""

from __future__ import annotations

from novasched.objects.request_spec import Destination, RequestSpec
from novasched.resources.prefilters.requirements import Requirements


def with_aggregates(request: RequestSpec, added: Requirements) -> RequestSpec:
    """Return the request with the aggregates that prefilters demand or forbid.

    They are for whoever is told of the request: notifications and plugins. A query
    must be built from the request as it came. Nova: scheduler/request_filter.py.
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
