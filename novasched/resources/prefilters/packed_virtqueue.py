# SPDX-License-Identifier: Apache-2.0
"""Packed virtqueues of virtio network cards."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements


def packed_virtqueue_filter(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Ask for computes with packed virtqueues, if flavor or image want them.

    Raises errors.FlavorImageConflict.
    """
    text = request.extra_specs.get('hw:virtio_packed_ring')
    of_flavor = None if text is None else strutils.bool_from_string(text)
    of_image = request.image_properties.get('hw_virtio_packed_ring')
    if None not in (of_flavor, of_image) and of_flavor != of_image:
        raise errors.FlavorImageConflict(
            'Flavor has hw:virtio_packed_ring extra spec explicitly set to '
            f'{of_flavor}, conflicting with image which has hw_virtio_packed_ring '
            f'explicitly set to {of_image}.'
        )
    if not (of_flavor or of_image):
        return None
    return traits.required(
        'virtqueue_filter',
        [os_traits.COMPUTE_NET_VIRTIO_PACKED],
        'request filter added required trait',
    )
