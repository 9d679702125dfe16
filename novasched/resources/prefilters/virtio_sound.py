# SPDX-License-Identifier: Apache-2.0
"""Virtio sound devices."""

from __future__ import annotations

import os_traits  # type: ignore[import-untyped]

from novasched.objects.request_spec import RequestSpec
from novasched.resources.demands import agreed, one_of
from novasched.resources.prefilters import traits
from novasched.resources.prefilters.requirements import Facts, Requirements

MODELS = ('sb16', 'es1370', 'pcspk', 'ac97', 'ich6', 'ich9', 'usb', 'virtio')


def virtio_sound_filter(request: RequestSpec, facts: Facts) -> Requirements | None:
    """Ask for computes with virtio sound; every compute has the other models.

    Raises errors.FlavorImageConflict, and errors.InvalidDemand for an unknown model.
    """
    model = agreed(request, 'hw:sound_model')
    if model:
        one_of(MODELS, model, 'sound device model')
    if model != 'virtio':
        return Requirements(notes=('virtio_sound_filter skipped',))
    trait = os_traits.COMPUTE_SOUND_MODEL_VIRTIO
    return traits.required('virtio_sound_filter', [trait], 'added trait')
