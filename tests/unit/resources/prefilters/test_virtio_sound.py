# SPDX-License-Identifier: Apache-2.0
"""Virtio sound devices."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources.prefilters.requirements import Facts, Requirements
from novasched.resources.prefilters.virtio_sound import virtio_sound_filter
from tests import factories

TRAIT = 'COMPUTE_SOUND_MODEL_VIRTIO'
ADDED = Requirements(
    root_required=frozenset({TRAIT}),
    notes=(f'virtio_sound_filter added trait {TRAIT}',),
)
SKIPPED = Requirements(notes=('virtio_sound_filter skipped',))


def added(of_flavor, of_image):
    extra_specs = {} if of_flavor is None else {'hw:sound_model': of_flavor}
    image = None if of_image is None else {'hw_sound_model': of_image}
    request = factories.request(extra_specs=extra_specs, image=image)
    return virtio_sound_filter(request, Facts())


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'outcome'),
    [
        (None, None, SKIPPED),
        ('', None, SKIPPED),
        ('usb', None, SKIPPED),
        (None, 'ich6', SKIPPED),
        ('virtio', None, ADDED),
        (None, 'virtio', ADDED),
        ('', 'virtio', ADDED),
        ('virtio', 'virtio', ADDED),
    ],
)
def test_sound(of_flavor, of_image, outcome):
    assert added(of_flavor, of_image) == outcome


def test_an_unknown_model():
    with pytest.raises(errors.InvalidDemand) as raised:
        added('VIRTIO', None)
    assert str(raised.value) == (
        "Invalid sound device model 'VIRTIO'. Allowed values: sb16, es1370, pcspk, "
        'ac97, ich6, ich9, usb, virtio.'
    )


def test_flavor_and_image_must_agree():
    with pytest.raises(errors.FlavorImageConflict):
        added('virtio', 'usb')
