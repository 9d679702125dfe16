# SPDX-License-Identifier: Apache-2.0
"""What each feature needs of the provider."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources import features
from novasched.resources.demands import Demand
from tests.query_table import UEFI, given, request_of

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
    return found[0] if found else Demand()


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
    assert first(extra_specs, image) == Demand(required=frozenset(traits))


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
    assert first({}, {'hw_firmware_stateless': 'true'}) == Demand(
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
