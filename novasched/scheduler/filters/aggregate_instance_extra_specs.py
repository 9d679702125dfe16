# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the metadata of their aggregates and the flavor's extra specs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, extra_specs
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import REJECTED, Code, Reason

SCOPE = 'aggregate_instance_extra_specs'


def scoped(request: RequestSpec) -> list[tuple[str, str]]:
    """Return the extra specs without a scope or with this filter's, unscoped."""
    found = []
    for key, requirement in request.extra_specs.items():
        scope, colon, name = key.partition(':')
        if not colon:
            found.append((key, requirement))
        elif scope == SCOPE:
            found.append((name, requirement))
    return found


class AggregateInstanceExtraSpecsFilter(ColumnFilter):
    """Pass hosts whose aggregates satisfy every extra spec that is meant for them.

    Those are the extra specs without a scope and with the scope
    ``aggregate_instance_extra_specs``. An extra spec is a value or an operator and a
    value, as in ``>= 4`` or ``<or> fast <or> slow``. Comma-separated values of an
    aggregate, and those of several aggregates, are alternatives. Raises ValueError
    where an operator on numbers meets text. Nova:
    scheduler/filters/aggregate_instance_extra_specs.py.
    """

    codes = (Code.EXTRA_SPEC_MISSING, Code.EXTRA_SPEC_DIFFERS, Code.REJECTED)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = scoped(request)
        if not wanted:
            return np.ones(len(hosts), bool)
        return hosts.aggregates.map(lambda a: not any(self._failures(a, wanted)))

    def _failures(
        self, host_aggregates: aggregates.Aggregates, wanted: list[tuple[str, str]]
    ) -> Iterator[Reason]:
        offered = aggregates.metadata(host_aggregates)
        for name, requirement in wanted:
            values = sorted(offered.get(name, ()))
            if not values:
                text = f'extra spec {name} is not in an aggregate'
                yield Reason(Code.EXTRA_SPEC_MISSING, text)
            elif not any(extra_specs.match(value, requirement) for value in values):
                text = f'{name} is {", ".join(values)}, not {requirement}'
                yield Reason(Code.EXTRA_SPEC_DIFFERS, text)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        return next(self._failures(host.aggregates, scoped(request)), REJECTED)
