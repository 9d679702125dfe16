# SPDX-License-Identifier: Apache-2.0
"""Prefilters, in the order in which they add requirements to a request.

Each is a function ``(request, context) -> Requirements | None``; None adds nothing.
They run in nova's order. Nova: scheduler/request_filter.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.releases import NEWEST, Release
from novasched.resources.prefilters.aggregates import (
    isolate_aggregates,
    map_az_to_placement_aggregate,
    require_tenant_aggregate,
    routed_networks_filter,
)
from novasched.resources.prefilters.traits import (
    accelerators_filter,
    compute_status_filter,
    ephemeral_encryption_filter,
    owner_nova_filter,
    packed_virtqueue_filter,
    remote_managed_ports_filter,
    require_image_type_support,
    tpm_secret_security_filter,
    transform_image_metadata,
    virtio_sound_filter,
)
from novasched.resources.requirements import PrefilterContext, Requirements

OPTS: dict[str, list[cfg.Opt]] = {
    'scheduler': [
        cfg.BoolOpt(
            'limit_tenants_to_placement_aggregate',
            default=False,
            help="""
Restrict tenants to the aggregates that name them.

A tenant whose id is the value of an aggregate's metadata item with a key that
starts with ``filter_tenant_id`` gets only hosts of such aggregates. The aggregates
must be known to placement under the same uuids.

Related options:

* ``[scheduler] placement_aggregate_required_for_tenants``
""",
        ),
        cfg.BoolOpt(
            'placement_aggregate_required_for_tenants',
            default=False,
            help="""
Refuse the requests of tenants that no aggregate names.

It says what ``limit_tenants_to_placement_aggregate`` does with them; with False
they get any host.
""",
        ),
        cfg.BoolOpt(
            'query_placement_for_availability_zone',
            default=True,
            help="""
Use placement to determine availability zones.

Ask placement only for hosts in the aggregates whose metadata item
``availability_zone`` is the requested zone. The aggregates must be known to
placement under the same uuids. Later releases of nova have no such switch and
always do so. With False, the hosts of all zones are candidates, and a filter
has to leave out the hosts of other zones. A zone without aggregates restricts
nothing here; AvailabilityZoneFilter leaves out the hosts of other zones then,
too.
""",
        ),
        cfg.BoolOpt(
            'query_placement_for_image_type_support',
            default=False,
            help="""
Ask placement only for hosts that support the disk format of the image.

Compute nodes say which formats they support by traits such as
``COMPUTE_IMAGE_TYPE_QCOW2``. Servers that boot from a volume are not restricted.
""",
        ),
        cfg.BoolOpt(
            'enable_isolated_aggregate_filtering',
            default=False,
            help="""
Keep aggregates for those requests that need their traits.

Hosts of an aggregate whose metadata has ``trait:<name> = required`` take only
requests that require all such traits, by their flavor or image. The aggregates
must be known to placement under the same uuids.
""",
        ),
        cfg.BoolOpt(
            'image_metadata_prefilter',
            default=False,
            help="""
Ask placement only for hosts whose traits fit the properties of the image.

The properties are ``hw_cdrom_bus``, ``hw_disk_bus``, ``hw_video_model``,
``hw_vif_model``, ``hw_architecture``, ``hw_emulation_architecture`` and
``hw_viommu_model``. All compute services must report the traits.

Related options:

* ``[novasched] image_metadata_prefilter_by_property``
""",
        ),
        cfg.BoolOpt(
            'query_placement_for_routed_network_aggregates',
            default=False,
            help="""
Ask placement only for hosts that reach the segments of the requested networks.

The network service is asked for the segments of the subnets, and placement for
the aggregates of each segment.
""",
        ),
    ],
    'novasched': [
        cfg.BoolOpt(
            'image_metadata_prefilter_by_property',
            default=False,
            help="""
Let ``image_metadata_prefilter`` look at each property of an image by itself.

Nova asks for no trait at all if one property has none, as ``hw_viommu_model`` has
none. With True only such a property is left out.
""",
        ),
    ],
}

Prefilter = Callable[[RequestSpec, PrefilterContext], Requirements | None]


_ALL: tuple[tuple[Callable[..., Requirements | None], str | None], ...] = (
    (require_tenant_aggregate, 'limit_tenants_to_placement_aggregate'),
    (map_az_to_placement_aggregate, 'query_placement_for_availability_zone'),
    (require_image_type_support, 'query_placement_for_image_type_support'),
    (compute_status_filter, None),
    (isolate_aggregates, 'enable_isolated_aggregate_filtering'),
    (transform_image_metadata, 'image_metadata_prefilter'),
    (accelerators_filter, None),
    (packed_virtqueue_filter, None),
    (routed_networks_filter, 'query_placement_for_routed_network_aggregates'),
    (remote_managed_ports_filter, None),
    (ephemeral_encryption_filter, None),
    (virtio_sound_filter, None),
    (tpm_secret_security_filter, None),
    (owner_nova_filter, None),
)
"""Each with the option of group ``scheduler`` that turns it on; None if always on."""


def from_conf(conf: cfg.ConfigOpts, release: Release = NEWEST) -> tuple[Prefilter, ...]:
    """Return the prefilters that the release has and the options turn on, in order."""
    has = {
        virtio_sound_filter: release.has_virtio_sound_trait,
        tpm_secret_security_filter: release.has_tpm_secret_trait,
        owner_nova_filter: release.has_owner_trait,
    }
    strict = conf.scheduler.placement_aggregate_required_for_tenants
    each = conf.novasched.image_metadata_prefilter_by_property
    arguments: dict[Callable[..., Requirements | None], dict[str, Any]] = {
        require_tenant_aggregate: {'strict': strict},
        transform_image_metadata: {'each': each},
    }
    return tuple(
        functools.wraps(prefilter)(functools.partial(prefilter, **arguments[prefilter]))
        if prefilter in arguments
        else prefilter
        for prefilter, option in _ALL
        if has.get(prefilter, True) and (option is None or conf.scheduler[option])
    )


def run(
    prefilters: Iterable[Prefilter],
    request: RequestSpec,
    context: PrefilterContext,
    clock: Callable[[], float] = lambda: 0.0,
) -> Requirements:
    """Return all that the prefilters add to a request, up to one that refuses it.

    ``clock`` counts seconds. Raises what the prefilters raise.
    """
    added = Requirements()
    took_s: dict[str, float] = {}
    began_s = clock()
    for prefilter in prefilters:
        part = prefilter(request, context)
        name = getattr(prefilter, '__name__', type(prefilter).__name__)
        ended_s = clock()
        took_s[name] = ended_s - began_s
        began_s = ended_s
        if part is None:
            continue
        added |= part
        if added.refused is not None:
            return replace(added, refused_by=name, took_s=took_s)
        if part.adds:
            note = f"Request filter '{name}' took {took_s[name]:.1f} seconds"
            added |= Requirements(notes=(note,))
    return replace(added, took_s=took_s)
