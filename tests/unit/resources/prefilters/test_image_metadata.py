# SPDX-License-Identifier: Apache-2.0
"""Properties of images as traits."""

from __future__ import annotations

import pytest

from novasched.objects.machine import ARCHITECTURES, DISK_BUSES, VIF_MODELS
from novasched.resources.prefilters.image_metadata import transform_image_metadata
from novasched.resources.prefilters.requirements import Facts
from tests import factories

ALL = {
    'hw_cdrom_bus': 'sata',
    'hw_disk_bus': 'virtio',
    'hw_video_model': 'none',
    'hw_vif_model': 'spapr-vlan',
    'hw_architecture': 'x86_64',
    'hw_emulation_architecture': 'aarch64',
}
VIDEO_MODELS = ('cirrus', 'gop', 'qxl', 'vga', 'virtio', 'vmvga', 'xen', 'none')
EMULATED = ('aarch64', 'mipsel', 'ppc64le', 's390x', 'x86_64')


def added(image, **options):
    return transform_image_metadata(factories.request(image=image), Facts(), **options)


def test_every_property_is_a_trait():
    assert [note.split()[-1] for note in added(ALL).notes] == [
        'COMPUTE_STORAGE_BUS_SATA',
        'COMPUTE_STORAGE_BUS_VIRTIO',
        'COMPUTE_GRAPHICS_MODEL_NONE',
        'COMPUTE_NET_VIF_MODEL_SPAPR_VLAN',
        'HW_ARCH_X86_64',
        'COMPUTE_ARCH_AARCH64',
    ]
    assert len(added(ALL).root_required) == 6
    assert added(ALL).notes[0] == (
        'transform_image_metadata request filter added required trait '
        'COMPUTE_STORAGE_BUS_SATA'
    )


@pytest.mark.parametrize(
    ('name', 'values', 'without'),
    [
        ('hw_cdrom_bus', DISK_BUSES, set()),
        ('hw_disk_bus', DISK_BUSES, set()),
        ('hw_video_model', (*VIDEO_MODELS, 'bochs'), set()),
        ('hw_vif_model', VIF_MODELS, set()),
        ('hw_architecture', ARCHITECTURES, {'armv7l'}),
        ('hw_emulation_architecture', ARCHITECTURES, {*ARCHITECTURES} - {*EMULATED}),
        ('hw_viommu_model', ('intel', 'smmuv3', 'virtio', 'auto'), None),
    ],
)
def test_values_without_a_trait(name, values, without):
    lost = {value for value in values if not added({name: value}).root_required}
    assert lost == ({*values} if without is None else without)


@pytest.mark.parametrize('image', [None, {}, {'hw_floppy_bus': 'fdc'}])
def test_images_that_ask_for_nothing(image):
    assert added(image) is None


def test_one_value_without_a_trait_turns_all_off():
    found = added({**ALL, 'hw_architecture': 'armv7l', 'hw_viommu_model': 'auto'})
    assert not found.adds
    assert found.failures == (
        "Computed trait name 'HW_ARCH_ARMV7L' is not valid; is os-traits up to date?",
    )


def test_each_property_may_be_looked_at_by_itself():
    found = added({**ALL, 'hw_viommu_model': 'auto'}, each=True)
    assert len(found.root_required) == 6
    assert found.failures == (
        "Computed trait name 'COMPUTE_VIOMMU_AUTO' is not valid; is os-traits up to "
        'date?',
    )
    assert added(ALL, each=True) == added(ALL)
