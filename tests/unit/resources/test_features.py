# SPDX-License-Identifier: Apache-2.0
"""Features of flavors and images, and what each needs of the provider."""

import pytest

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.resources import features
from novasched.resources.features import FeatureDemand, memory_encryption
from tests.support.databases.query_table import IMAGE_ID, UEFI, given, request_of
from tests.support.tables.cases import cases

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
    assert request.of_image('name') == 'image'
    assert request.of_image('id') == IMAGE_ID


@cases(
    'request_',
    ('no image was set', RequestSpec(flavor=Flavor())),
    ('no image', RequestSpec(flavor=Flavor(), image=None)),
    ('an image of a volume', RequestSpec(flavor=Flavor(), image=ImageMeta())),
)
def test_missing_flavor_and_image_have_no_name(request_):
    assert features.flavor_name(request_) is None
    assert request_.of_image('name') is None
    assert request_.of_image('id') is None


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


@cases('properties, traits',
    ('a TPM', ({'hw:tpm_version': '1.2'}, None), [f'{TPM}1_2', f'{TPM}TIS']),
    ('a TPM of the image',
     ({'hw:tpm_version': ''}, {'hw_tpm_version': '2.0', 'hw_tpm_model': 'tpm-crb'}),
     [f'{TPM}2_0', f'{TPM}CRB']),
    ('a TPM of no version', ({'hw:tpm_model': 'odd'}, None), []),
    ('PCI devices by the socket',
     ({PCI: 'socket'}, {'hw_pci_numa_affinity_policy': 'socket'}),
     ['COMPUTE_SOCKET_PCI_NUMA_AFFINITY']),
    ('PCI devices by the socket, says the image',
     ({PCI: ''}, {'hw_pci_numa_affinity_policy': 'socket'}),
     ['COMPUTE_SOCKET_PCI_NUMA_AFFINITY']),
    ('PCI devices by the node', ({PCI: 'required'}, None), []),
    ('secure boot', ({'os:secure_boot': 'required'}, None),
     ['COMPUTE_SECURITY_UEFI_SECURE_BOOT']),
    ('secure boot, maybe', ({}, {'os_secure_boot': 'optional'}), []),
    ('addresses of the host', ({MODE: 'passthrough'}, None),
     ['COMPUTE_ADDRESS_SPACE_PASSTHROUGH']),
    ('addresses of its own', ({}, {'hw_maxphysaddr_mode': 'emulate'}),
     ['COMPUTE_ADDRESS_SPACE_EMULATED']),
    ('firmware without a state', ({}, {**UEFI, 'hw_firmware_stateless': 'true'}),
     ['COMPUTE_SECURITY_STATELESS_FIRMWARE']),
    ('firmware with a state', ({}, {**UEFI, 'hw_firmware_stateless': 'no'}), []),
)  # fmt: skip
def test_traits(properties, traits):
    assert first(*properties) == FeatureDemand(required=frozenset(traits))


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


def test_stateless_firmware_of_another_type_is_a_warning():
    assert first({}, {'hw_firmware_stateless': 'true'}) == FeatureDemand(
        warnings=(
            "The image property 'hw_firmware_stateless' is set for non UEFI firmware "
            'type. This property is ignored.',
        )
    )


@cases('properties, problem, text',
    ('no such TPM', ({'hw:tpm_version': '3'}, None), errors.InvalidDemand,
     "Invalid TPM version '3'. Allowed values: 1.2, 2.0."),
    ('no such model of TPM', ({'hw:tpm_version': '2.0', 'hw:tpm_model': 'crb'}, None),
     errors.InvalidDemand,
     "Invalid TPM model 'crb'. Allowed values: tpm-tis, tpm-crb."),
    ('a model of another TPM',
     ({'hw:tpm_version': '1.2', 'hw:tpm_model': 'tpm-crb'}, None), errors.InvalidDemand,
     'TPM model CRB is only valid with TPM version 2.0.'),
    ('two TPMs', ({'hw:tpm_version': '1.2'}, {'hw_tpm_version': '2.0'}),
     errors.FlavorImageConflict,
     'Flavor flavor has hw:tpm_version extra spec explicitly set to 1.2, '
     'conflicting with image image which has hw_tpm_version explicitly set to '
     '2.0.'),
    ('two PCI policies', ({PCI: 'socket'}, {'hw_pci_numa_affinity_policy': 'legacy'}),
     errors.ImagePCINUMAPolicyForbidden,
     "Image property 'hw_pci_numa_affinity_policy' is not permitted to override "
     "the 'hw:pci_numa_affinity_policy' flavor extra spec."),
    ('no such PCI policy', ({PCI: 'odd'}, None), errors.InvalidPCINUMAAffinity,
     'Invalid PCI NUMA affinity configured: odd'),
    ('no such secure boot', ({'os:secure_boot': 'odd'}, None), errors.InvalidDemand,
     "Invalid secure boot policy 'odd'. Allowed values: required, disabled, "
     'optional.'),
    ('no such addresses', ({MODE: 'odd'}, None), errors.InvalidDemand,
     "Invalid Maxphyaddr mode 'odd'. Allowed values: passthrough, emulate."),
)  # fmt: skip
def test_invalid_feature_is_refused_in_novas_words(properties, problem, text):
    with pytest.raises(problem) as raised:
        first(*properties)
    assert str(raised.value) == text


SPEC, MODEL = 'hw:mem_encryption', 'hw:mem_encryption_model'
NO_STATE = {**UEFI, 'hw_firmware_stateless': 'true'}
TDX = {SPEC: 'true', MODEL: 'intel-tdx'}


def asked(extra_specs, image):
    return memory_encryption(request_of(given(extra_specs=extra_specs, image=image)))


@cases(
    'properties, trait',
    ('by the image', ({}, {**UEFI, 'hw_mem_encryption': 'true'}), 'AMD_SEV'),
    ('an empty model', ({SPEC: 'yes', MODEL: ''}, UEFI), 'AMD_SEV'),
    (
        'a machine that goes with it',
        ({SPEC: 'true'}, {**UEFI, 'hw_machine_type': 'pc-q35-8.2'}),
        'AMD_SEV',
    ),
    (
        'by both, and a model by the image',
        (
            {SPEC: 'true'},
            {
                **UEFI,
                'hw_mem_encryption': 'true',
                'hw_mem_encryption_model': 'amd-sev-es',
            },
        ),
        'AMD_SEV_ES',
    ),
    (
        'a model without state',
        ({SPEC: 'true', MODEL: 'amd-sev-snp'}, NO_STATE),
        'AMD_SEV_SNP',
    ),
)
def test_wanted(properties, trait):
    assert asked(*properties) == FeatureDemand(
        resources={'MEM_ENCRYPTION_CONTEXT': 1},
        required=frozenset({f'HW_CPU_X86_{trait}'}),
    )


@cases(
    'extra_specs, image',
    ('not at all', {}, None),
    ('by neither', {SPEC: 'false'}, {'hw_mem_encryption': 'false'}),
    ('only a model', {MODEL: 'odd'}, None),
)
def test_not_wanted(extra_specs, image):
    assert asked(extra_specs, image) is None


NEEDS_UEFI = (
    "but the image metadata doesn't have the 'hw_firmware_type' property set to 'uefi'"
)


@cases('properties, problem, text',
    ('only by one', ({SPEC: ''}, {'hw_mem_encryption': 'true'}),
     errors.FlavorImageConflict,
     'Flavor flavor has hw:mem_encryption extra spec explicitly set to , '
     'conflicting with image image which has hw_mem_encryption property '
     'explicitly set to True'),
    ('two models',
     ({SPEC: 'true', MODEL: ''}, {**UEFI, 'hw_mem_encryption_model': 'amd-sev'}),
     errors.FlavorImageConflict,
     'Flavor flavor has hw:mem_encryption_model extra spec explicitly set to , '
     'conflicting with image image which has hw_mem_encryption_model property '
     'explicitly set to amd-sev'),
    ('no such model', ({SPEC: 'true', MODEL: 'odd'}, UEFI), errors.InvalidDemand,
     "Invalid memory encryption model 'odd'. Allowed values: amd-sev, "
     'amd-sev-es, amd-sev-snp, intel-tdx.'),
    ('no firmware for it', ({SPEC: 'true'}, None), errors.FlavorImageConflict,
     'Memory encryption is requested by hw:mem_encryption extra spec in flavor '
     f'flavor {NEEDS_UEFI}'),
    ('wanted by both, and no firmware for it',
     ({SPEC: 'true'}, {'hw_mem_encryption': 'true'}), errors.FlavorImageConflict,
     'Memory encryption is requested by hw:mem_encryption extra spec in flavor '
     f'flavor and hw_mem_encryption property of image {IMAGE_ID} {NEEDS_UEFI}'),
    ('firmware with a state', ({SPEC: 'true', MODEL: 'amd-sev-snp'}, UEFI),
     errors.StatelessFirmwareRequired,
     'The amd-sev-snp memory encryption model requires stateless firmware but '
     "the image metadata doesn't have the 'hw_firmware_stateless' property set "
     'to True'),
    ('a video device', (TDX, NO_STATE), errors.InvalidVideoMode,
     'The intel-tdx memory encryption model is incompatible with an attached '
     "video device. Set the 'hw_video_model' image property to 'none' to "
     'disable it'),
)  # fmt: skip
def test_impossible_memory_encryption_is_refused_in_novas_words(
    properties, problem, text
):
    with pytest.raises(problem) as raised:
        asked(*properties)
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
