# SPDX-License-Identifier: Apache-2.0
"""Features of flavors and images, and what each needs of the provider.

Many features may be named by an extra spec, ``hw:x``, by the property of an image,
``hw_x``, or by both if they say the same.
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

import os_resource_classes as classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release
from novasched.resources.query import NONE


@dataclass(frozen=True)
class FeatureDemand:
    """Resources and traits of one feature, for the group without a suffix.

    Amounts replace those that are there. ``warnings`` are for the operator.
    """

    resources: Mapping[str, int] = field(default_factory=dict)
    required: frozenset[str] = NONE
    forbidden: frozenset[str] = NONE
    warnings: tuple[str, ...] = ()


def required(trait: str) -> FeatureDemand:
    """Return the demand for one trait."""
    return FeatureDemand(required=frozenset({trait}))


def flavor_name(request: RequestSpec) -> str | None:
    """Return the name of the flavor; None when it has none."""
    name: str | None = request.flavor.if_set('name')
    return name


def agreed(request: RequestSpec, name: str) -> str | None:
    """Return the value of the extra spec, else of the property; None if both are unset.

    An empty extra spec counts as unset. If both are set and differ, raises what
    conflict() returns.
    """
    wanted = request.extra_specs.get(name) or None
    of_image: str | None = request.image_properties.get(property_of(name))
    if wanted is None or of_image is None or wanted == of_image:
        return wanted or of_image
    raise conflict(request, name, wanted, f'explicitly set to {of_image}.')


def conflict(
    request: RequestSpec, name: str, wanted: str, says: str
) -> errors.FlavorImageConflict:
    """Return the error for an extra spec that the property contradicts.

    ``says`` is how nova ends the text; it differs by feature.
    """
    return errors.FlavorImageConflict(
        f'Flavor {flavor_name(request)} has {name} extra spec explicitly set to '
        f'{wanted}, conflicting with image {request.of_image("name")} which has '
        f'{property_of(name)} {says}'
    )


def property_of(name: str) -> str:
    """Return the property of an image that means the same as an extra spec."""
    return name.replace(':', '_')


def one_of(allowed: Collection[str], value: str, what: str) -> str:
    """Return the value. Raises errors.InvalidDemand when it is not allowed."""
    if value not in allowed:
        raise errors.InvalidDemand(
            f"Invalid {what} '{value}'. Allowed values: {', '.join(allowed)}."
        )
    return value


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


def persistent_memory(request: RequestSpec) -> FeatureDemand | None:
    """Return a namespace per label of ``hw:pmem``."""
    labels = request.extra_specs.get('hw:pmem', '').split(',')
    counts = collections.Counter(
        classes.normalize_name(f'PMEM_NAMESPACE_{label.strip()}')
        for label in labels
        if label.strip()
    )
    return FeatureDemand(resources=dict(counts)) if counts else None


def trusted_platform_module(
    request: RequestSpec, by_model: bool = True
) -> FeatureDemand | None:
    """Return the traits of the TPM: of its version and, ``by_model``, of its model.

    Raises errors.InvalidDemand for an odd one.
    """
    version = agreed(request, 'hw:tpm_version')
    if version is None:
        return None
    one_of(_TPM_VERSIONS, version, 'TPM version')
    model = agreed(request, 'hw:tpm_model') or 'tpm-tis'
    one_of(_TPM_MODELS, model, 'TPM model')
    if (version, model) == ('1.2', 'tpm-crb'):
        raise errors.InvalidDemand('TPM model CRB is only valid with TPM version 2.0.')
    traits = {_TPM_VERSIONS[version], *([_TPM_MODELS[model]] if by_model else [])}
    return FeatureDemand(required=frozenset(traits))


def pci_numa_affinity(request: RequestSpec) -> FeatureDemand | None:
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


def secure_boot(request: RequestSpec) -> FeatureDemand | None:
    """Return the trait of hosts whose firmware boots only what is signed."""
    policy = agreed(request, 'os:secure_boot')
    if policy is None:
        return None
    if one_of(_SECURE_BOOT, policy, 'secure boot policy') != 'required':
        return None
    return required(os_traits.COMPUTE_SECURITY_UEFI_SECURE_BOOT)


def address_space(request: RequestSpec) -> FeatureDemand | None:
    """Return the trait of hosts that give the guest this size of addresses."""
    mode = agreed(request, 'hw:maxphysaddr_mode')
    if mode is None:
        return None
    return required(_ADDRESS_MODES[one_of(_ADDRESS_MODES, mode, 'Maxphyaddr mode')])


def stateless_firmware(request: RequestSpec) -> FeatureDemand | None:
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
        return FeatureDemand(warnings=(warning,))
    if not is_stateless:
        return None
    return required(os_traits.COMPUTE_SECURITY_STATELESS_FIRMWARE)


_ENCRYPTION_SPEC = 'hw:mem_encryption'
_ENCRYPTION_PROPERTY = 'hw_mem_encryption'
_ENCRYPTION_TRAITS = {
    'amd-sev': os_traits.HW_CPU_X86_AMD_SEV,
    'amd-sev-es': os_traits.HW_CPU_X86_AMD_SEV_ES,
    'amd-sev-snp': os_traits.HW_CPU_X86_AMD_SEV_SNP,
    'intel-tdx': os_traits.HW_CPU_X86_INTEL_TDX,
}
"""By model, in the order in which nova lists them."""
_DEFAULT_ENCRYPTION = 'amd-sev'
_NO_IMAGE_ID = '<no-id>'
_STATELESS_MODELS = ('amd-sev-snp', 'intel-tdx')


def memory_encryption(
    request: RequestSpec, by_model: bool = True
) -> FeatureDemand | None:
    """Return the needs of encrypted memory, if it is asked for: a context and,
    ``by_model``, the trait of the model. Else each host with contexts is of one kind.

    Raises errors.FlavorImageConflict, InvalidMachineType, StatelessFirmwareRequired
    or InvalidVideoMode where the image does not go with it.
    """
    requesters = _encryption_requesters(request)
    if not requesters:
        return None
    model = _encryption_model(request) if by_model else _DEFAULT_ENCRYPTION
    _check_firmware(request, requesters)
    _check_machine(request, model)
    _check_model(request, model)
    return FeatureDemand(
        resources={classes.MEM_ENCRYPTION_CONTEXT: 1},
        required=frozenset({_ENCRYPTION_TRAITS[model]}) if by_model else NONE,
    )


def _encryption_requesters(request: RequestSpec) -> list[str]:
    """Return the setting that asks for it, in nova's words."""
    text = request.extra_specs.get(_ENCRYPTION_SPEC)
    of_flavor = strutils.bool_from_string(text)
    of_image: bool | None = request.image_properties.get(_ENCRYPTION_PROPERTY)
    if text is not None and of_image is not None and of_flavor != of_image:
        raise _encryption_conflict(request, _ENCRYPTION_SPEC, text, of_image)
    requesters = []
    if of_flavor:
        requesters.append(
            f'{_ENCRYPTION_SPEC} extra spec in {flavor_name(request)} flavor'
        )
    if of_image:
        image = request.of_image('id') or _NO_IMAGE_ID
        requesters.append(f'{_ENCRYPTION_PROPERTY} property of image {image}')
    return requesters


def _encryption_model(request: RequestSpec) -> str:
    name = 'hw:mem_encryption_model'
    wanted = request.extra_specs.get(name)
    of_image: str | None = request.image_properties.get(property_of(name))
    if wanted is not None and of_image is not None and wanted != of_image:
        raise _encryption_conflict(request, name, wanted, of_image)
    model = wanted or of_image or _DEFAULT_ENCRYPTION
    return one_of(_ENCRYPTION_TRAITS, model, 'memory encryption model')


def _encryption_conflict(
    request: RequestSpec, name: str, text: str, of_image: object
) -> errors.FlavorImageConflict:
    """Here even an empty extra spec says something."""
    return conflict(request, name, text, f'property explicitly set to {of_image}')


def _check_firmware(request: RequestSpec, requesters: list[str]) -> None:
    if request.image_properties.get('hw_firmware_type') != 'uefi':
        raise errors.FlavorImageConflict(
            f'Memory encryption is requested by {" and ".join(requesters)} but the '
            "image metadata doesn't have the 'hw_firmware_type' property set to 'uefi'"
        )


def _check_machine(request: RequestSpec, model: str) -> None:
    machine: str | None = request.image_properties.get('hw_machine_type')
    if machine is not None and 'q35' not in machine:
        reason = f'q35 type is required for {model} to work'
        name, id_ = request.of_image('name'), request.of_image('id') or _NO_IMAGE_ID
        raise errors.InvalidMachineType(
            f"Machine type '{machine}' is not compatible with image {name} ({id_}): "
            f'{reason}',
            mtype=machine,
            image_id=id_,
            image_name=name,
            reason=reason,
        )


def _check_model(request: RequestSpec, model: str) -> None:
    properties = request.image_properties
    if model in _STATELESS_MODELS and not properties.get('hw_firmware_stateless'):
        raise errors.StatelessFirmwareRequired(
            f'The {model} memory encryption model requires stateless firmware but the '
            "image metadata doesn't have the 'hw_firmware_stateless' property set to "
            'True'
        )
    if model == 'intel-tdx' and properties.get('hw_video_model') != 'none':
        raise errors.InvalidVideoMode(
            f'The {model} memory encryption model is incompatible with an attached '
            "video device. Set the 'hw_video_model' image property to 'none' to "
            'disable it'
        )


Features = tuple[Callable[[RequestSpec], FeatureDemand | None], ...]

FEATURES: Features = (
    memory_encryption,
    persistent_memory,
    trusted_platform_module,
    pci_numa_affinity,
    secure_boot,
    address_space,
    stateless_firmware,
)
"""In nova's order: the first that raises decides which error the caller gets."""


def of_release(release: Release) -> Features:
    """Return the features as a release knows them, in the same order."""
    encryption = functools.partial(
        memory_encryption, by_model=release.has_encryption_model_trait
    )
    tpm = functools.partial(
        trusted_platform_module, by_model=release.has_tpm_model_trait
    )
    replaced: dict[object, Callable[[RequestSpec], FeatureDemand | None]] = {
        memory_encryption: encryption,
        trusted_platform_module: tpm,
    }
    return tuple(replaced.get(each, each) for each in FEATURES)
