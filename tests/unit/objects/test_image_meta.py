# SPDX-License-Identifier: Apache-2.0
"""Images as the image service has them, and their properties."""

import pytest

from novasched import errors
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from tests.support.tables.cases import cases


def test_get():
    props = ImageMetaProps(hw_disk_bus='virtio')
    assert props.get('hw_disk_bus') == 'virtio'
    assert props.get('hw_vif_model') is None
    assert props.get('hw_vif_model', 'e1000') == 'e1000'
    assert props.get('no_such_property', 1) == 1


def test_unknown_keys_are_dropped():
    image = ImageMeta.from_dict({'id': 'i', 'colour': 'blue', 'deleted': False})
    assert image.id == 'i'
    assert not hasattr(image, 'colour')


def test_some_nulls_are_empty():
    names = ('name', 'checksum', 'owner', 'container_format', 'disk_format')
    sizes = ('size', 'virtual_size')
    image = ImageMeta.from_dict(dict.fromkeys((*names, *sizes)))
    assert [getattr(image, name) for name in names] == [''] * 5
    assert [getattr(image, size) for size in sizes] == [0, 0]


def test_properties_are_converted_or_kept():
    image = ImageMeta.from_dict({'properties': {'vm_mode': 'hv'}})
    assert image.properties.hw_vm_mode == 'hvm'
    assert ImageMeta.from_dict({'properties': image.properties}).properties is (
        image.properties
    )
    assert ImageMeta.from_dict({}).properties.get('hw_vm_mode') is None


@cases(
    'image, text',
    ('text for int', {'size': 'big'}, r'ImageMeta\.size: '),
    ('null id', {'id': None}, r'ImageMeta\.id: '),
    ('text', {'properties': 'x'}, r'ImageMeta\.properties: '),
    (
        'unknown bus',
        {'properties': {'hw_disk_bus': 'string'}},
        r'ImageMetaProps\.hw_disk_bus: ',
    ),
)
def test_bad_images_are_refused(image, text):
    with pytest.raises(errors.InvalidRequest, match=text):
        ImageMeta.from_dict(image)
