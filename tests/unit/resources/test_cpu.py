# SPDX-License-Identifier: Apache-2.0
"""CPU policies, and masks of guest CPUs."""

import pytest

from novasched import errors
from novasched.resources.cpu import CPUs, cpus, cpus_in
from novasched.resources.features import FeatureDemand
from tests.support.clouds import factories
from tests.support.tables.cases import cases

POLICY, THREADS = 'hw:cpu_policy', 'hw:cpu_thread_policy'
MASK, EMULATOR = 'hw:cpu_dedicated_mask', 'hw:emulator_threads_policy'
MIXED = {POLICY: 'mixed'}
REALTIME = {**MIXED, 'hw:cpu_realtime': 'yes'}
TRAIT = frozenset({'HW_CPU_HYPERTHREADING'})


def asked(extra_specs, image=None):
    return cpus(factories.request(vcpus=4, extra_specs=extra_specs, image=image))


@cases('properties, amounts',
    ('shared', ({POLICY: 'shared'}, {}), {}),
    ('an empty policy', ({POLICY: ''}, {}), {}),
    ('dedicated, and the emulator on shared ones',
     ({POLICY: 'dedicated', EMULATOR: 'share'}, {}), {'PCPU': 4}),
    ('dedicated by the image', ({}, {'hw_cpu_policy': 'dedicated'}), {'PCPU': 4}),
    ('the flavor may ask for more than the image',
     ({POLICY: 'dedicated'}, {'hw_cpu_policy': 'shared'}), {'PCPU': 4}),
    ('mixed by the image, and one for the emulator',
     ({MASK: '^3', EMULATOR: 'isolate'}, {'hw_cpu_policy': 'mixed'}),
     {'PCPU': 4, 'VCPU': 1}),
    ('mixed without a mask', (MIXED, {}), {'PCPU': 0, 'VCPU': 4}),
    ('mixed by the realtime mask', ({**REALTIME, 'hw:cpu_realtime_mask': '^0'}, {}),
     {'PCPU': 3, 'VCPU': 1}),
    ('the realtime mask of the image comes first',
     ({**REALTIME, 'hw:cpu_realtime_mask': '^1-2'}, {'hw_cpu_realtime_mask': '^0'}),
     {'PCPU': 3, 'VCPU': 1}),
    ('all are realtime, and the emulator elsewhere',
     ({**REALTIME, EMULATOR: 'share'}, {}), {'PCPU': 4, 'VCPU': 0}),
    ('the dedicated mask comes first',
     ({**REALTIME, 'hw:cpu_realtime_mask': '^0', MASK: '0'}, {}),
     {'PCPU': 1, 'VCPU': 3}),
)  # fmt: skip
def test_amounts(properties, amounts):
    found = asked(*properties)
    assert found == CPUs(FeatureDemand(resources=amounts), found.are_dedicated)


@pytest.mark.parametrize(
    ('policy', 'dedicated'), [('dedicated', True), ('mixed', False), ('shared', False)]
)
def test_only_dedicated_ones_have_a_fallback(policy, dedicated):
    assert asked({POLICY: policy}).are_dedicated is dedicated


@pytest.mark.parametrize(
    ('of_flavor', 'of_image', 'required', 'forbidden'),
    [
        ('require', None, TRAIT, frozenset()),
        ('isolate', 'isolate', frozenset(), TRAIT),
        ('prefer', 'isolate', frozenset(), frozenset()),
        (None, 'require', TRAIT, frozenset()),
        ('', None, frozenset(), frozenset()),
    ],
)
def test_threads(of_flavor, of_image, required, forbidden):
    found = asked(
        {} if of_flavor is None else {THREADS: of_flavor},
        of_image and {'hw_cpu_thread_policy': of_image},
    )
    assert found.demand == FeatureDemand(required=required, forbidden=forbidden)


IMAGE_POLICY = (
    "Image property 'hw_cpu_policy' is not permitted to override CPU pinning policy "
    'set against the flavor'
)
IMAGE_THREADS = (
    "Image property 'hw_cpu_thread_policy' is not permitted to override CPU thread "
    'pinning policy set against the flavor'
)
ONE_OF_EACH = (
    'Mixed instance must have at least 1 pinned vCPU and 1 unpinned vCPU. See '
    "'hw:cpu_dedicated_mask'."
)
ONE_LEFT = (
    'Use of realtime CPUs requires either one or more non-realtime CPU(s) or offloaded '
    'emulator threads.'
)


@cases('properties, problem, text',
    ('no such policy', ({POLICY: 'odd'}, {}), errors.InvalidCPUAllocationPolicy,
     "CPU policy requested from 'flavor extra specs' is invalid, given: 'odd', "
     "available: '('dedicated', 'shared', 'mixed')'."),
    ('the image asks for some dedicated ones',
     ({POLICY: 'shared'}, {'hw_cpu_policy': 'mixed'}), errors.ImageCPUPinningForbidden,
     IMAGE_POLICY),
    ('the image asks for all dedicated ones',
     ({POLICY: 'mixed'}, {'hw_cpu_policy': 'dedicated'}),
     errors.ImageCPUPinningForbidden, IMAGE_POLICY),
    ('no such thread policy', ({THREADS: 'odd'}, {}),
     errors.InvalidCPUThreadAllocationPolicy,
     "CPU thread policy requested from 'flavor extra specs' is invalid, given: "
     "'odd', available: '('prefer', 'isolate', 'require')'."),
    ('the image asks for another thread policy',
     ({THREADS: 'require'}, {'hw_cpu_thread_policy': 'prefer'}),
     errors.ImageCPUThreadPolicyForbidden, IMAGE_THREADS),
    ('an empty thread policy is one',
     ({THREADS: ''}, {'hw_cpu_thread_policy': 'require'}),
     errors.ImageCPUThreadPolicyForbidden, IMAGE_THREADS),
    ('no such emulator policy', ({EMULATOR: 'odd'}, {}),
     errors.InvalidEmulatorThreadsPolicy,
     "CPU emulator threads option requested is invalid, given: 'odd', "
     "available: '('share', 'isolate')'."),
    ('none is shared', ({**MIXED, MASK: '0-3'}, {}),
     errors.InvalidMixedInstanceDedicatedMask, ONE_OF_EACH),
    ('none is dedicated', ({**MIXED, MASK: ' '}, {}),
     errors.InvalidMixedInstanceDedicatedMask, ONE_OF_EACH),
    ('a dedicated one that is not there', ({**MIXED, MASK: '0,9'}, {}),
     errors.InvalidMixedInstanceDedicatedMask,
     'Mixed instance dedicated vCPU(s) mask is not a subset of vCPUs in the '
     'flavor. See "hw:cpu_dedicated_mask"'),
    ('no mask', (REALTIME, {}), errors.RealtimeMaskNotFoundOrInvalid, ONE_LEFT),
    ('none is realtime',
     ({**REALTIME, EMULATOR: 'isolate', 'hw:cpu_realtime_mask': ' '}, {}),
     errors.RealtimeMaskNotFoundOrInvalid, ONE_LEFT),
    ('a realtime one that is not there',
     ({**REALTIME, 'hw:cpu_realtime_mask': '0-9'}, {}),
     errors.RealtimeMaskNotFoundOrInvalid,
     'Realtime policy vCPU(s) mask is configured with RT vCPUs that are not a '
     'subset of the vCPUs in the flavor. See hw:cpu_realtime_mask or '
     'hw_cpu_realtime_mask'),
)  # fmt: skip
def test_invalid_cpu_policy_is_refused_in_novas_words(properties, problem, text):
    with pytest.raises(problem) as raised:
        asked(*properties)
    assert str(raised.value) == text


def test_the_parts_of_a_text_are_kept():
    with pytest.raises(errors.InvalidCPUAllocationPolicy) as raised:
        asked({POLICY: 'odd'})
    assert raised.value.details == {
        'source': 'flavor extra specs',
        'requested': 'odd',
        'available': "('dedicated', 'shared', 'mixed')",
    }


@cases(
    'mask, cpus',
    ('one', '0', {0}),
    ('a range and one', '0-1,3', {0, 1, 3}),
    ('all but one', '^0', {1, 2, 3}),
    ('all but one, and one that is there', '^0,1', {1, 2, 3}),
    ('a range without another', '0-3,^1-2', {0, 3}),
    ('without one that is not there', '0-1,^9', {0, 1}),
    ('blanks mean nothing', ' 0 - 1 ,, 2', {0, 1, 2}),
    ('a sign', '+1', {1}),
    ('one that the guest does not have', '9', {9}),
    ('none', ',', set()),
)
def test_cpus(mask, cpus):
    assert cpus_in(mask, 4) == cpus


@pytest.mark.parametrize(('mask', 'text'), [
    ('x', "Invalid inclusion expression 'x'"),
    ('1.5', "Invalid inclusion expression '1.5'"),
    ('0-1,^', "Invalid exclusion expression '^'"),
    ('^x', "Invalid exclusion expression '^x'"),
    ('3-1', "Invalid range expression '3-1'"),
    ('-1', "Invalid range expression '-1'"),
    ('0-', "Invalid range expression '0-'"),
    ('0-1-2', "Invalid range expression '0-1-2'"),
    ('^0-', "Invalid range expression '^0-'"),
    ('0-65536', "Invalid range expression '0-65536': CPUs are numbered below 65536"),
    ('0-65535,0', 'Invalid CPU mask: more than 65536 CPUs are named'),
])  # fmt: skip
def test_invalid_cpu_mask_is_refused_in_novas_words(mask, text):
    with pytest.raises(errors.InvalidDemand) as raised:
        cpus_in(mask, 4)
    assert str(raised.value) == text
