# SPDX-License-Identifier: Apache-2.0
"""From a request to its query, with the strings that nova sends."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched import errors
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.request_spec import (
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
)
from novasched.resources import Requirements, build_query, request

H0, H1, P, Q, A1, A2, A3, A8, A9 = (
    f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(9)
)
SMALL = 'resources=DISK_GB%3A1%2CMEMORY_MB%3A512%2CVCPU%3A1'
PREFILTERED = Requirements(
    root_required=frozenset({'OWNER_NOVA'}),
    root_forbidden=frozenset({'COMPUTE_STATUS_DISABLED'}),
)


def spec(size='1/512/1', ephemeral=0, swap=0, extra_specs=None, **fields):
    vcpus, memory_mb, root_gb = (int(part) for part in size.split('/'))
    flavor = Flavor(
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=ephemeral,
        swap=swap,
        extra_specs=extra_specs or {},
    )
    return RequestSpec(flavor=flavor, **fields)


def query(request, added=None, nodes=None, limit=1000):
    return build_query(request, added or Requirements(), nodes, limit)


def image(*traits):
    properties = ImageMetaProps(traits_required=list(traits))
    return ImageMeta(properties=properties)


def group(suffix, amounts, *required, **fields):
    return RequestGroup(
        requester_id=suffix, resources=amounts, required_traits=set(required), **fields
    )


PORT = group(
    P,
    {'NET_BW_EGR_KILOBIT_PER_SEC': 1000, 'NET_BW_IGR_KILOBIT_PER_SEC': 1000},
    'CUSTOM_PHYSNET_2',
    'CUSTOM_VNIC_TYPE_NORMAL',
)
PORT_TEXT = (
    f'required{P}=CUSTOM_PHYSNET_2%2CCUSTOM_VNIC_TYPE_NORMAL&{SMALL}&resources{P}='
    'NET_BW_EGR_KILOBIT_PER_SEC%3A1000%2CNET_BW_IGR_KILOBIT_PER_SEC%3A1000'
)


@pytest.mark.parametrize(
    ('request_', 'text'),
    [
        pytest.param(
            spec('2/2048/20'),
            'limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2',
            id='a plain flavor',
        ),
        pytest.param(
            spec('2/2048/20', ephemeral=5, swap=1500),
            'limit=1000&resources=DISK_GB%3A27%2CMEMORY_MB%3A2048%2CVCPU%3A2',
            id='ephemeral and swap disks count',
        ),
        pytest.param(
            spec('2/2048/20', ephemeral=5, swap=1500, is_bfv=True),
            'limit=1000&resources=DISK_GB%3A7%2CMEMORY_MB%3A2048%2CVCPU%3A2',
            id='the root disk is a volume',
        ),
        pytest.param(
            spec('2/2048/20', is_bfv=True),
            'limit=1000&resources=MEMORY_MB%3A2048%2CVCPU%3A2',
            id='a volume and no other disk',
        ),
        pytest.param(
            spec('2/2048/0'),
            'limit=1000&resources=MEMORY_MB%3A2048%2CVCPU%3A2',
            id='no disk',
        ),
        pytest.param(
            spec(
                extra_specs={
                    'resources:VCPU': '0',
                    'resources:MEMORY_MB': '0',
                    'resources:DISK_GB': '0',
                    'resources:CUSTOM_BAREMETAL_GOLD': '1',
                }
            ),
            'limit=1000&resources=CUSTOM_BAREMETAL_GOLD%3A1',
            id='zero turns a default off',
        ),
        pytest.param(
            spec('8/8192/80', extra_specs={'resources:VCPU': '4'}),
            'limit=1000&resources=DISK_GB%3A80%2CMEMORY_MB%3A8192%2CVCPU%3A4',
            id='an amount of its own',
        ),
        pytest.param(
            spec('4/8192/80', extra_specs={'resources:PCPU': '4'}),
            'limit=1000&resources=DISK_GB%3A80%2CMEMORY_MB%3A8192%2CPCPU%3A4',
            id='pinned CPUs replace shared ones',
        ),
        pytest.param(
            spec(
                extra_specs={
                    'trait:CUSTOM_GOLD': 'required',
                    'trait:HW_CPU_X86_AVX2': 'forbidden',
                }
            ),
            f'limit=1000&required=CUSTOM_GOLD%2C%21HW_CPU_X86_AVX2&{SMALL}',
            id='traits of the flavor',
        ),
        pytest.param(
            spec(image=image('CUSTOM_LIC')),
            f'limit=1000&required=CUSTOM_LIC&{SMALL}',
            id='traits of the image',
        ),
        pytest.param(
            spec(
                extra_specs={
                    'resources1:SRIOV_NET_VF': '1',
                    'trait1:CUSTOM_PHYSNET_A': 'required',
                    'resources2:SRIOV_NET_VF': '1',
                    'group_policy': 'isolate',
                }
            ),
            f'group_policy=isolate&limit=1000&required1=CUSTOM_PHYSNET_A&{SMALL}'
            '&resources1=SRIOV_NET_VF%3A1&resources2=SRIOV_NET_VF%3A1',
            id='numbered groups',
        ),
        pytest.param(
            spec(
                extra_specs={
                    'resources_NET1:VGPU': '1',
                    'trait_NET1:CUSTOM_A': 'forbidden',
                }
            ),
            f'limit=1000&required_NET1=%21CUSTOM_A&{SMALL}&resources_NET1=VGPU%3A1',
            id='a named group',
        ),
        pytest.param(
            spec(extra_specs={'resources1:DISK_GB': '5'}),
            'limit=1000&resources=MEMORY_MB%3A512%2CVCPU%3A1&resources1=DISK_GB%3A5',
            id='a class in a numbered group is no default any more',
        ),
        pytest.param(
            spec(
                requested_destination=Destination(
                    aggregates=[f'{A2},{A1}', A3], forbidden_aggregates={A9, A8}
                )
            ),
            f'limit=1000&member_of=%21in%3A{A8}%2C{A9}&member_of=in%3A{A1}%2C{A2}'
            f'&member_of=in%3A{A3}&{SMALL}',
            id='aggregates of the destination',
        ),
        pytest.param(
            spec(requested_resources=[PORT]),
            f'limit=1000&{PORT_TEXT}',
            id='a port with a bandwidth',
        ),
        pytest.param(
            spec(
                requested_resources=[
                    PORT,
                    group(Q, {'NET_PACKET_RATE_KILOPACKET_PER_SEC': 10}),
                ],
                request_level_params=RequestLevelParams(same_subtree=[[Q, P]]),
            ),
            f'group_policy=none&limit=1000&{PORT_TEXT}'
            f'&resources{Q}=NET_PACKET_RATE_KILOPACKET_PER_SEC%3A10'
            f'&same_subtree={P}%2C{Q}',
            id='two groups of a port',
        ),
        pytest.param(
            spec(requested_resources=[group('X', {'VGPU': 1, 'FPGA': 0}, in_tree=H0)]),
            f'in_treeX={H0}&limit=1000&{SMALL}&resourcesX=VGPU%3A1',
            id='a requested group goes as it is, but for zeros',
        ),
        pytest.param(
            spec(requested_resources=None), f'limit=1000&{SMALL}', id='no groups'
        ),
        pytest.param(
            spec(extra_specs={'trait1:CUSTOM_A': 'required'}),
            f'limit=1000&required1=CUSTOM_A&{SMALL}&resources1=',
            id='a numbered group of traits only',
        ),
        pytest.param(
            spec(extra_specs={'resources1:VGPU': '0'}),
            f'limit=1000&{SMALL}',
            id='a group of nothing is dropped',
        ),
    ],
)
def test_query(request_, text):
    changes = request_.obj_what_changed()
    assert query(request_).encode() == text
    assert request_.obj_what_changed() == changes


def test_prefilters_add_to_the_query():
    assert query(spec('2/2048/20'), PREFILTERED).encode() == (
        'limit=1000&resources=DISK_GB%3A20%2CMEMORY_MB%3A2048%2CVCPU%3A2'
        '&root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED'
    )


def test_prefilters_add_to_what_the_request_says():
    params = RequestLevelParams(root_required={'A'}, root_forbidden={'B'})
    added = Requirements(
        root_required=frozenset({'OWNER_NOVA'}),
        member_of=(frozenset({A3}),),
        not_member_of=frozenset({A9}),
        group_required={'R1-0': frozenset({'OWNER_NOVA'})},
    )
    asked = spec(
        request_level_params=params,
        requested_destination=Destination(aggregates=[A1]),
        requested_resources=[group('R1-0', {'CUSTOM_GPU': 1}, 'CUSTOM_X')],
    )
    assert query(asked, added).encode() == (
        f'limit=1000&member_of=%21in%3A{A9}&member_of=in%3A{A1}&member_of=in%3A{A3}'
        f'&requiredR1-0=CUSTOM_X%2COWNER_NOVA&{SMALL}&resourcesR1-0=CUSTOM_GPU%3A1'
        '&root_required=A%2COWNER_NOVA%2C%21B'
    )
    assert (params.root_required, params.root_forbidden) == ({'A'}, {'B'})
    assert asked.requested_destination.aggregates == [A1]


@pytest.mark.parametrize(
    ('request_', 'nodes', 'text'),
    [
        pytest.param(
            spec(), [H0], f'in_tree={H0}&limit=1000&{SMALL}', id='the host has a node'
        ),
        pytest.param(spec(), [H0, H1], SMALL, id='the host has many nodes'),
        pytest.param(
            spec(scheduler_hints={'group': [P]}), None, SMALL, id='a server group'
        ),
        pytest.param(
            spec(scheduler_hints={'same_host': [P]}), None, SMALL, id='same host'
        ),
        pytest.param(
            spec(scheduler_hints={'different_host': [P, Q]}),
            [H0],
            f'in_tree={H0}&{SMALL}',
            id='a different host, and this one',
        ),
        pytest.param(
            spec(
                extra_specs={
                    'resources:VCPU': '0',
                    'resources:MEMORY_MB': '0',
                    'resources:DISK_GB': '0',
                    'resources1:VGPU': '1',
                }
            ),
            [H0],
            f'in_tree={H0}&limit=1000&resources=&resources1=VGPU%3A1',
            id='nothing is asked of the host itself',
        ),
    ],
)
def test_where_to(request_, nodes, text):
    assert query(request_, nodes=nodes).encode() == text


def test_no_limit():
    assert query(spec(), limit=None).encode() == SMALL


def test_groups_of_a_flavor_need_a_policy_of_its_own():
    asked = query(spec(extra_specs={'resources1:VGPU': '1', 'resources2:VGPU': '1'}))
    assert asked.group_policy is None
    assert (len(asked.warnings), asked.notes) == (1, ())


def test_groups_that_a_flavor_cannot_know_of_get_a_policy():
    extra_specs = {'resources1:VGPU': '1'}
    asked = query(spec(extra_specs=extra_specs, requested_resources=[PORT]))
    assert asked.group_policy == 'none'
    assert (len(asked.warnings), len(asked.notes)) == (1, 1)


def test_ignored_extra_specs_are_told():
    asked = query(spec(extra_specs={'resources:VCPU': 'many'}))
    assert asked.encode() == f'limit=1000&{SMALL}'
    assert len(asked.warnings) == 1


@pytest.mark.parametrize(
    'groups',
    [
        pytest.param([group(None, {'VGPU': 1})], id='without a name'),
        pytest.param([group('X', {})], id='empty'),
        pytest.param([group('X', {'VGPU': 1})] * 2, id='twice the same name'),
        pytest.param([group('1', {'VGPU': 1})], id='a name that the flavor uses'),
    ],
)
def test_requested_groups_that_make_no_sense(groups):
    extra_specs = {'resources1:VGPU': '1'}
    with pytest.raises(errors.InvalidRequest):
        query(spec(extra_specs=extra_specs, requested_resources=groups))


def test_the_limit_is_an_option_of_nova():
    conf = cfg.ConfigOpts()
    conf.register_opts(request.OPTS['scheduler'], 'scheduler')
    assert request.limit_from_conf(conf) == 1000
