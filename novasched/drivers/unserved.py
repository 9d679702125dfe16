# SPDX-License-Identifier: Apache-2.0
"""Options of nova that are read but not served yet: who sets one is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.IntOpt(
            'discover_hosts_in_cells_interval',
            default=-1,
            min=-1,
            help="""
Seconds between searches for new hosts in the cells; 0: 60, -1: never.

Not served yet: the start warns if it is set. Run ``nova-manage cell_v2
discover_hosts`` or ``novasched-manage cell_v2 discover_hosts`` instead.
""",
        ),
    ],
}

MEANING = {
    'discover_hosts_in_cells_interval': (
        'new compute hosts stay unknown until somebody runs '
        'novasched-manage cell_v2 discover_hosts'
    ),
}
"""What it means for the operator that an option is not served."""


def warnings(conf: Any) -> Iterator[str]:
    """Yield a line for each option that is set, and for what none restricts."""
    group = conf.scheduler
    for opt in OPTS['scheduler']:
        if group[opt.dest] != opt.default:
            meaning = MEANING[opt.dest]
            yield f'[scheduler] {opt.name} is not served yet: {meaning}.'
    if group.query_placement_for_availability_zone:
        return
    if 'AvailabilityZoneFilter' not in conf.filter_scheduler.enabled_filters:
        yield (
            '[scheduler] query_placement_for_availability_zone is off and '
            '[filter_scheduler] enabled_filters lacks AvailabilityZoneFilter: the '
            'availability zone of a request is ignored.'
        )
