# SPDX-License-Identifier: Apache-2.0
"""Prefilters: what a request needs beyond what it says, before placement is asked.

Each is a function ``(request, facts) -> Requirements | None``; None: nothing to
add. They run in nova's order. Nova: scheduler/request_filter.py.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.accelerators import accelerators_filter
from novasched.resources.prefilters.availability_zone import (
    map_az_to_placement_aggregate,
)
from novasched.resources.prefilters.compute_status import compute_status_filter
from novasched.resources.prefilters.ephemeral_encryption import (
    ephemeral_encryption_filter,
)
from novasched.resources.prefilters.image_metadata import transform_image_metadata
from novasched.resources.prefilters.image_type import require_image_type_support
from novasched.resources.prefilters.isolated_aggregates import isolate_aggregates
from novasched.resources.prefilters.owner_nova import owner_nova_filter
from novasched.resources.prefilters.packed_virtqueue import packed_virtqueue_filter
from novasched.resources.prefilters.remote_managed_ports import (
    remote_managed_ports_filter,
)
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.resources.prefilters.routed_networks import routed_networks_filter
from novasched.resources.prefilters.tenants import require_tenant_aggregate
from novasched.resources.prefilters.tpm_secret_security import (
    tpm_secret_security_filter,
)
from novasched.resources.prefilters.virtio_sound import virtio_sound_filter

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
always do so; with False, the hosts of all zones are candidates, and a filter
has to leave out those of other zones. A zone without aggregates restricts
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

Prefilter = Callable[[RequestSpec, Facts], Requirements | None]


class _Entry(NamedTuple):
    run: Callable[..., Requirements | None]
    option: str | None = None
    """The option of group ``scheduler`` that turns it on; None: always on."""


_ALL = (
    _Entry(require_tenant_aggregate, 'limit_tenants_to_placement_aggregate'),
    _Entry(map_az_to_placement_aggregate, 'query_placement_for_availability_zone'),
    _Entry(require_image_type_support, 'query_placement_for_image_type_support'),
    _Entry(compute_status_filter),
    _Entry(isolate_aggregates, 'enable_isolated_aggregate_filtering'),
    _Entry(transform_image_metadata, 'image_metadata_prefilter'),
    _Entry(accelerators_filter),
    _Entry(packed_virtqueue_filter),
    _Entry(routed_networks_filter, 'query_placement_for_routed_network_aggregates'),
    _Entry(remote_managed_ports_filter),
    _Entry(ephemeral_encryption_filter),
    _Entry(virtio_sound_filter),
    _Entry(tpm_secret_security_filter),
    _Entry(owner_nova_filter),
)


def from_conf(conf: cfg.ConfigOpts) -> tuple[Prefilter, ...]:
    """Return the prefilters that are turned on, in their order."""
    more = _arguments(conf)
    return tuple(
        functools.wraps(entry.run)(functools.partial(entry.run, **more[entry.run]))
        if entry.run in more
        else entry.run
        for entry in _ALL
        if entry.option is None or conf.scheduler[entry.option]
    )


def _arguments(
    conf: cfg.ConfigOpts,
) -> dict[Callable[..., Requirements | None], dict[str, Any]]:
    """Return what some prefilters need to be told besides request and facts."""
    strict = conf.scheduler.placement_aggregate_required_for_tenants
    each = conf.novasched.image_metadata_prefilter_by_property
    return {
        require_tenant_aggregate: {'strict': strict},
        transform_image_metadata: {'each': each},
    }


def run(
    prefilters: Iterable[Prefilter],
    request: RequestSpec,
    facts: Facts,
    clock: Callable[[], float] = lambda: 0.0,
) -> Requirements:
    """Return all that the prefilters add to a request, up to one that refuses it.

    ``clock`` counts seconds. Raises what the prefilters raise.
    """
    added = Requirements()
    for prefilter in prefilters:
        started = clock()
        part = prefilter(request, facts)
        if part is None:
            continue
        added |= part
        if added.refused is not None:
            break
        if part.adds:
            name, took_s = getattr(prefilter, '__name__', ''), clock() - started
            note = f"Request filter '{name}' took {took_s:.1f} seconds"
            added |= Requirements(notes=(note,))
    return added
