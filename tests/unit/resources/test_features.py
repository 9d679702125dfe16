# SPDX-License-Identifier: Apache-2.0
"""Features of flavors and images, and what each needs of the provider."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.resources import features
from novasched.resources.features import FeatureDemand, memory_encryption
from tests.query_table import IMAGE_ID, UEFI, given, request_of

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
    assert features.agreed(request, NAME) == wanted


def test_the_names():
    request = request_of(given(image={'os_secure_boot': 'optional'}))
    assert features.flavor_name(request) == 'flavor'
    assert features.image_name(request) == 'image'
    assert features.image_id(request) == IMAGE_ID


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
    assert features.flavor_name(request_) is None
    assert features.image_name(request_) is None
    assert features.image_id(request_) is None


def test_a_conflict_needs_no_names():
    request = RequestSpec(
        flavor=Flavor(extra_specs={NAME: 'required'}),
        image=ImageMeta(properties=ImageMetaProps(os_secure_boot='disabled')),
    )
    with pytest.raises(errors.FlavorImageConflict) as raised:
        features.agreed(request, NAME)
    assert str(raised.value) == (
        'Flavor None has os:secure_boot extra spec explicitly set to required, '
        'conflicting with image None which has os_secure_boot explicitly set to '
        'disabled.'
    )


TPM = 'COMPUTE_SECURITY_TPM_'
PCI = 'hw:pci_numa_affinity_policy'
MODE = 'hw:maxphysaddr_mode'


def first(extra_specs, image):
    """Return what the one feature that is asked for needs."""
    request = request_of(given(extra_specs=extra_specs, image=image))
    found = [
        demand for demand in (each(request) for each in features.FEATURES) if demand
    ]
    assert len(found) < 2
    return found[0] if found else FeatureDemand()


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'traits'),
    [
        pytest.param({}, None, [], id='none'),
        pytest.param(
            {'hw:tpm_version': '1.2'}, None, [f'{TPM}1_2', f'{TPM}TIS'], id='a TPM'
        ),
        pytest.param(
            {'hw:tpm_version': ''},
            {'hw_tpm_version': '2.0', 'hw_tpm_model': 'tpm-crb'},
            [f'{TPM}2_0', f'{TPM}CRB'],
            id='a TPM of the image',
        ),
        pytest.param({'hw:tpm_model': 'odd'}, None, [], id='a TPM of no version'),
        pytest.param(
            {PCI: 'socket'},
            {'hw_pci_numa_affinity_policy': 'socket'},
            ['COMPUTE_SOCKET_PCI_NUMA_AFFINITY'],
            id='PCI devices by the socket',
        ),
        pytest.param(
            {PCI: ''},
            {'hw_pci_numa_affinity_policy': 'socket'},
            ['COMPUTE_SOCKET_PCI_NUMA_AFFINITY'],
            id='PCI devices by the socket, says the image',
        ),
        pytest.param({PCI: 'required'}, None, [], id='PCI devices by the node'),
        pytest.param(
            {'os:secure_boot': 'required'},
            None,
            ['COMPUTE_SECURITY_UEFI_SECURE_BOOT'],
            id='secure boot',
        ),
        pytest.param({}, {'os_secure_boot': 'optional'}, [], id='secure boot, maybe'),
        pytest.param(
            {MODE: 'passthrough'},
            None,
            ['COMPUTE_ADDRESS_SPACE_PASSTHROUGH'],
            id='addresses of the host',
        ),
        pytest.param(
            {},
            {'hw_maxphysaddr_mode': 'emulate'},
            ['COMPUTE_ADDRESS_SPACE_EMULATED'],
            id='addresses of its own',
        ),
        pytest.param(
            {},
            {**UEFI, 'hw_firmware_stateless': 'true'},
            ['COMPUTE_SECURITY_STATELESS_FIRMWARE'],
            id='firmware without a state',
        ),
        pytest.param(
            {}, {**UEFI, 'hw_firmware_stateless': 'no'}, [], id='firmware with a state'
        ),
    ],
)
def test_traits(extra_specs, image, traits):
    assert first(extra_specs, image) == FeatureDemand(required=frozenset(traits))


@pytest.mark.parametrize(
    ('labels', 'amounts'),
    [
        ('6GB,16GB,6GB', {'6GB': 2, '16GB': 1}),
        ('6gb,6GB', {'6GB': 2}),
        (' a-b ,, ,a.b', {'A_B': 2}),
        (' ', {}),
    ],
)
def test_persistent_memory(labels, amounts):
    assert first({'hw:pmem': labels}, None).resources == {
        f'CUSTOM_PMEM_NAMESPACE_{label}': amount for label, amount in amounts.items()
    }


def test_stateless_firmware_of_another_type_is_told():
    assert first({}, {'hw_firmware_stateless': 'true'}) == FeatureDemand(
        warnings=(
            "The image property 'hw_firmware_stateless' is set for non UEFI firmware "
            'type. This property is ignored.',
        )
    )


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'problem', 'text'),
    [
        pytest.param(
            {'hw:tpm_version': '3'},
            None,
            errors.InvalidDemand,
            "Invalid TPM version '3'. Allowed values: 1.2, 2.0.",
            id='no such TPM',
        ),
        pytest.param(
            {'hw:tpm_version': '2.0', 'hw:tpm_model': 'crb'},
            None,
            errors.InvalidDemand,
            "Invalid TPM model 'crb'. Allowed values: tpm-tis, tpm-crb.",
            id='no such model of TPM',
        ),
        pytest.param(
            {'hw:tpm_version': '1.2', 'hw:tpm_model': 'tpm-crb'},
            None,
            errors.InvalidDemand,
            'TPM model CRB is only valid with TPM version 2.0.',
            id='a model of another TPM',
        ),
        pytest.param(
            {'hw:tpm_version': '1.2'},
            {'hw_tpm_version': '2.0'},
            errors.FlavorImageConflict,
            'Flavor flavor has hw:tpm_version extra spec explicitly set to 1.2, '
            'conflicting with image image which has hw_tpm_version explicitly set to '
            '2.0.',
            id='two TPMs',
        ),
        pytest.param(
            {PCI: 'socket'},
            {'hw_pci_numa_affinity_policy': 'legacy'},
            errors.ImagePCINUMAPolicyForbidden,
            "Image property 'hw_pci_numa_affinity_policy' is not permitted to override "
            "the 'hw:pci_numa_affinity_policy' flavor extra spec.",
            id='two PCI policies',
        ),
        pytest.param(
            {PCI: 'odd'},
            None,
            errors.InvalidPCINUMAAffinity,
            'Invalid PCI NUMA affinity configured: odd',
            id='no such PCI policy',
        ),
        pytest.param(
            {'os:secure_boot': 'odd'},
            None,
            errors.InvalidDemand,
            "Invalid secure boot policy 'odd'. Allowed values: required, disabled, "
            'optional.',
            id='no such secure boot',
        ),
        pytest.param(
            {MODE: 'odd'},
            None,
            errors.InvalidDemand,
            "Invalid Maxphyaddr mode 'odd'. Allowed values: passthrough, emulate.",
            id='no such addresses',
        ),
    ],
)
def test_what_cannot_be(extra_specs, image, problem, text):
    with pytest.raises(problem) as raised:
        first(extra_specs, image)
    assert str(raised.value) == text


SPEC, MODEL = 'hw:mem_encryption', 'hw:mem_encryption_model'
NO_STATE = {**UEFI, 'hw_firmware_stateless': 'true'}
TDX = {SPEC: 'true', MODEL: 'intel-tdx'}


def asked(extra_specs, image):
    return memory_encryption(request_of(given(extra_specs=extra_specs, image=image)))


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'trait'),
    [
        pytest.param({SPEC: 'true'}, UEFI, 'AMD_SEV', id='by the flavor'),
        pytest.param(
            {}, {**UEFI, 'hw_mem_encryption': 'true'}, 'AMD_SEV', id='by the image'
        ),
        pytest.param({SPEC: 'yes', MODEL: ''}, UEFI, 'AMD_SEV', id='an empty model'),
        pytest.param(
            {SPEC: 'true'},
            {**UEFI, 'hw_machine_type': 'pc-q35-8.2'},
            'AMD_SEV',
            id='a machine that goes with it',
        ),
        pytest.param(
            {SPEC: 'true'},
            {
                **UEFI,
                'hw_mem_encryption': 'true',
                'hw_mem_encryption_model': 'amd-sev-es',
            },
            'AMD_SEV_ES',
            id='by both, and a model by the image',
        ),
        pytest.param(
            {SPEC: 'true', MODEL: 'amd-sev-snp'},
            NO_STATE,
            'AMD_SEV_SNP',
            id='a model without state',
        ),
        pytest.param(
            TDX,
            {**NO_STATE, 'hw_video_model': 'none'},
            'INTEL_TDX',
            id='a model without state and video',
        ),
    ],
)
def test_wanted(extra_specs, image, trait):
    assert asked(extra_specs, image) == FeatureDemand(
        resources={'MEM_ENCRYPTION_CONTEXT': 1},
        required=frozenset({f'HW_CPU_X86_{trait}'}),
    )


@pytest.mark.parametrize(
    ('extra_specs', 'image'),
    [
        pytest.param({}, None, id='not at all'),
        pytest.param({SPEC: 'false'}, {'hw_mem_encryption': 'false'}, id='by neither'),
        pytest.param({MODEL: 'odd'}, None, id='only a model'),
    ],
)
def test_not_wanted(extra_specs, image):
    assert asked(extra_specs, image) is None


NEEDS_UEFI = (
    "but the image metadata doesn't have the 'hw_firmware_type' property set to 'uefi'"
)


@pytest.mark.parametrize(
    ('extra_specs', 'image', 'problem', 'text'),
    [
        pytest.param(
            {SPEC: ''},
            {'hw_mem_encryption': 'true'},
            errors.FlavorImageConflict,
            'Flavor flavor has hw:mem_encryption extra spec explicitly set to , '
            'conflicting with image image which has hw_mem_encryption property '
            'explicitly set to True',
            id='only by one',
        ),
        pytest.param(
            {SPEC: 'true', MODEL: ''},
            {**UEFI, 'hw_mem_encryption_model': 'amd-sev'},
            errors.FlavorImageConflict,
            'Flavor flavor has hw:mem_encryption_model extra spec explicitly set to , '
            'conflicting with image image which has hw_mem_encryption_model property '
            'explicitly set to amd-sev',
            id='two models',
        ),
        pytest.param(
            {SPEC: 'true', MODEL: 'odd'},
            UEFI,
            errors.InvalidDemand,
            "Invalid memory encryption model 'odd'. Allowed values: amd-sev, "
            'amd-sev-es, amd-sev-snp, intel-tdx.',
            id='no such model',
        ),
        pytest.param(
            {SPEC: 'true'},
            None,
            errors.FlavorImageConflict,
            'Memory encryption is requested by hw:mem_encryption extra spec in flavor '
            f'flavor {NEEDS_UEFI}',
            id='no firmware for it',
        ),
        pytest.param(
            {SPEC: 'true'},
            {'hw_mem_encryption': 'true'},
            errors.FlavorImageConflict,
            'Memory encryption is requested by hw:mem_encryption extra spec in flavor '
            f'flavor and hw_mem_encryption property of image {IMAGE_ID} {NEEDS_UEFI}',
            id='wanted by both, and no firmware for it',
        ),
        pytest.param(
            {SPEC: 'true', MODEL: 'amd-sev-snp'},
            UEFI,
            errors.StatelessFirmwareRequired,
            'The amd-sev-snp memory encryption model requires stateless firmware but '
            "the image metadata doesn't have the 'hw_firmware_stateless' property set "
            'to True',
            id='firmware with a state',
        ),
        pytest.param(
            TDX,
            NO_STATE,
            errors.InvalidVideoMode,
            'The intel-tdx memory encryption model is incompatible with an attached '
            "video device. Set the 'hw_video_model' image property to 'none' to "
            'disable it',
            id='a video device',
        ),
    ],
)
def test_what_cannot_be_encrypted(extra_specs, image, problem, text):
    with pytest.raises(problem) as raised:
        asked(extra_specs, image)
    assert str(raised.value) == text


def test_a_machine_that_does_not_go_with_it():
    with pytest.raises(errors.InvalidMachineType) as raised:
        asked({SPEC: 'true'}, {**UEFI, 'hw_machine_type': 'pc'})
    assert str(raised.value) == (
        f"Machine type 'pc' is not compatible with image image ({IMAGE_ID}): q35 type "
        'is required for amd-sev to work'
    )
    assert raised.value.details == {
        'mtype': 'pc',
        'image_id': IMAGE_ID,
        'image_name': 'image',
        'reason': 'q35 type is required for amd-sev to work',
    }
