# SPDX-License-Identifier: Apache-2.0
"""Features of flavors and images, and what each needs of the provider."""

from __future__ import annotations

import collections
from collections.abc import Callable

import os_resource_classes as classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.resources.demands import Demand, agreed, one_of, required
from novasched.resources.memory_encryption import memory_encryption

_TPM_VERSIONS = {
    '1.2': os_traits.COMPUTE_SECURITY_TPM_1_2,
    '2.0': os_traits.COMPUTE_SECURITY_TPM_2_0,
}
_TPM_MODELS = {
    'tpm-tis': os_traits.COMPUTE_SECURITY_TPM_TIS,
    'tpm-crb': os_traits.COMPUTE_SECURITY_TPM_CRB,
}
_PCI_POLICIES = ('required', 'legacy', 'preferred', 'socket')
_SECURE_BOOT = ('required', 'disabled', 'optional')
_ADDRESS_MODES = {
    'passthrough': os_traits.COMPUTE_ADDRESS_SPACE_PASSTHROUGH,
    'emulate': os_traits.COMPUTE_ADDRESS_SPACE_EMULATED,
}


def persistent_memory(request: RequestSpec) -> Demand | None:
    """Return a namespace per label of ``hw:pmem``."""
    labels = request.extra_specs.get('hw:pmem', '').split(',')
    counts = collections.Counter(
        classes.normalize_name(f'PMEM_NAMESPACE_{label.strip()}')
        for label in labels
        if label.strip()
    )
    return Demand(resources=dict(counts)) if counts else None


def trusted_platform_module(request: RequestSpec) -> Demand | None:
    """Return the traits of the TPM. Raises errors.InvalidDemand for an odd one."""
    version = agreed(request, 'hw:tpm_version')
    if version is None:
        return None
    one_of(_TPM_VERSIONS, version, 'TPM version')
    model = agreed(request, 'hw:tpm_model') or 'tpm-tis'
    one_of(_TPM_MODELS, model, 'TPM model')
    if (version, model) == ('1.2', 'tpm-crb'):
        raise errors.InvalidDemand('TPM model CRB is only valid with TPM version 2.0.')
    return Demand(required=frozenset({_TPM_VERSIONS[version], _TPM_MODELS[model]}))


def pci_numa_affinity(request: RequestSpec) -> Demand | None:
    """Return the trait of hosts that can keep PCI devices by the socket.

    Raises errors.InvalidPCINUMAAffinity or ImagePCINUMAPolicyForbidden.
    """
    name = 'hw:pci_numa_affinity_policy'
    wanted = request.extra_specs.get(name)
    of_image: str | None = request.image_properties.get('hw_pci_numa_affinity_policy')
    if wanted and of_image and wanted != of_image:
        raise errors.ImagePCINUMAPolicyForbidden(
            "Image property 'hw_pci_numa_affinity_policy' is not permitted to override "
            f"the '{name}' flavor extra spec."
        )
    policy = wanted or of_image
    if policy and policy not in _PCI_POLICIES:
        raise errors.InvalidPCINUMAAffinity(
            f'Invalid PCI NUMA affinity configured: {policy}', policy=policy
        )
    if policy != 'socket':
        return None
    return required(os_traits.COMPUTE_SOCKET_PCI_NUMA_AFFINITY)


def secure_boot(request: RequestSpec) -> Demand | None:
    """Return the trait of hosts whose firmware boots only what is signed."""
    policy = agreed(request, 'os:secure_boot')
    if policy is None:
        return None
    if one_of(_SECURE_BOOT, policy, 'secure boot policy') != 'required':
        return None
    return required(os_traits.COMPUTE_SECURITY_UEFI_SECURE_BOOT)


def address_space(request: RequestSpec) -> Demand | None:
    """Return the trait of hosts that give the guest this size of addresses."""
    mode = agreed(request, 'hw:maxphysaddr_mode')
    if mode is None:
        return None
    return required(_ADDRESS_MODES[one_of(_ADDRESS_MODES, mode, 'Maxphyaddr mode')])


def stateless_firmware(request: RequestSpec) -> Demand | None:
    """Return the trait of hosts whose firmware keeps no state."""
    properties = request.image_properties
    is_stateless: bool | None = properties.get('hw_firmware_stateless')
    if is_stateless is None:
        return None
    if properties.get('hw_firmware_type') != 'uefi':
        warning = (
            "The image property 'hw_firmware_stateless' is set for non UEFI firmware "
            'type. This property is ignored.'
        )
        return Demand(warnings=(warning,))
    if not is_stateless:
        return None
    return required(os_traits.COMPUTE_SECURITY_STATELESS_FIRMWARE)


FEATURES: tuple[Callable[[RequestSpec], Demand | None], ...] = (
    memory_encryption,
    persistent_memory,
    trusted_platform_module,
    pci_numa_affinity,
    secure_boot,
    address_space,
    stateless_firmware,
)
"""In nova's order: the first that raises decides what the caller is told."""
