# SPDX-License-Identifier: Apache-2.0
"""Prefilters that require or forbid traits of compute nodes."""

import pytest

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
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


RING, RING_OF_IMAGE = 'hw:virtio_packed_ring', 'hw_virtio_packed_ring'
CRYPT, CRYPT_OF_IMAGE = 'hw:ephemeral_encryption', 'hw_ephemeral_encryption'
FORMAT, FORMAT_OF_IMAGE = f'{CRYPT}_format', f'{CRYPT_OF_IMAGE}_format'
SOUND, SOUND_OF_IMAGE = 'hw:sound_model', 'hw_sound_model'
SECRET = 'hw:tpm_secret_security'
ENCRYPTED, TPM = {CRYPT: 'true'}, {'hw:tpm_version': '2.0'}
virtqueue, encryption = packed_virtqueue_filter, ephemeral_encryption_filter
sound, tpm = virtio_sound_filter, tpm_secret_security_filter
WORDS = {
    virtqueue: ('virtqueue_filter request filter added required trait', None),
    encryption: ('ephemeral_encryption_filter added trait', encryption.__name__),
    sound: ('virtio_sound_filter added trait', sound.__name__),
    tpm: (None, tpm.__name__),
}
"""The words before a trait, and the name of a prefilter that says it was skipped."""


def added(prefilter, extra_specs=None, image=None):
    request = factories.request(extra_specs=extra_specs, image=image)
    return prefilter(request, PrefilterContext())


@cases('prefilter, extra_specs, image, traits',
    ('packed rings', virtqueue, {RING: 'true'}, {}, 'NET_VIRTIO_PACKED'),
    ('with blanks', virtqueue, {RING: ' Yes '}, {}, 'NET_VIRTIO_PACKED'),
    ('without an image', virtqueue, {RING: 'true'}, None, 'NET_VIRTIO_PACKED'),
    ('by the image', virtqueue, {}, {RING_OF_IMAGE: True}, 'NET_VIRTIO_PACKED'),
    ('by both', virtqueue, {RING: 'on'}, {RING_OF_IMAGE: True}, 'NET_VIRTIO_PACKED'),
    ('no packed rings', virtqueue, {}, {}, ''),
    ('nonsense', virtqueue, {RING: 'perhaps'}, {}, ''),
    ('empty', virtqueue, {RING: ''}, {}, ''),
    ('the image does not', virtqueue, {}, {RING_OF_IMAGE: False}, ''),
    ('neither does', virtqueue, {RING: 'perhaps'}, {RING_OF_IMAGE: False}, ''),
    ('encryption', encryption, ENCRYPTED, {}, 'EPHEMERAL_ENCRYPTION'),
    ('without an image, too', encryption, ENCRYPTED, None, 'EPHEMERAL_ENCRYPTION'),
    ('encryption by both', encryption, ENCRYPTED, {CRYPT_OF_IMAGE: True},
     'EPHEMERAL_ENCRYPTION'),
    ('encryption by the image', encryption, {}, {CRYPT_OF_IMAGE: True},
     'EPHEMERAL_ENCRYPTION'),
    ('an empty format', encryption, {**ENCRYPTED, FORMAT: ''}, {},
     'EPHEMERAL_ENCRYPTION'),
    ('a format', encryption, {**ENCRYPTED, FORMAT: 'plain'}, {},
     'EPHEMERAL_ENCRYPTION EPHEMERAL_ENCRYPTION_PLAIN'),
    ('a format of the image', encryption, ENCRYPTED, {FORMAT_OF_IMAGE: 'luksv2'},
     'EPHEMERAL_ENCRYPTION EPHEMERAL_ENCRYPTION_LUKSV2'),
    ('no encryption', encryption, {}, {}, ''),
    ('the flavor says no', encryption, {CRYPT: 'no'}, {}, ''),
    ('only a format', encryption, {FORMAT: 'bad'}, {}, ''),
    ('the image says no', encryption, {}, {CRYPT_OF_IMAGE: False}, ''),
    ('no sound', sound, {}, None, ''),
    ('an empty model', sound, {SOUND: ''}, None, ''),
    ('another model', sound, {SOUND: 'usb'}, None, ''),
    ('another model of the image', sound, {}, {SOUND_OF_IMAGE: 'ich6'}, ''),
    ('virtio sound', sound, {SOUND: 'virtio'}, None, 'SOUND_MODEL_VIRTIO'),
    ('by image', sound, {SOUND: ''}, {SOUND_OF_IMAGE: 'virtio'}, 'SOUND_MODEL_VIRTIO'),
    ('virtio sound by both', sound, {SOUND: 'virtio'}, {SOUND_OF_IMAGE: 'virtio'},
     'SOUND_MODEL_VIRTIO'),
    ('no TPM', tpm, {SECRET: 'bad'}, None, ''),
    ('no level', tpm, TPM, None, 'SECURITY_TPM_SECRET_SECURITY_USER'),
    ('a TPM of the image', tpm, {}, {'hw_tpm_version': '1.2'},
     'SECURITY_TPM_SECRET_SECURITY_USER'),
    ('an empty level', tpm, {**TPM, SECRET: ''}, None,
     'SECURITY_TPM_SECRET_SECURITY_USER'),
    ('a level', tpm, {**TPM, SECRET: 'deployment'}, {},
     'SECURITY_TPM_SECRET_SECURITY_DEPLOYMENT'),
)  # fmt: skip
def test_flavor_and_image_ask_for_traits(prefilter, extra_specs, image, traits):
    words, skipped = WORDS[prefilter]
    traits = [f'COMPUTE_{trait}' for trait in traits.split()]
    expected = Requirements(
        root_required=frozenset(traits),
        notes=tuple(f'{words} {trait}' for trait in traits if words),
    )
    if not traits:
        expected = skipped and Requirements(notes=(f'{skipped} skipped',))
    assert added(prefilter, extra_specs, image) == expected


@cases('prefilter, extra_specs, image, kind, text',
    ('only the flavor has packed rings', virtqueue, {RING: 'true'},
     {RING_OF_IMAGE: False}, errors.FlavorImageConflict,
     'Flavor has hw:virtio_packed_ring extra spec explicitly set to True, '
     'conflicting with image which has hw_virtio_packed_ring explicitly set to '
     'False.'),
    ('an empty extra spec says no', virtqueue, {RING: ''}, {RING_OF_IMAGE: True},
     errors.FlavorImageConflict,
     'Flavor has hw:virtio_packed_ring extra spec explicitly set to False, '
     'conflicting with image which has hw_virtio_packed_ring explicitly set to '
     'True.'),
    ('only the flavor encrypts', encryption, ENCRYPTED, {CRYPT_OF_IMAGE: False},
     errors.FlavorImageConflict,
     'Flavor small has hw:ephemeral_encryption extra spec explicitly set to '
     'true, conflicting with image None which has hw_eph_encryption property '
     'explicitly set to False'),
    ('two formats', encryption, {**ENCRYPTED, FORMAT: 'luks'},
     {FORMAT_OF_IMAGE: 'plain'}, errors.FlavorImageConflict,
     'Flavor small has hw:ephemeral_encryption_format extra spec explicitly set '
     'to luks, conflicting with image None which has '
     'hw_ephemeral_encryption_format explicitly set to plain.'),
    ('an unknown format', encryption, {**ENCRYPTED, FORMAT: 'LUKS'}, {},
     errors.InvalidDemand,
     'Invalid ephemeral encryption format LUKS. Allowed values: plain, luks, '
     'luksv2'),
    ('an unknown sound model', sound, {SOUND: 'VIRTIO'}, None, errors.InvalidDemand,
     "Invalid sound device model 'VIRTIO'. Allowed values: sb16, es1370, pcspk, "
     'ac97, ich6, ich9, usb, virtio.'),
    ('two sound models', sound, {SOUND: 'virtio'}, {SOUND_OF_IMAGE: 'usb'},
     errors.FlavorImageConflict,
     'Flavor small has hw:sound_model extra spec explicitly set to virtio, '
     'conflicting with image None which has hw_sound_model explicitly set to usb.'),
    ('an odd TPM', tpm, {'hw:tpm_version': '3'}, None, errors.InvalidDemand,
     "Invalid TPM version '3'. Allowed values: 1.2, 2.0."),
)  # fmt: skip
def test_nonsense_is_refused_in_novas_words(prefilter, extra_specs, image, kind, text):
    with pytest.raises(kind) as raised:
        added(prefilter, extra_specs, image)
    assert str(raised.value) == text


def test_an_unknown_level_gets_no_host():
    problem = "TPM secret security 'USER' is not supported."
    assert added(tpm, {**TPM, SECRET: 'USER'}) == Requirements(
        warnings=(problem,), refused=problem
    )
