# SPDX-License-Identifier: Apache-2.0
"""What flavor and image say, and how they are named where they differ."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.resources import demands
from tests.query_table import IMAGE_ID, given, request_of

NAME = 'os:secure_boot'


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'wanted'),
    [
        (None, None, None),
        ('', None, None),
        ('required', None, 'required'),
        ('', 'optional', 'optional'),
        ('optional', 'optional', 'optional'),
    ],
)
def test_agreed(of_flavor, of_image, wanted):
    request = request_of(
        given(
            extra_specs={} if of_flavor is None else {NAME: of_flavor},
            image=of_image and {'os_secure_boot': of_image},
        )
    )
    assert demands.agreed(request, NAME) == wanted


def test_the_names():
    request = request_of(given(image={'os_secure_boot': 'optional'}))
    assert demands.flavor_name(request) == 'flavor'
    assert demands.image_name(request) == 'image'
    assert demands.image_id(request) == IMAGE_ID


@pytest.mark.parametrize(
    'request_',
    [
        pytest.param(RequestSpec(flavor=Flavor()), id='no image was set'),
        pytest.param(RequestSpec(flavor=Flavor(), image=None), id='no image'),
        pytest.param(
            RequestSpec(flavor=Flavor(), image=ImageMeta()), id='an image of a volume'
        ),
    ],
)
def test_what_has_no_name(request_):
    assert demands.flavor_name(request_) is None
    assert demands.image_name(request_) is None
    assert demands.image_id(request_) is None


def test_a_conflict_needs_no_names():
    request = RequestSpec(
        flavor=Flavor(extra_specs={NAME: 'required'}),
        image=ImageMeta(properties=ImageMetaProps(os_secure_boot='disabled')),
    )
    with pytest.raises(errors.FlavorImageConflict) as raised:
        demands.agreed(request, NAME)
    assert str(raised.value) == (
        'Flavor None has os:secure_boot extra spec explicitly set to required, '
        'conflicting with image None which has os_secure_boot explicitly set to '
        'disabled.'
    )
