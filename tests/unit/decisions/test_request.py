# SPDX-License-Identifier: Apache-2.0
"""Of hints and image properties a record keeps the values on its lists alone."""

import pytest

from novasched.decisions.request import HINTS, summary
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from tests.support.clouds import factories
from tests.support.tables.cases import cases


@pytest.mark.parametrize(
    ('name', 'kept'),
    [
        *(pytest.param(name, ['value'], id=name) for name in HINTS),
        pytest.param('reservation', None, id='of a plugin'),
        pytest.param('_nova_check_type', None, id='of nova itself'),
    ],
)
def test_values_of_hints(name, kept):
    request = factories.request(scheduler_hints={name: ['value']})
    assert summary(request).hints == {name: kept}


class NewerProperties(ImageMetaProps):
    """Properties of a release that knows one with none of the beginnings."""

    @classmethod
    def obj_name(cls):
        return 'ImageMetaProps'

    def set_fields(self):
        return {**super().set_fields(), 'encryption_key': 'secret'}


@cases(
    'name, value, text',
    ('hw_', 'hw_machine_type', 'q35', 'q35'),
    ('os_', 'os_distro', 'debian', 'debian'),
    ('img_', 'img_hv_type', 'kvm', 'kvm'),
    ('traits', 'traits_required', ['CUSTOM_A'], "['CUSTOM_A']"),
)
def test_properties_of_an_image(name, value, text):
    request = factories.request()
    request.image = ImageMeta(properties=NewerProperties(**{name: value}))
    assert summary(request).image.properties == {name: text}
