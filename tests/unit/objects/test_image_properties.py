# SPDX-License-Identifier: Apache-2.0
"""Older names of image properties are read as the present ones."""

import pytest

from novasched import errors
from novasched.objects import image_meta
from novasched.objects.image_meta import ImageMetaProps
from tests.support.tables.cases import cases


@cases('given, found',
    ('older name', {'architecture': 'x86_64'}, {'hw_architecture': 'x86_64'}),
    ('the new name wins', {'architecture': 'i686', 'hw_architecture': 'x86_64'},
     {'hw_architecture': 'x86_64'}),
    ('adapter ide', {'vmware_adaptertype': 'ide'}, {'hw_disk_bus': 'ide'}),
    ('another adapter', {'vmware_adaptertype': 'lsiLogic'},
     {'hw_disk_bus': 'scsi', 'hw_scsi_model': 'lsilogic'}),
    ('memory of nodes, up to the first gap',
     {'hw_numa_mem.0': '512', 'hw_numa_mem.1': '1024', 'hw_numa_mem.3': '1'},
     {'hw_numa_mem': [512, 1024]}),
    ('CPUs of nodes', {'hw_numa_cpus.0': '0-3,^2', 'hw_numa_cpus.1': '2, 4'},
     {'hw_numa_cpus': [{0, 1, 3}, {2, 4}]}),
    ('required traits',
     {'trait:HW_CPU_X86_VMX': 'required', 'trait:OTHER': 'forbidden'},
     {'traits_required': ['HW_CPU_X86_VMX']}),
    ('traits by name win over a list of them',
     {'traits_required': ['A'], 'trait:B': 'required'}, {'traits_required': ['B']}),
    ('JSON text', {'block_device_mapping': '[{"boot_index": 0, "id": null}]'},
     {'img_block_device_mapping': [{'boot_index': '0', 'id': None}]}),
    ('null', {'hw_disk_bus': None}, {}),
    ('unknown', {'colour': 'blue'}, {}),
)  # fmt: skip
def test_properties(given, found):
    props = ImageMetaProps.from_dict(given)
    names = [name for name in ImageMetaProps.fields if name in props]
    assert {name: getattr(props, name) for name in names} == found
    assert props.obj_what_changed() == set()


@pytest.mark.parametrize(('old', 'new'), image_meta.PRESENT_NAMES.items())
def test_every_present_name_is_known(old, new):
    assert new in ImageMetaProps.fields
    assert old not in ImageMetaProps.fields


@pytest.mark.parametrize(
    'given', [{'hw_numa_mem.0': 'much'}, {'hw_numa_cpus.0': '0-x'}, {'mappings': '{'}]
)
def test_nonsense_is_refused_by_name(given):
    with pytest.raises(errors.InvalidRequest, match=r'ImageMetaProps\.'):
        ImageMetaProps.from_dict(given)
