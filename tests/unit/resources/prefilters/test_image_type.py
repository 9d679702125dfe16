# SPDX-License-Identifier: Apache-2.0
"""The disk format of the image as a trait."""

from __future__ import annotations

import pytest

from novasched.objects.image_meta import ImageMeta
from novasched.objects.request_spec import RequestSpec
from novasched.resources.prefilters.image_type import require_image_type_support
from novasched.resources.prefilters.requirements import Facts, Requirements
from tests import factories


def request(**values):
    made = factories.request()
    made.assign(**values)
    return made


@pytest.mark.parametrize(
    'name',
    ['aki', 'ami', 'ari', 'iso', 'qcow2', 'raw', 'vdi', 'vhd', 'vhdx', 'vmdk', 'ploop'],
)
@pytest.mark.parametrize('from_volume', [{}, {'is_bfv': False}])
def test_formats_with_a_trait(name, from_volume):
    asked = request(image=ImageMeta(disk_format=name), **from_volume)
    trait = f'COMPUTE_IMAGE_TYPE_{name.upper()}'
    assert require_image_type_support(asked, Facts()) == Requirements(
        root_required=frozenset({trait}),
        notes=(
            f'require_image_type_support request filter added required trait {trait}',
        ),
    )


def test_a_format_without_a_trait_is_told():
    asked = request(image=ImageMeta(disk_format='docker'), is_bfv=False)
    assert require_image_type_support(asked, Facts()) == Requirements(
        failures=(
            "Computed trait name 'COMPUTE_IMAGE_TYPE_DOCKER' is not valid; is "
            'os-traits up to date?',
        )
    )


@pytest.mark.parametrize(
    'asked',
    [
        pytest.param(request(is_bfv=False), id='no image'),
        pytest.param(RequestSpec(), id='an unset image'),
        pytest.param(request(image=ImageMeta()), id='no format'),
        pytest.param(
            request(image=ImageMeta(disk_format='raw'), is_bfv=True), id='a volume'
        ),
    ],
)
def test_what_has_no_format_is_not_restricted(asked):
    assert require_image_type_support(asked, Facts()) is None
