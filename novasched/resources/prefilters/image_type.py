# SPDX-License-Identifier: Apache-2.0
"""The disk format of the image."""

from __future__ import annotations

from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements


def require_image_type_support(
    request: RequestSpec, facts: Facts
) -> Requirements | None:
    """Ask for computes that can boot from the disk format of the image.

    A volume has none, nor has a request without an image or without a format.
    """
    image = request.image if 'image' in request else None
    from_volume = 'is_bfv' in request and request.is_bfv
    if from_volume or image is None or 'disk_format' not in image:
        return None
    trait = f'COMPUTE_IMAGE_TYPE_{image.disk_format.upper()}'
    if not traits.is_known(trait):
        return Requirements(failures=(traits.unknown(trait),))
    return traits.required(
        'require_image_type_support', [trait], 'request filter added required trait'
    )
