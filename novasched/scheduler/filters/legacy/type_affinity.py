# SPDX-License-Identifier: Apache-2.0
"""Filter by the flavors of the instances on a host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.consumption import Member
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason


def others(instances: Mapping[str, Any], flavor_id: int) -> list[str]:
    """Return the instances that are not known to have the flavor.

    What this very request placed a moment ago has it.
    """
    return [
        uuid
        for uuid, instance in instances.items()
        if not isinstance(instance, Member) and _flavor_id(instance) != flavor_id
    ]


def _flavor_id(instance: Any) -> int | None:
    try:
        return getattr(instance, 'instance_type_id', None)
    except errors.UnsetField:
        return None


class TypeAffinityFilter(ColumnFilter):
    """Pass hosts whose instances are all of the flavor; an empty host passes.

    An instance whose flavor is unknown counts as one of another. Nova 16:
    scheduler/filters/type_filter.py.
    """

    codes = (Code.OTHER_FLAVOR_PRESENT,)
    deprecated = (
        'TypeAffinityFilter is deprecated in Pike. AggregateTypeAffinityFilter keeps '
        'flavors apart by the aggregates of hosts.'
    )

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        flavor_id = request.flavor.id
        found = hosts.instances.tolist()
        return np.array(
            [not on_host or not others(on_host, flavor_id) for on_host in found], bool
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        found = others(host.instances, request.flavor.id)
        text = f'runs instances of another flavor: {", ".join(found)}'
        return Reason(Code.OTHER_FLAVOR_PRESENT, text)
