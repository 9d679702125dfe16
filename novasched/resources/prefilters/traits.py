# SPDX-License-Identifier: Apache-2.0
"""Prefilters that require or forbid traits of compute nodes.

Nova: scheduler/request_filter.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors
from novasched.objects.image_meta import ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.resources.features import (
    agreed,
    flavor_name,
    one_of,
    property_of,
    trusted_platform_module,
)
from novasched.resources.requirements import PrefilterContext, Requirements

_KNOWN = frozenset(os_traits.get_traits())


def is_known(trait: str) -> bool:
    """Return whether os-traits has the trait; custom ones do not count."""
    return trait in _KNOWN


def unknown(trait: str) -> str:
    """Return the log line for a trait that os-traits does not have."""
    return f"Computed trait name '{trait}' is not valid; is os-traits up to date?"


def required(
    name: str,
    traits: Iterable[str],
    words: str = 'request filter added required trait',
) -> Requirements:
    """Return that the root provider must have the traits, with a note on each.

    ``name`` is the prefilter and ``words`` are what nova puts before the trait.
    """
    traits = list(traits)
    return Requirements(
        root_required=frozenset(traits),
        notes=tuple(f'{name} {words} {trait}' for trait in traits),
    )


def require_image_type_support(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes that can boot from the disk format of the image.

    A volume has none, nor has a request without an image or without a format.
    """
    image = request.if_set('image')
    from_volume = request.if_set('is_bfv')
    if from_volume or image is None or 'disk_format' not in image:
        return None
    trait = f'COMPUTE_IMAGE_TYPE_{image.disk_format.upper()}'
    if not is_known(trait):
        return Requirements(failures=(unknown(trait),))
    return required('require_image_type_support', [trait])


def compute_status_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements:
    """Leave out compute nodes that say that their service is disabled."""
    trait = os_traits.COMPUTE_STATUS_DISABLED
    return Requirements(
        root_forbidden=frozenset({trait}),
        notes=(f'compute_status_filter request filter added forbidden trait {trait}',),
    )


_TRAIT_PREFIXES = {
    'hw_cdrom_bus': 'COMPUTE_STORAGE_BUS_',
    'hw_disk_bus': 'COMPUTE_STORAGE_BUS_',
    'hw_video_model': 'COMPUTE_GRAPHICS_MODEL_',
    'hw_vif_model': 'COMPUTE_NET_VIF_MODEL_',
    'hw_architecture': 'HW_ARCH_',
    'hw_emulation_architecture': 'COMPUTE_ARCH_',
    'hw_viommu_model': 'COMPUTE_VIOMMU_',
}


def transform_image_metadata(
    request: RequestSpec, context: PrefilterContext, *, each: bool = False
) -> Requirements | None:
    """Ask for computes with a trait for each of these properties.

    As soon as one has no trait, none is asked for; with ``each``, the others are.
    """
    wanted = list(_traits_of(request.image_properties))
    absent = [trait for trait in wanted if not is_known(trait)]
    if absent and not each:
        return Requirements(failures=(unknown(absent[0]),))
    added = required(
        'transform_image_metadata',
        [trait for trait in wanted if trait not in absent],
    )
    failures = tuple(unknown(trait) for trait in absent)
    return added | Requirements(failures=failures) if wanted else None


def _traits_of(properties: ImageMetaProps) -> Iterator[str]:
    for name, prefix in _TRAIT_PREFIXES.items():
        value = properties.get(name)
        if value:
            yield f'{prefix}{value.replace("-", "_").upper()}'


def accelerators_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes that can attach accelerators, if the flavor wants some."""
    if not request.extra_specs.get('accel:device_profile'):
        return None
    return required('accelerators_filter', [os_traits.COMPUTE_ACCELERATORS])


def _flags(request: RequestSpec, name: str) -> tuple[bool | None, bool | None]:
    """Return the policies of flavor and image, each None if not set."""
    text = request.extra_specs.get(name)
    of_flavor = None if text is None else strutils.bool_from_string(text)
    return of_flavor, request.image_properties.get(property_of(name))


def packed_virtqueue_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes with packed virtqueues, if flavor or image want them.

    Raises errors.FlavorImageConflict.
    """
    of_flavor, of_image = _flags(request, 'hw:virtio_packed_ring')
    if None not in (of_flavor, of_image) and of_flavor != of_image:
        raise errors.FlavorImageConflict(
            'Flavor has hw:virtio_packed_ring extra spec explicitly set to '
            f'{of_flavor}, conflicting with image which has hw_virtio_packed_ring '
            f'explicitly set to {of_image}.'
        )
    if not (of_flavor or of_image):
        return None
    return required('virtqueue_filter', [os_traits.COMPUTE_NET_VIRTIO_PACKED])


def remote_managed_ports_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes that can plug remote-managed ports, if there is one.

    Raises what asking for the ports raises.
    """
    if not any(network.port_id for network in request.requested_networks):
        return None
    if not any(port.vnic_type == 'remote-managed' for port in context.ports().values()):
        return None
    return required(
        'remote_managed_ports_filter',
        [os_traits.COMPUTE_REMOTE_MANAGED_PORTS],
        'request filter added trait',
    )


ENCRYPTION_FORMATS = ('plain', 'luks', 'luksv2')


def ephemeral_encryption_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes that encrypt ephemeral disks, in the format that is asked for.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an unknown format.
    """
    if not _is_encryption_wanted(request):
        return Requirements(notes=('ephemeral_encryption_filter skipped',))
    trait = os_traits.COMPUTE_EPHEMERAL_ENCRYPTION
    wanted = [trait]
    format_ = agreed(request, 'hw:ephemeral_encryption_format')
    if format_:
        if format_ not in ENCRYPTION_FORMATS:
            raise errors.InvalidDemand(
                f'Invalid ephemeral encryption format {format_}. Allowed values: '
                f'{", ".join(ENCRYPTION_FORMATS)}'
            )
        wanted.append(f'{trait}_{format_.upper()}')
    return required('ephemeral_encryption_filter', wanted, 'added trait')


def _is_encryption_wanted(request: RequestSpec) -> bool:
    text = request.extra_specs.get('hw:ephemeral_encryption')
    of_flavor, of_image = _flags(request, 'hw:ephemeral_encryption')
    if None not in (of_flavor, of_image) and of_flavor != of_image:
        raise errors.FlavorImageConflict(
            f'Flavor {flavor_name(request)} has hw:ephemeral_encryption extra spec '
            f'explicitly set to {text}, conflicting with image '
            f'{request.of_image("name")} which has hw_eph_encryption property '
            f'explicitly set to {of_image}'
        )
    return bool(of_flavor or of_image)


SOUND_MODELS = ('sb16', 'es1370', 'pcspk', 'ac97', 'ich6', 'ich9', 'usb', 'virtio')


def virtio_sound_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes with virtio sound; every compute has the other models.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an unknown model.
    """
    model = agreed(request, 'hw:sound_model')
    if model:
        one_of(SOUND_MODELS, model, 'sound device model')
    if model != 'virtio':
        return Requirements(notes=('virtio_sound_filter skipped',))
    trait = os_traits.COMPUTE_SOUND_MODEL_VIRTIO
    return required('virtio_sound_filter', [trait], 'added trait')


TPM_SECRET_LEVELS = ('user', 'host', 'deployment')


def tpm_secret_security_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for computes with the secret security level of the flavor, else ``user``.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an odd TPM.
    """
    if trusted_platform_module(request) is None:
        return Requirements(notes=('tpm_secret_security_filter skipped',))
    level = request.extra_specs.get('hw:tpm_secret_security') or 'user'
    if level not in TPM_SECRET_LEVELS:
        problem = f"TPM secret security '{level}' is not supported."
        return Requirements(warnings=(problem,), refused=problem)
    trait = f'COMPUTE_SECURITY_TPM_SECRET_SECURITY_{level.upper()}'
    return Requirements(root_required=frozenset({trait}))


OWNER_NOVA_VERSION = 73
"""The first nova-compute that marks its providers with OWNER_NOVA."""

_OWNER: str = os_traits.OWNER_NOVA


def owner_nova_filter(
    request: RequestSpec, context: PrefilterContext
) -> Requirements | None:
    """Ask for providers of nova, once every nova-compute marks its own."""
    if _OWNER in request.root_required:
        return None
    version = context.minimum_compute_version
    if version < OWNER_NOVA_VERSION:
        warning = (
            f'{_OWNER} trait not added to scheduling request: not all nova-compute '
            f'services are upgraded (min_version={version}, need {OWNER_NOVA_VERSION}).'
        )
        return Requirements(warnings=(warning,))
    added = {suffix: frozenset({_OWNER}) for suffix in _pci_suffixes(request)}
    notes = [f'Added required trait {_OWNER} to root provider in request spec']
    if added:
        notes.append(
            f'Added required trait {_OWNER} to PCI request groups in request spec'
        )
    return Requirements(
        root_required=frozenset({_OWNER}),
        group_required=added,
        notes=tuple(notes),
    )


def _pci_suffixes(request: RequestSpec) -> list[str]:
    """Return the suffixes of the groups that stand for PCI aliases.

    They are the id of the PCI request and the number of the device; a PCI
    request without an alias comes from a network port.
    """
    pci = request.if_set('pci_requests')
    if pci is None:
        return []
    ids = {one.request_id for one in pci.requests if one.alias_name is not None}
    suffixes = [group.requester_id for group in request.requested_resources or ()]
    return [s for s in suffixes if s and s.rpartition('-')[0] in ids]
