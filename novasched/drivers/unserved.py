# SPDX-License-Identifier: Apache-2.0
"""Options of nova that are read but not served yet: who sets one is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.BoolOpt(
            'limit_tenants_to_placement_aggregate',
            default=False,
            help="""
Restrict tenants to the aggregates that name them.

A tenant whose id is the value of an aggregate's metadata item with a key that
starts with ``filter_tenant_id`` gets only hosts of such aggregates. Not served
yet: the start warns if it is set.
""",
        ),
        cfg.BoolOpt(
            'placement_aggregate_required_for_tenants',
            default=False,
            help="""
Refuse the requests of tenants that no aggregate names.

It says what ``limit_tenants_to_placement_aggregate`` does with them; else they
get any host. Not served yet: the start warns if it is set.
""",
        ),
        cfg.BoolOpt(
            'enable_isolated_aggregate_filtering',
            default=False,
            help="""
Keep aggregates for those requests that need their traits.

Hosts of an aggregate whose metadata has ``trait:<name> = required`` take only
requests that require all such traits. Not served yet: the start warns if it is
set.
""",
        ),
        cfg.BoolOpt(
            'query_placement_for_image_type_support',
            default=False,
            help="""
Ask placement only for hosts that support the disk format of the image.

Not served yet: the start warns if it is set.
""",
        ),
        cfg.BoolOpt(
            'image_metadata_prefilter',
            default=False,
            help="""
Ask placement only for hosts whose traits fit the properties of the image.

Not served yet: the start warns if it is set.
""",
        ),
        cfg.BoolOpt(
            'query_placement_for_routed_network_aggregates',
            default=False,
            help="""
Ask placement only for hosts that reach the segments of the requested networks.

Not served yet: the start warns if it is set.
""",
        ),
    ],
}

MEANING = {
    'limit_tenants_to_placement_aggregate': (
        'tenants get hosts outside of the aggregates that name them'
    ),
    'placement_aggregate_required_for_tenants': (
        'tenants that no aggregate names get any host'
    ),
    'enable_isolated_aggregate_filtering': (
        'hosts of isolated aggregates take requests that do not need their traits'
    ),
    'query_placement_for_image_type_support': (
        'hosts may be chosen that do not support the disk format of the image'
    ),
    'image_metadata_prefilter': (
        'hosts may be chosen that lack what the properties of the image ask for'
    ),
    'query_placement_for_routed_network_aggregates': (
        'hosts may be chosen that do not reach the segments of the networks'
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
