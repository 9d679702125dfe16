# SPDX-License-Identifier: Apache-2.0
"""Packed virtqueues."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources.prefilters.packed_virtqueue import packed_virtqueue_filter
from novasched.resources.prefilters.requirements import Facts, Requirements
from tests import factories


def added(of_flavor, of_image):
    extra_specs = {} if of_flavor is None else {'hw:virtio_packed_ring': of_flavor}
    image = {} if of_image is None else {'hw_virtio_packed_ring': of_image}
    request = factories.request(extra_specs=extra_specs, image=image)
    return packed_virtqueue_filter(request, Facts())


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'wanted'),
    [
        (None, None, False),
        ('true', None, True),
        (' Yes ', None, True),
        ('perhaps', None, False),
        ('', None, False),
        (None, True, True),
        (None, False, False),
        ('on', True, True),
        ('perhaps', False, False),
    ],
)
def test_packed_virtqueues(of_flavor, of_image, wanted):
    assert added(of_flavor, of_image) == (
        Requirements(
            root_required=frozenset({'COMPUTE_NET_VIRTIO_PACKED'}),
            notes=(
                'virtqueue_filter request filter added required trait '
                'COMPUTE_NET_VIRTIO_PACKED',
            ),
        )
        if wanted
        else None
    )


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'said'),
    [('true', False, True), ('no', True, False), ('', True, False)],
)
def test_flavor_and_image_must_agree(of_flavor, of_image, said):
    with pytest.raises(errors.FlavorImageConflict) as raised:
        added(of_flavor, of_image)
    assert str(raised.value) == (
        f'Flavor has hw:virtio_packed_ring extra spec explicitly set to {said}, '
        'conflicting with image which has hw_virtio_packed_ring explicitly set to '
        f'{of_image}.'
    )


def test_a_request_without_an_image_has_its_flavor():
    extra_specs = {'hw:virtio_packed_ring': 'true'}
    found = packed_virtqueue_filter(factories.request(extra_specs=extra_specs), Facts())
    assert found.adds
