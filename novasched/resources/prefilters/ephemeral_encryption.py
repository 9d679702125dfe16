# SPDX-License-Identifier: Apache-2.0
"""Encryption of ephemeral disks."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.resources.demands import agreed, flavor_name, image_name
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements

FORMATS = ('plain', 'luks', 'luksv2')


def ephemeral_encryption_filter(
    request: RequestSpec, facts: Facts
) -> Requirements | None:
    """Ask for computes that encrypt ephemeral disks, in the format that is asked for.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an unknown format.
    """
    if not _is_wanted(request):
        return Requirements(notes=('ephemeral_encryption_filter skipped',))
    trait = os_traits.COMPUTE_EPHEMERAL_ENCRYPTION
    wanted = [trait]
    format_ = agreed(request, 'hw:ephemeral_encryption_format')
    if format_:
        if format_ not in FORMATS:
            raise errors.InvalidDemand(
                f'Invalid ephemeral encryption format {format_}. Allowed values: '
                f'{", ".join(FORMATS)}'
            )
        wanted.append(f'{trait}_{format_.upper()}')
    return traits.required('ephemeral_encryption_filter', wanted, 'added trait')


def _is_wanted(request: RequestSpec) -> bool:
    text = request.extra_specs.get('hw:ephemeral_encryption')
    of_flavor = None if text is None else strutils.bool_from_string(text)
    of_image = request.image_properties.get('hw_ephemeral_encryption')
    if None not in (of_flavor, of_image) and of_flavor != of_image:
        raise errors.FlavorImageConflict(
            f'Flavor {flavor_name(request)} has hw:ephemeral_encryption extra spec '
            f'explicitly set to {text}, conflicting with image {image_name(request)} '
            f'which has hw_eph_encryption property explicitly set to {of_image}'
        )
    return bool(of_flavor or of_image)
