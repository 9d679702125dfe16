# SPDX-License-Identifier: Apache-2.0
"""Deprecated and removed options and names, with a warning at start for each one set.

Options that have a new name or group are warned about by oslo.config itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from novasched.compat import config_options
from novasched.compat.driver_loading import CACHING, DEFAULT, NOVA_DRIVERS

NOVAS = 'nova.scheduler.'
HOST_MANAGER = 'host_manager'
IRONIC_HOST_MANAGER = 'ironic_host_manager'
HOST_MANAGERS = {
    HOST_MANAGER: HOST_MANAGER,
    IRONIC_HOST_MANAGER: IRONIC_HOST_MANAGER,
    'nova.scheduler.host_manager.HostManager': HOST_MANAGER,
    'nova.scheduler.ironic_host_manager.IronicHostManager': IRONIC_HOST_MANAGER,
}

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.StrOpt(
            'host_manager',
            default=HOST_MANAGER,
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
    'chance_scheduler': (
        'hosts are drawn by chance; no filter and no weigher runs, placement is not '
        'asked, and nothing is claimed there'
    ),
}
"""What it means to have a driver that is not the default."""


def warnings(conf: Any) -> Iterator[str]:
    """Yield a line for each thing that is set and is today called otherwise, is not
    served any more, or is not what clouds should have."""
    yield from _driver(conf.scheduler.driver)
    yield from _host_manager(conf.scheduler.host_manager)
    yield from _classes(conf.filter_scheduler)
    yield from config_options.warnings(conf)
    yield from _zones(conf)


def _driver(named: str) -> Iterator[str]:
    name = NOVA_DRIVERS.get(named, named)
    if name != named:
        yield f'[scheduler] driver: {named} is called {name} today.'
    if name not in (DEFAULT, CACHING):
        meaning = DRIVERS.get(name, 'it alone answers for what it chooses')
        yield f'[scheduler] driver is {name}, not {DEFAULT}: {meaning}.'


def _host_manager(named: str) -> Iterator[str]:
    name = HOST_MANAGERS.get(named)
    option = f'[scheduler] host_manager is {named}'
    if name is None:
        yield f'{option}, which is not loaded: the states of hosts are held one way.'
    elif name == IRONIC_HOST_MANAGER:
        yield (
            f'{option}, which is not needed today: an instance takes all of a bare '
            'machine by the resource class of its flavor, in placement.'
        )
    elif name != named:
        yield f'{option}, which is what every cloud has today.'


def _classes(group: Any) -> Iterator[str]:
    standard = f'{NOVAS}filters.standard_filters'
    if standard in group.available_filters:
        yield (
            f'[filter_scheduler] available_filters: {standard} is called '
            f'{NOVAS}filters.all_filters today.'
        )
    if group.use_baremetal_filters:
        wanted = ','.join(group.baremetal_enabled_filters)
        yield (
            '[filter_scheduler] use_baremetal_filters is deprecated: '
            'baremetal_enabled_filters is what runs. Set enabled_filters to '
            f'{wanted} for the same filters.'
        )


def _zones(conf: Any) -> Iterator[str]:
    if conf.scheduler.query_placement_for_availability_zone:
        return
    if 'AvailabilityZoneFilter' not in conf.filter_scheduler.enabled_filters:
        yield (
            '[scheduler] query_placement_for_availability_zone is off and '
            '[filter_scheduler] enabled_filters lacks AvailabilityZoneFilter: the '
            'availability zone of a request is ignored.'
        )
