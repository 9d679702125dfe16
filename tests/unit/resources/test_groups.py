# SPDX-License-Identifier: Apache-2.0
"""The groups that a request asks for."""

import pytest

from novasched import errors
from novasched.resources.groups import asked_by
from novasched.resources.query import Group
from tests.support.databases.query_table import (
    MIXED,
    PINNED,
    UEFI,
    given,
    group,
    request_of,
)
from tests.support.tables.cases import cases

DISK_AND_MEMORY = {'DISK_GB': 1, 'MEMORY_MB': 512}


def asked(extra_specs=None, shares_cpus=False, more=(), **fields):
    request = request_of(given(extra_specs=extra_specs, **fields))
    return asked_by(request, dict(more), shares_cpus)


@cases('extra_specs, cpus, shared',
    ('dedicated', PINNED, {'PCPU': 1}, {'VCPU': 1}),
    ('a policy replaces an amount', {**PINNED, 'resources:PCPU': '7'}, {'PCPU': 1},
     {'PCPU': 7}),
    ('but not that of the other kind', {**PINNED, 'resources:VCPU': '2'},
     {'PCPU': 1, 'VCPU': 2}, {'VCPU': 2}),
    ('a mixed policy without dedicated ones', {**MIXED, 'resources:PCPU': '7'},
     {'VCPU': 1}, {'PCPU': 7}),
    ('none at all', {'resources:PCPU': '0'}, {}, {}),
    ('more than there can be', {'resources:VCPU': '9' * 30}, {'VCPU': 2**31},
     {'VCPU': 2**31}),
)  # fmt: skip
def test_cpus(extra_specs, cpus, shared):
    assert asked(extra_specs).groups[''].resources == {**DISK_AND_MEMORY, **cpus}
    found = asked(extra_specs, shares_cpus=True)
    assert found.groups[''].resources == {**DISK_AND_MEMORY, **shared}
    assert found.cpus_are_dedicated is False


def test_threads_mean_nothing_to_shared_cpus():
    threads = {'hw:cpu_thread_policy': 'isolate'}
    assert asked(threads).groups[''].forbidden == {'HW_CPU_HYPERTHREADING'}
    assert asked(threads, shares_cpus=True).groups[''].forbidden == frozenset()


def test_invalid_policy_is_ignored_with_shared_cpus():
    assert asked({'hw:cpu_policy': 'odd'}, shares_cpus=True).groups


def test_features_replace_amounts_and_add_traits():
    plain = asked(
        {
            'resources:MEM_ENCRYPTION_CONTEXT': '3',
            'trait:CUSTOM_A': 'required',
            'hw:mem_encryption': 'yes',
        },
        image=UEFI,
    ).groups['']
    assert plain.resources['MEM_ENCRYPTION_CONTEXT'] == 1
    assert plain.required == {'CUSTOM_A', 'HW_CPU_X86_AMD_SEV'}


def test_all_that_a_requested_group_says():
    found = asked(
        groups=[
            group(
                'P',
                {'VGPU': 1, 'FPGA': 0},
                'CUSTOM_A',
                forbidden_traits=['CUSTOM_B'],
                aggregates=[['a1', 'a2'], ['a3']],
                forbidden_aggregates=['a4'],
                in_tree='h0',
            )
        ],
        more={'P': frozenset({'OWNER_NOVA'})},
    )
    assert found.groups['P'] == Group(
        'P',
        {'VGPU': 1},
        frozenset({'CUSTOM_A', 'OWNER_NOVA'}),
        frozenset({'CUSTOM_B'}),
        (frozenset({'a1', 'a2'}), frozenset({'a3'})),
        frozenset({'a4'}),
        'h0',
    )
    assert found.own_suffixes == frozenset()


@cases('groups, problem, text',
    ('without a name', [group(None, {'VGPU': 1})], errors.InvalidRequestGroup,
     'Missing requester_id in RequestGroup! This is probably a programmer error'),
    ('empty', [group('X', {}, in_tree='h0')], errors.InvalidRequestGroup,
     'Refusing to add no-op RequestGroup with requester_id=X. This is a '
     'probably a programmer error.'),
    ('twice the same name', [group('X', {'VGPU': 1})] * 2,
     errors.RequestGroupSuffixConflict, 'Duplicate request group suffix X.'),
    ('a name that the flavor uses, if only for nonsense', [group('1', {'VGPU': 1})],
     errors.RequestGroupSuffixConflict, 'Duplicate request group suffix 1.'),
)  # fmt: skip
def test_invalid_requested_groups_are_refused(groups, problem, text):
    with pytest.raises(problem) as raised:
        asked({'resources1:VGPU': 'many'}, groups=groups)
    assert str(raised.value).startswith(text)
