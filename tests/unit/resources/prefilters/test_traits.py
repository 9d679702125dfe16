# SPDX-License-Identifier: Apache-2.0
"""Prefilters that require or forbid traits of compute nodes."""

import pytest

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.machine import ARCHITECTURES, DISK_BUSES, VIF_MODELS
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import RequestGroup, RequestLevelParams, RequestSpec
from novasched.resources.prefilters.traits import (
    accelerators_filter,
    compute_status_filter,
    ephemeral_encryption_filter,
    owner_nova_filter,
    packed_virtqueue_filter,
    require_image_type_support,
    tpm_secret_security_filter,
    transform_image_metadata,
    virtio_sound_filter,
)
from novasched.resources.requirements import PrefilterContext, Requirements
from tests.support.clouds import factories
from tests.support.tables.cases import cases

R1, R2 = (f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(2))


OWNER = frozenset({'OWNER_NOVA'})


def spec(extra_specs=None, **fields):
    return RequestSpec(flavor=Flavor(extra_specs=extra_specs or {}), **fields)


def test_disabled_computes_are_left_out():
    assert compute_status_filter(spec(), PrefilterContext()) == Requirements(
        root_forbidden=frozenset({'COMPUTE_STATUS_DISABLED'}),
        notes=(
            'compute_status_filter request filter added forbidden trait '
            'COMPUTE_STATUS_DISABLED',
        ),
    )


@cases(
    'extra_specs, traits',
    ('no device profile', {}, None),
    ('an empty one', {'accel:device_profile': ''}, None),
    ('one', {'accel:device_profile': 'fpga'}, {'COMPUTE_ACCELERATORS'}),
)
def test_accelerators(extra_specs, traits):
    added = accelerators_filter(spec(extra_specs), PrefilterContext())
    assert (added and added.root_required) == traits


def test_old_computes_do_not_mark_their_providers():
    added = owner_nova_filter(spec(), PrefilterContext(minimum_compute_version=72))
    assert added == Requirements(
        warnings=(
            'OWNER_NOVA trait not added to scheduling request: not all nova-compute '
            'services are upgraded (min_version=72, need 73).',
        )
    )


def test_new_computes_mark_their_providers():
    added = owner_nova_filter(spec(), PrefilterContext(minimum_compute_version=73))
    assert (added.root_required, added.group_required) == (OWNER, {})
    assert added.warnings == ()


def test_a_request_may_ask_for_nova_itself():
    params = RequestLevelParams(root_required={'OWNER_NOVA'})
    assert (
        owner_nova_filter(spec(request_level_params=params), PrefilterContext()) is None
    )


def test_owner_nova_is_required_of_pci_groups_but_not_of_ports():
    requests = [
        InstancePCIRequest(request_id=R1, alias_name='gpu'),
        InstancePCIRequest(request_id=R2, alias_name=None),
    ]
    suffixes = [f'{R1}-0', f'{R1}-1', f'{R2}-0', R1, None]
    asked = spec(
        pci_requests=InstancePCIRequests(requests=requests),
        requested_resources=[RequestGroup(requester_id=s) for s in suffixes],
    )
    added = owner_nova_filter(asked, PrefilterContext(minimum_compute_version=74))
    assert added.group_required == {f'{R1}-0': OWNER, f'{R1}-1': OWNER}
    assert len(added.notes) == 2
    assert all(not group.required_traits for group in asked.requested_resources)


def request_with(**values):
    made = factories.request()
    made.assign(**values)
    return made


@pytest.mark.parametrize(
    'name',
    ['aki', 'ami', 'ari', 'iso', 'qcow2', 'raw', 'vdi', 'vhd', 'vhdx', 'vmdk', 'ploop'],
)
@pytest.mark.parametrize('from_volume', [{}, {'is_bfv': False}])
def test_formats_with_a_trait(name, from_volume):
    asked = request_with(image=ImageMeta(disk_format=name), **from_volume)
    trait = f'COMPUTE_IMAGE_TYPE_{name.upper()}'
    assert require_image_type_support(asked, PrefilterContext()) == Requirements(
        root_required=frozenset({trait}),
        notes=(
            f'require_image_type_support request filter added required trait {trait}',
        ),
    )


def test_image_format_without_a_trait_is_reported():
    asked = request_with(image=ImageMeta(disk_format='docker'), is_bfv=False)
    assert require_image_type_support(asked, PrefilterContext()) == Requirements(
        failures=(
            "Computed trait name 'COMPUTE_IMAGE_TYPE_DOCKER' is not valid; is "
            'os-traits up to date?',
        )
    )


@cases(
    'asked',
    ('no image', request_with(is_bfv=False)),
    ('an unset image', RequestSpec()),
    ('no format', request_with(image=ImageMeta())),
    ('a volume', request_with(image=ImageMeta(disk_format='raw'), is_bfv=True)),
)
def test_image_without_a_format_is_not_restricted(asked):
    assert require_image_type_support(asked, PrefilterContext()) is None


PROPERTIES = {
    'hw_cdrom_bus': 'sata',
    'hw_disk_bus': 'virtio',
    'hw_video_model': 'none',
    'hw_vif_model': 'spapr-vlan',
    'hw_architecture': 'x86_64',
    'hw_emulation_architecture': 'aarch64',
}
VIDEO_MODELS = ('cirrus', 'gop', 'qxl', 'vga', 'virtio', 'vmvga', 'xen', 'none')
EMULATED = ('aarch64', 'mipsel', 'ppc64le', 's390x', 'x86_64')


def image_metadata_added(image, **options):
    return transform_image_metadata(
        factories.request(image=image), PrefilterContext(), **options
    )


def test_every_property_is_a_trait():
    assert [note.split()[-1] for note in image_metadata_added(PROPERTIES).notes] == [
        'COMPUTE_STORAGE_BUS_SATA',
        'COMPUTE_STORAGE_BUS_VIRTIO',
        'COMPUTE_GRAPHICS_MODEL_NONE',
        'COMPUTE_NET_VIF_MODEL_SPAPR_VLAN',
        'HW_ARCH_X86_64',
        'COMPUTE_ARCH_AARCH64',
    ]
    assert len(image_metadata_added(PROPERTIES).root_required) == 6
    assert image_metadata_added(PROPERTIES).notes[0] == (
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
    lost = {
        value
        for value in values
        if not image_metadata_added({name: value}).root_required
    }
    assert lost == ({*values} if without is None else without)


@pytest.mark.parametrize('image', [None, {}, {'hw_floppy_bus': 'fdc'}])
def test_images_that_ask_for_nothing(image):
    assert image_metadata_added(image) is None


def test_one_value_without_a_trait_turns_all_off():
    found = image_metadata_added(
        {**PROPERTIES, 'hw_architecture': 'armv7l', 'hw_viommu_model': 'auto'}
    )
    assert not found.adds
    assert found.failures == (
        "Computed trait name 'HW_ARCH_ARMV7L' is not valid; is os-traits up to date?",
    )


def test_each_property_may_be_looked_at_by_itself():
    found = image_metadata_added({**PROPERTIES, 'hw_viommu_model': 'auto'}, each=True)
    assert len(found.root_required) == 6
    assert found.failures == (
        "Computed trait name 'COMPUTE_VIOMMU_AUTO' is not valid; is os-traits up to "
        'date?',
    )
    assert image_metadata_added(PROPERTIES, each=True) == image_metadata_added(
        PROPERTIES
    )


def virtqueue_added(of_flavor, of_image):
    extra_specs = {} if of_flavor is None else {'hw:virtio_packed_ring': of_flavor}
    image = {} if of_image is None else {'hw_virtio_packed_ring': of_image}
    request = factories.request(extra_specs=extra_specs, image=image)
    return packed_virtqueue_filter(request, PrefilterContext())


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
    assert virtqueue_added(of_flavor, of_image) == (
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
def test_flavor_and_image_must_agree_on_virtqueues(of_flavor, of_image, said):
    with pytest.raises(errors.FlavorImageConflict) as raised:
        virtqueue_added(of_flavor, of_image)
    assert str(raised.value) == (
        f'Flavor has hw:virtio_packed_ring extra spec explicitly set to {said}, '
        'conflicting with image which has hw_virtio_packed_ring explicitly set to '
        f'{of_image}.'
    )


def test_a_request_without_an_image_has_the_virtqueues_of_its_flavor():
    extra_specs = {'hw:virtio_packed_ring': 'true'}
    found = packed_virtqueue_filter(
        factories.request(extra_specs=extra_specs), PrefilterContext()
    )
    assert found.adds


ENCRYPTION_TRAIT = 'COMPUTE_EPHEMERAL_ENCRYPTION'
ENCRYPTED = {'hw:ephemeral_encryption': 'true'}
ENCRYPTION_SKIPPED = Requirements(notes=('ephemeral_encryption_filter skipped',))


def encryption_added(extra_specs, properties=None):
    image = ImageMeta(name='cirros', properties=ImageMetaProps(**(properties or {})))
    request = factories.request(extra_specs=extra_specs)
    request.assign(image=image)
    return ephemeral_encryption_filter(request, PrefilterContext())


@cases(
    'extra_specs, properties',
    ('nobody says so', {}, {}),
    ('the flavor does not', {'hw:ephemeral_encryption': 'no'}, {}),
    ('format only', {'hw:ephemeral_encryption_format': 'bad'}, {}),
    ('the image does not', {}, {'hw_ephemeral_encryption': False}),
)
def test_no_encryption(extra_specs, properties):
    assert encryption_added(extra_specs, properties) == ENCRYPTION_SKIPPED


@pytest.mark.parametrize(
    ('extra_specs', 'properties', 'format_'),
    [
        (ENCRYPTED, {}, None),
        (ENCRYPTED, {'hw_ephemeral_encryption': True}, None),
        ({}, {'hw_ephemeral_encryption': True}, None),
        ({**ENCRYPTED, 'hw:ephemeral_encryption_format': ''}, {}, None),
        ({**ENCRYPTED, 'hw:ephemeral_encryption_format': 'plain'}, {}, 'PLAIN'),
        ({**ENCRYPTED, 'hw:ephemeral_encryption_format': 'luks'}, {}, 'LUKS'),
        (ENCRYPTED, {'hw_ephemeral_encryption_format': 'luksv2'}, 'LUKSV2'),
    ],
)
def test_encryption(extra_specs, properties, format_):
    found = encryption_added(extra_specs, properties)
    traits = [ENCRYPTION_TRAIT] + ([f'{ENCRYPTION_TRAIT}_{format_}'] if format_ else [])
    assert found.root_required == {*traits}
    assert list(found.notes) == [
        f'ephemeral_encryption_filter added trait {trait}' for trait in traits
    ]


@pytest.mark.parametrize(
    ('extra_specs', 'properties', 'kind', 'text'),
    [
        (
            ENCRYPTED,
            {'hw_ephemeral_encryption': False},
            errors.FlavorImageConflict,
            'Flavor small has hw:ephemeral_encryption extra spec explicitly set to '
            'true, conflicting with image cirros which has hw_eph_encryption property '
            'explicitly set to False',
        ),
        (
            {**ENCRYPTED, 'hw:ephemeral_encryption_format': 'luks'},
            {'hw_ephemeral_encryption_format': 'plain'},
            errors.FlavorImageConflict,
            'Flavor small has hw:ephemeral_encryption_format extra spec explicitly set '
            'to luks, conflicting with image cirros which has '
            'hw_ephemeral_encryption_format explicitly set to plain.',
        ),
        (
            {**ENCRYPTED, 'hw:ephemeral_encryption_format': 'LUKS'},
            {},
            errors.InvalidDemand,
            'Invalid ephemeral encryption format LUKS. Allowed values: plain, luks, '
            'luksv2',
        ),
    ],
    ids=['one wants it', 'two formats', 'an unknown format'],
)
def test_nonsense(extra_specs, properties, kind, text):
    with pytest.raises(kind) as raised:
        encryption_added(extra_specs, properties)
    assert str(raised.value) == text


def test_a_request_without_an_image_has_its_flavor():
    request = factories.request(extra_specs=ENCRYPTED)
    assert ephemeral_encryption_filter(request, PrefilterContext()).root_required == {
        ENCRYPTION_TRAIT
    }


SOUND_TRAIT = 'COMPUTE_SOUND_MODEL_VIRTIO'
SOUND_ADDED = Requirements(
    root_required=frozenset({SOUND_TRAIT}),
    notes=(f'virtio_sound_filter added trait {SOUND_TRAIT}',),
)
SOUND_SKIPPED = Requirements(notes=('virtio_sound_filter skipped',))


def sound_added(of_flavor, of_image):
    extra_specs = {} if of_flavor is None else {'hw:sound_model': of_flavor}
    image = None if of_image is None else {'hw_sound_model': of_image}
    request = factories.request(extra_specs=extra_specs, image=image)
    return virtio_sound_filter(request, PrefilterContext())


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'outcome'),
    [
        (None, None, SOUND_SKIPPED),
        ('', None, SOUND_SKIPPED),
        ('usb', None, SOUND_SKIPPED),
        (None, 'ich6', SOUND_SKIPPED),
        ('virtio', None, SOUND_ADDED),
        (None, 'virtio', SOUND_ADDED),
        ('', 'virtio', SOUND_ADDED),
        ('virtio', 'virtio', SOUND_ADDED),
    ],
)
def test_sound(of_flavor, of_image, outcome):
    assert sound_added(of_flavor, of_image) == outcome


def test_an_unknown_model():
    with pytest.raises(errors.InvalidDemand) as raised:
        sound_added('VIRTIO', None)
    assert str(raised.value) == (
        "Invalid sound device model 'VIRTIO'. Allowed values: sb16, es1370, pcspk, "
        'ac97, ich6, ich9, usb, virtio.'
    )


def test_flavor_and_image_must_agree():
    with pytest.raises(errors.FlavorImageConflict):
        sound_added('virtio', 'usb')


TPM = {'hw:tpm_version': '2.0'}
TPM_TRAIT = 'COMPUTE_SECURITY_TPM_SECRET_SECURITY_'


def tpm_added(extra_specs, image=None):
    request = factories.request(extra_specs=extra_specs, image=image)
    return tpm_secret_security_filter(request, PrefilterContext())


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'level'),
    [
        (TPM, None, 'USER'),
        ({}, {'hw_tpm_version': '1.2'}, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': ''}, None, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': 'user'}, None, 'USER'),
        ({**TPM, 'hw:tpm_secret_security': 'host'}, None, 'HOST'),
        ({**TPM, 'hw:tpm_secret_security': 'deployment'}, {}, 'DEPLOYMENT'),
    ],
)
def test_levels(extra_specs, image, level):
    expected = Requirements(root_required=frozenset({f'{TPM_TRAIT}{level}'}))
    assert tpm_added(extra_specs, image) == expected


@pytest.mark.parametrize('extra_specs', [{}, {'hw:tpm_secret_security': 'bad'}])
def test_no_tpm(extra_specs):
    skipped = Requirements(notes=('tpm_secret_security_filter skipped',))
    assert tpm_added(extra_specs) == skipped


def test_an_unknown_level_gets_no_host():
    problem = "TPM secret security 'USER' is not supported."
    assert tpm_added({**TPM, 'hw:tpm_secret_security': 'USER'}) == Requirements(
        warnings=(problem,), refused=problem
    )


def test_an_odd_tpm_is_an_error():
    with pytest.raises(errors.InvalidDemand, match='Invalid TPM version'):
        tpm_added({'hw:tpm_version': '3'})
