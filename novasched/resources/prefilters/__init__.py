# SPDX-License-Identifier: Apache-2.0
"""Prefilters: what a request needs beyond what it says, before placement is asked.

Each is a function ``(request, facts) -> Requirements | None``; None: nothing to
add. They run in nova's order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.accelerators import accelerators_filter
from novasched.resources.prefilters.availability_zone import (
    map_az_to_placement_aggregate,
)
from novasched.resources.prefilters.compute_status import compute_status_filter
from novasched.resources.prefilters.owner_nova import owner_nova_filter
from novasched.resources.prefilters.requirements import Facts, Requirements, merge

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.BoolOpt(
            'query_placement_for_availability_zone',
            default=True,
            help="""
Use placement to determine availability zones.

Ask placement only for hosts in the aggregates whose metadata item
``availability_zone`` is the requested zone. The aggregates must be known to
placement under the same uuids. Later releases of nova have no such switch and
always do so; with False, the hosts of all zones are candidates, and a filter
has to leave out those of other zones.
""",
        ),
    ],
}

Prefilter = Callable[[RequestSpec, Facts], Requirements | None]


class _Entry(NamedTuple):
    run: Prefilter
    option: str | None
    """The option of group ``scheduler`` that turns it on; None: always on."""


_ALL = (
    _Entry(map_az_to_placement_aggregate, 'query_placement_for_availability_zone'),
    _Entry(compute_status_filter, None),
    _Entry(accelerators_filter, None),
    _Entry(owner_nova_filter, None),
)


def from_conf(conf: cfg.ConfigOpts) -> tuple[Prefilter, ...]:
    """Return the prefilters that are turned on, in their order."""
    return tuple(
        entry.run
        for entry in _ALL
        if entry.option is None or conf.scheduler[entry.option]
    )


def run(
    prefilters: Iterable[Prefilter], request: RequestSpec, facts: Facts
) -> Requirements:
    """Return all that the prefilters add to a request."""
    added = (prefilter(request, facts) for prefilter in prefilters)
    return merge(part for part in added if part is not None)
