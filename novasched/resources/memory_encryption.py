# SPDX-License-Identifier: Apache-2.0
"""Guests whose memory is encrypted: what they need, and what excludes it."""

from __future__ import annotations

import os_resource_classes as classes  # type: ignore[import-untyped]
import os_traits  # type: ignore[import-untyped]
from oslo_utils import strutils

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.resources.demands import (
    Demand,
    conflict,
    flavor_name,
    image_id,
    image_name,
    one_of,
    property_of,
)

_SPEC, _PROPERTY = 'hw:mem_encryption', 'hw_mem_encryption'
_TRAITS = {
    'amd-sev': os_traits.HW_CPU_X86_AMD_SEV,
    'amd-sev-es': os_traits.HW_CPU_X86_AMD_SEV_ES,
    'amd-sev-snp': os_traits.HW_CPU_X86_AMD_SEV_SNP,
    'intel-tdx': os_traits.HW_CPU_X86_INTEL_TDX,
}
"""By model, in the order in which nova lists them."""
_NO_STATE = ('amd-sev-snp', 'intel-tdx')
_NO_ID = '<no-id>'


def memory_encryption(request: RequestSpec) -> Demand | None:
    """Return what encrypted memory needs, if it is asked for.

    Raises errors.FlavorImageConflict, InvalidMachineType, StatelessFirmwareRequired
    or InvalidVideoMode where the image does not go with it.
    """
    requesters = _requesters(request)
    if not requesters:
        return None
    model = _model(request)
    _check_firmware(request, requesters)
    _check_machine(request, model)
    _check_model(request, model)
    return Demand(
        resources={classes.MEM_ENCRYPTION_CONTEXT: 1},
        required=frozenset({_TRAITS[model]}),
    )


def _requesters(request: RequestSpec) -> list[str]:
    """Return what asks for it, in nova's words."""
    text = request.extra_specs.get(_SPEC)
    of_flavor = strutils.bool_from_string(text)
    of_image: bool | None = request.image_properties.get(_PROPERTY)
    if text is not None and of_image is not None and of_flavor != of_image:
        raise _conflict(request, _SPEC, text, of_image)
    requesters = []
    if of_flavor:
        requesters.append(f'{_SPEC} extra spec in {flavor_name(request)} flavor')
    if of_image:
        requesters.append(f'{_PROPERTY} property of image {_id_of(request)}')
    return requesters


def _model(request: RequestSpec) -> str:
    name = 'hw:mem_encryption_model'
    wanted = request.extra_specs.get(name)
    of_image: str | None = request.image_properties.get(property_of(name))
    if wanted is not None and of_image is not None and wanted != of_image:
        raise _conflict(request, name, wanted, of_image)
    model = wanted or of_image or 'amd-sev'
    return one_of(_TRAITS, model, 'memory encryption model')


def _conflict(
    request: RequestSpec, name: str, text: str, of_image: object
) -> errors.FlavorImageConflict:
    """Here even an empty extra spec says something."""
    return conflict(request, name, text, f'property explicitly set to {of_image}')


def _id_of(request: RequestSpec) -> str:
    return image_id(request) or _NO_ID


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
        raise errors.InvalidMachineType(
            f"Machine type '{machine}' is not compatible with image "
            f'{image_name(request)} ({_id_of(request)}): {reason}',
            mtype=machine,
            image_id=_id_of(request),
            image_name=image_name(request),
            reason=reason,
        )


def _check_model(request: RequestSpec, model: str) -> None:
    properties = request.image_properties
    if model in _NO_STATE and not properties.get('hw_firmware_stateless'):
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
