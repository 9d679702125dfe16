# SPDX-License-Identifier: Apache-2.0
"""Deprecated and removed options and names, with a warning at start for each one set.

Options that have a new name or group are warned about by oslo.config itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from novasched.compat.driver_loading import (
    CACHED_FOR_S,
    CACHING,
    DEFAULT,
    NOVA_DRIVERS,
    config_options,
)

ALL_FILTERS = 'nova.scheduler.filters.all_filters'
STANDARD_FILTERS = 'nova.scheduler.filters.standard_filters'
BARE_MACHINES = (
    'is not needed today: an instance takes all of a bare machine by the resource '
    'class of its flavor, in placement.'
)
HOST_MANAGERS = {
    'host_manager': '',
    'ironic_host_manager': BARE_MACHINES,
    'nova.scheduler.host_manager.HostManager': 'is what every cloud has today.',
    'nova.scheduler.ironic_host_manager.IronicHostManager': BARE_MACHINES,
}
"""By what the option says, the warning, if there is one."""
NOT_LOADED = 'is not loaded: the states of hosts are held one way.'

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.StrOpt(
            'host_manager',
            default='host_manager',
            deprecated_name='scheduler_host_manager',
            deprecated_group='DEFAULT',
            help="""
What held the states of the hosts in releases up to Queens.

``host_manager``, ``ironic_host_manager`` or the class path of either. There is one
way to hold them today; the start says so if this asks for another.
""",
        ),
    ],
    'filter_scheduler': [
        cfg.BoolOpt(
            'use_baremetal_filters',
            default=False,
            deprecated_name='scheduler_use_baremetal_filters',
            deprecated_group='DEFAULT',
            help="""
Run ``baremetal_enabled_filters`` instead of ``enabled_filters``.

Deprecated: the start warns if it is set. Name the filters in ``enabled_filters``.
""",
        ),
        cfg.ListOpt(
            'baremetal_enabled_filters',
            default=[
                'RetryFilter',
                'AvailabilityZoneFilter',
                'ComputeFilter',
                'ComputeCapabilitiesFilter',
                'ImagePropertiesFilter',
                'ExactRamFilter',
                'ExactDiskFilter',
                'ExactCoreFilter',
            ],
            deprecated_name='baremetal_scheduler_default_filters',
            deprecated_group='DEFAULT',
            help='The filters of a cloud of bare machines, see use_baremetal_filters.',
        ),
    ],
}

DRIVERS = {
    CACHING: 'candidates come from a copy of placement, and hosts may be '
    f'{CACHED_FOR_S:.0f} s old, unless [novasched] candidates and host_state_max_age '
    'say otherwise',
    'chance_scheduler': (
        'hosts are drawn by chance; no filter and no weigher runs, placement is not '
        'asked, and nothing is claimed there'
    ),
}
"""What it means to have a driver that is not the default."""


def warnings(conf: Any) -> Iterator[str]:
    """Yield a line for each setting that is renamed, no longer served, or not what
    clouds should have."""
    named = conf.scheduler.driver
    name = NOVA_DRIVERS.get(named, named)
    if name != named and name != CACHING:
        yield f'[scheduler] driver: {named} is called {name} today.'
    if name != DEFAULT:
        meaning = DRIVERS.get(name, 'it alone answers for what it chooses')
        yield f'[scheduler] driver is {name}, not {DEFAULT}: {meaning}.'
    host_manager = conf.scheduler.host_manager
    if said := HOST_MANAGERS.get(host_manager, NOT_LOADED):
        yield f'[scheduler] host_manager is {host_manager}, which {said}'
    group = conf.filter_scheduler
    if STANDARD_FILTERS in group.available_filters:
        yield (
            f'[filter_scheduler] available_filters: {STANDARD_FILTERS} is called '
            f'{ALL_FILTERS} today.'
        )
    if group.use_baremetal_filters:
        yield (
            '[filter_scheduler] use_baremetal_filters is deprecated: '
            'baremetal_enabled_filters is what runs. Set enabled_filters to '
            f'{",".join(group.baremetal_enabled_filters)} for the same filters.'
        )
    _, unreadable = config_options(conf)
    if unreadable:
        yield unreadable
    asks_zones = conf.scheduler.query_placement_for_availability_zone
    if not asks_zones and 'AvailabilityZoneFilter' not in group.enabled_filters:
        yield (
            '[scheduler] query_placement_for_availability_zone is off and '
            '[filter_scheduler] enabled_filters lacks AvailabilityZoneFilter: the '
            'availability zone of a request is ignored.'
        )
