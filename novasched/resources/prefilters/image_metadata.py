# SPDX-License-Identifier: Apache-2.0
"""What the properties of an image ask of a compute node."""

from __future__ import annotations

from collections.abc import Iterator

from novasched.objects.image_meta import ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements

_PREFIXES = {
    'hw_cdrom_bus': 'COMPUTE_STORAGE_BUS_',
    'hw_disk_bus': 'COMPUTE_STORAGE_BUS_',
    'hw_video_model': 'COMPUTE_GRAPHICS_MODEL_',
    'hw_vif_model': 'COMPUTE_NET_VIF_MODEL_',
    'hw_architecture': 'HW_ARCH_',
    'hw_emulation_architecture': 'COMPUTE_ARCH_',
    'hw_viommu_model': 'COMPUTE_VIOMMU_',
}


def transform_image_metadata(
    request: RequestSpec, facts: Facts, *, each: bool = False
) -> Requirements | None:
    """Ask for computes with a trait for each of these properties.

    As soon as one has no trait, none is asked for; with ``each``, the others are.
    """
    wanted = list(_traits_of(request.image_properties))
    absent = [trait for trait in wanted if not traits.is_known(trait)]
    if absent and not each:
        return Requirements(failures=(traits.unknown(absent[0]),))
    added = traits.required(
        'transform_image_metadata',
        [trait for trait in wanted if trait not in absent],
        'request filter added required trait',
    )
    failures = tuple(traits.unknown(trait) for trait in absent)
    return added | Requirements(failures=failures) if wanted else None


def _traits_of(properties: ImageMetaProps) -> Iterator[str]:
    for name, prefix in _PREFIXES.items():
        value = properties.get(name)
        if value:
            yield f'{prefix}{value.replace("-", "_").upper()}'
