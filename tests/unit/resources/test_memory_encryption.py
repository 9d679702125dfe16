# SPDX-License-Identifier: Apache-2.0
"""What encrypted memory needs, and what excludes it."""

from __future__ import annotations

import pytest

from novasched import errors
from novasched.resources.demands import Demand
from novasched.resources.memory_encryption import memory_encryption
from tests.query_table import IMAGE_ID, UEFI, given, request_of

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
    assert asked(extra_specs, image) == Demand(
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
def test_what_cannot_be(extra_specs, image, problem, text):
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
