# SPDX-License-Identifier: Apache-2.0
"""Which providers serve the groups of a request, after a host was chosen."""

from __future__ import annotations

import json
from typing import Any

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection


def candidate_of(selection: Selection) -> dict[str, Any] | None:
    """Return what a host was, or would be, claimed by; None: nothing needs to be.

    Raises errors.InvalidRequest for text that is none.
    """
    text = selection.allocation_request if 'allocation_request' in selection else None
    try:
        found = json.loads(text or 'null')
    except ValueError as problem:
        raise errors.InvalidRequest(f'allocation_request: {problem}') from problem
    if found is not None and not isinstance(found, dict):
        raise errors.InvalidRequest('allocation_request: it is no object')
    return found


def fill(request: RequestSpec, selection: Selection) -> RequestSpec:
    """Return the request with the providers of its groups, if it has any groups.

    Raises errors.InvalidRequest where the selection does not name them. Nova:
    scheduler/utils.py, fill_provider_mapping.
    """
    groups = request.requested_resources if 'requested_resources' in request else None
    if not groups:
        return request
    mappings = (candidate_of(selection) or {}).get('mappings') or {}
    lacking = [
        group.requester_id for group in groups if group.requester_id not in mappings
    ]
    if lacking:
        raise errors.InvalidRequest(
            f'{selection.service_host} was chosen without providers for {lacking}'
        )
    return request.replaced(
        requested_resources=[
            group.replaced(provider_uuids=list(mappings[group.requester_id]))
            for group in groups
        ]
    )
