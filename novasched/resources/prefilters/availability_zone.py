# SPDX-License-Identifier: Apache-2.0
"""Availability zones."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.requirements import Facts, Requirements


def map_az_to_placement_aggregate(
    request: RequestSpec, facts: Facts
) -> Requirements | None:
    """Ask for hosts of the aggregates that make up the requested zone.

    A zone without aggregates restricts nothing.
    """
    zone = request.availability_zone if 'availability_zone' in request else None
    if not zone:
        return None
    uuids = [
        aggregate.uuid
        for aggregate in facts.aggregates
        if aggregate.availability_zone == zone and aggregate.uuid
    ]
    if not uuids:
        return None
    added = ','.join(uuids)
    return Requirements(
        member_of=(frozenset(uuids),),
        notes=(
            'map_az_to_placement_aggregate request filter added aggregates '
            f"{added} for az '{zone}'",
        ),
    )
