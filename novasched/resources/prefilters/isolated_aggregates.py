# SPDX-License-Identifier: Apache-2.0
"""Aggregates that are kept for requests that need their traits."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements

_PREFIX = 'trait:'


def isolate_aggregates(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Leave out aggregates with a required trait that no group requires.

    Traits of the root provider do not count.
    """
    keys = {
        aggregate.uuid: {
            key
            for key, value in aggregate.metadata.items()
            if key.startswith(_PREFIX) and value == 'required'
        }
        for aggregate in facts.aggregates
        if aggregate.uuid
    }
    if not any(keys.values()):
        return None
    met = {f'{_PREFIX}{trait}' for trait in facts.required_traits()}
    return Requirements(
        not_member_of=frozenset(uuid for uuid, wanted in keys.items() if wanted - met)
    )
