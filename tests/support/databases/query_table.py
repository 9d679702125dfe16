# SPDX-License-Identifier: Apache-2.0
"""Requests that are plain data, and the queries that nova makes of some of them.

The data goes to nova's process and to ours alike.
"""

import urllib.parse

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.request_spec import (
    CellMapping,
    Destination,
    RequestGroup,
    RequestLevelParams,
    RequestSpec,
)

IMAGE_ID = 'f0000000-7ff0-54c2-951c-428525f83c2f'
H0, H1, P, Q, R1, R2, A1, A2, A3, A8, A9 = (
    f'{n:08d}-7ff0-54c2-951c-428525f83c2f' for n in range(11)
)
NODES = (('h0', 'n0', H0), ('two', 'n1', H1), ('two', 'n2', P))
SMALL = 'resources=DISK_GB:1,MEMORY_MB:512,VCPU:1'
PREFILTERED = {
    'root_required': ['OWNER_NOVA'],
    'root_forbidden': ['COMPUTE_STATUS_DISABLED'],
}
ROOT = 'root_required=OWNER_NOVA,!COMPUTE_STATUS_DISABLED'
UEFI = {'hw_firmware_type': 'uefi'}


def given(size='1/512/1', ephemeral=0, swap=0, extra_specs=None, **values):
    """Return a request as data; ``size`` is VCPUs/MiB/GiB of the flavor.

    The other values are those of DEFAULTS. ``image`` are its properties; ``level``
    holds for the request as a whole; ``nodes`` are (host, node, uuid).
    """
    vcpus, memory_mb, root_gb = (int(part) for part in size.split('/'))
    flavor = {
        'vcpus': vcpus,
        'memory_mb': memory_mb,
        'root_gb': root_gb,
        'ephemeral_gb': ephemeral,
        'swap': swap,
        'extra_specs': extra_specs or {},
    }
    assert values.keys() <= DEFAULTS.keys()
    return {'flavor': flavor, **DEFAULTS, **values}


DEFAULTS = {
    'image': None,
    'is_bfv': None,
    'groups': [],
    'destination': None,
    'force_hosts': None,
    'force_nodes': None,
    'hints': {},
    'level': {},
    'nodes': NODES,
    'limit': 1000,
}


def group(suffix, resources, *required, **fields):
    """Return a requested group as data."""
    return {
        'requester_id': suffix,
        'resources': resources,
        'required_traits': list(required),
        **fields,
    }


SETS = (
    'required_traits',
    'forbidden_traits',
    'forbidden_aggregates',
    'root_required',
    'root_forbidden',
)
"""The fields that are sets, which data cannot be."""


def with_sets(fields):
    """Return the fields of an object from data."""
    return {
        name: set(value) if name in SETS else value for name, value in fields.items()
    }


def request_of(data):
    """Return the request that the data describes."""
    values = {} if data['is_bfv'] is None else {'is_bfv': data['is_bfv']}
    image = data['image'] and {
        'id': IMAGE_ID,
        'name': 'image',
        'properties': data['image'],
    }
    groups = data['groups']
    made = RequestSpec(
        flavor=Flavor(name='flavor', **data['flavor']),
        image=None if image is None else ImageMeta.from_dict(image),
        requested_resources=groups
        and [RequestGroup(**with_sets(each)) for each in groups],
        requested_destination=_destination(data['destination']),
        force_hosts=data['force_hosts'],
        force_nodes=data['force_nodes'],
        scheduler_hints=data['hints'],
        request_level_params=RequestLevelParams(**with_sets(data['level'])),
        **values,
    )
    made.obj_reset_changes(recursive=True)
    return made


def _destination(data):
    if data is None:
        return None
    values = with_sets(data)
    if 'cell' in data:
        values['cell'] = CellMapping(uuid=data['cell'])
    return Destination(**values)


PORT = group(
    P,
    {'NET_BW_EGR_KILOBIT_PER_SEC': 1000, 'NET_BW_IGR_KILOBIT_PER_SEC': 1000},
    'CUSTOM_PHYSNET_2',
    'CUSTOM_VNIC_TYPE_NORMAL',
)
PACKETS = group(Q, {'NET_PACKET_RATE_KILOPACKET_PER_SEC': 10})
PORT_TEXT = (
    f'required{P}=CUSTOM_PHYSNET_2,CUSTOM_VNIC_TYPE_NORMAL&{SMALL}&resources{P}='
    'NET_BW_EGR_KILOBIT_PER_SEC:1000,NET_BW_IGR_KILOBIT_PER_SEC:1000'
)
NOTHING = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}
MIXED = {'hw:cpu_policy': 'mixed'}
PINNED = {'hw:cpu_policy': 'dedicated'}
FALLBACK = 'limit=1000&resources=DISK_GB:10,MEMORY_MB:4096,VCPU:4'


def encoded(text):
    """Return a query as it is sent."""
    return urllib.parse.quote(text, safe='=&')


def asks(request, *queries):
    """Return a row: a request, its query, and the fallback if it has one."""
    return request, [encoded(each) for each in queries]


TABLE = {
    'a plain flavor': asks(
        given('2/2048/20'), 'limit=1000&resources=DISK_GB:20,MEMORY_MB:2048,VCPU:2'
    ),
    'what prefilters always add': asks(
        given('2/2048/20', level=PREFILTERED),
        f'limit=1000&resources=DISK_GB:20,MEMORY_MB:2048,VCPU:2&{ROOT}',
    ),
    'ephemeral and swap disks count': asks(
        given('2/2048/20', 5, 1500),
        'limit=1000&resources=DISK_GB:27,MEMORY_MB:2048,VCPU:2',
    ),
    'the root disk is a volume': asks(
        given('2/2048/20', 5, 1500, is_bfv=True),
        'limit=1000&resources=DISK_GB:7,MEMORY_MB:2048,VCPU:2',
    ),
    'a volume and no other disk': asks(
        given('2/2048/20', is_bfv=True), 'limit=1000&resources=MEMORY_MB:2048,VCPU:2'
    ),
    'no disk at all': asks(
        given('2/2048/0'), 'limit=1000&resources=MEMORY_MB:2048,VCPU:2'
    ),
    'zero turns a default off': asks(
        given(extra_specs={**NOTHING, 'resources:CUSTOM_BAREMETAL_GOLD': '1'}),
        'limit=1000&resources=CUSTOM_BAREMETAL_GOLD:1',
    ),
    'an amount of its own': asks(
        given('8/8192/80', extra_specs={'resources:VCPU': '4'}),
        'limit=1000&resources=DISK_GB:80,MEMORY_MB:8192,VCPU:4',
    ),
    'PCPU by name replaces VCPU': asks(
        given('4/8192/80', extra_specs={'resources:PCPU': '4'}),
        'limit=1000&resources=DISK_GB:80,MEMORY_MB:8192,PCPU:4',
    ),
    'traits of the flavor': asks(
        given(
            extra_specs={
                'trait:CUSTOM_GOLD': 'required',
                'trait:HW_CPU_X86_AVX2': 'forbidden',
            }
        ),
        f'limit=1000&required=CUSTOM_GOLD,!HW_CPU_X86_AVX2&{SMALL}',
    ),
    'traits of the image': asks(
        given(image={'trait:CUSTOM_LIC': 'required'}),
        f'limit=1000&required=CUSTOM_LIC&{SMALL}',
    ),
    'numbered groups': asks(
        given(
            extra_specs={
                'resources1:SRIOV_NET_VF': '1',
                'trait1:CUSTOM_PHYSNET_A': 'required',
                'resources2:SRIOV_NET_VF': '1',
                'group_policy': 'isolate',
            }
        ),
        f'group_policy=isolate&limit=1000&required1=CUSTOM_PHYSNET_A&{SMALL}'
        '&resources1=SRIOV_NET_VF:1&resources2=SRIOV_NET_VF:1',
    ),
    'a named group': asks(
        given(
            extra_specs={'resources_NET1:VGPU': '1', 'trait_NET1:CUSTOM_A': 'forbidden'}
        ),
        f'limit=1000&required_NET1=!CUSTOM_A&{SMALL}&resources_NET1=VGPU:1',
    ),
    'a class in a numbered group is no default any more': asks(
        given(extra_specs={'resources1:DISK_GB': '5'}),
        'limit=1000&resources=MEMORY_MB:512,VCPU:1&resources1=DISK_GB:5',
    ),
    'dedicated CPUs, and shared ones instead': asks(
        given('4/4096/10', extra_specs=PINNED),
        'limit=1000&resources=DISK_GB:10,MEMORY_MB:4096,PCPU:4',
        FALLBACK,
    ),
    'cores of their own, and one for the emulator': asks(
        given(
            '4/4096/10',
            extra_specs={
                **PINNED,
                'hw:cpu_thread_policy': 'isolate',
                'hw:emulator_threads_policy': 'isolate',
            },
        ),
        'limit=1000&required=!HW_CPU_HYPERTHREADING'
        '&resources=DISK_GB:10,MEMORY_MB:4096,PCPU:5',
        FALLBACK,
    ),
    'dedicated and shared CPUs': asks(
        given('4/4096/10', extra_specs={**MIXED, 'hw:cpu_dedicated_mask': '0-1'}),
        'limit=1000&resources=DISK_GB:10,MEMORY_MB:4096,PCPU:2,VCPU:2',
    ),
    'all dedicated but one, and one for the emulator': asks(
        given(
            '4/4096/10',
            extra_specs={
                **MIXED,
                'hw:cpu_dedicated_mask': '^3',
                'hw:emulator_threads_policy': 'isolate',
            },
        ),
        'limit=1000&resources=DISK_GB:10,MEMORY_MB:4096,PCPU:4,VCPU:1',
    ),
    'memory encrypted by SEV': asks(
        given(extra_specs={'hw:mem_encryption': 'true'}, image=UEFI),
        'limit=1000&required=HW_CPU_X86_AMD_SEV&resources=DISK_GB:1'
        ',MEMORY_MB:512,MEM_ENCRYPTION_CONTEXT:1,VCPU:1',
    ),
    'memory encrypted by TDX': asks(
        given(
            extra_specs={
                'hw:mem_encryption': 'true',
                'hw:mem_encryption_model': 'intel-tdx',
            },
            image={**UEFI, 'hw_firmware_stateless': 'true', 'hw_video_model': 'none'},
        ),
        'limit=1000&required=COMPUTE_SECURITY_STATELESS_FIRMWARE'
        ',HW_CPU_X86_INTEL_TDX&resources=DISK_GB:1,MEMORY_MB:512'
        ',MEM_ENCRYPTION_CONTEXT:1,VCPU:1',
    ),
    'a TPM': asks(
        given(
            extra_specs={'hw:tpm_version': '2.0', 'hw:tpm_model': 'tpm-crb'},
            level={
                **PREFILTERED,
                'root_required': [
                    'OWNER_NOVA',
                    'COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER',
                ],
            },
        ),
        'limit=1000&required=COMPUTE_SECURITY_TPM_2_0,COMPUTE_SECURITY_TPM_CRB'
        f'&{SMALL}&root_required=COMPUTE_SECURITY_TPM_SECRET_SECURITY_USER'
        ',OWNER_NOVA,!COMPUTE_STATUS_DISABLED',
    ),
    'persistent memory': asks(
        given(extra_specs={'hw:pmem': '6GB,16GB,6GB'}),
        'limit=1000&resources=CUSTOM_PMEM_NAMESPACE_16GB:1'
        ',CUSTOM_PMEM_NAMESPACE_6GB:2,DISK_GB:1,MEMORY_MB:512'
        ',VCPU:1',
    ),
    'a packed ring and a sound card': asks(
        given(
            level={
                **PREFILTERED,
                'root_required': [
                    'COMPUTE_NET_VIRTIO_PACKED',
                    'COMPUTE_SOUND_MODEL_VIRTIO',
                    'OWNER_NOVA',
                ],
            }
        ),
        f'limit=1000&{SMALL}&root_required=COMPUTE_NET_VIRTIO_PACKED'
        ',COMPUTE_SOUND_MODEL_VIRTIO,OWNER_NOVA,!COMPUTE_STATUS_DISABLED',
    ),
    'a forced host': asks(
        given(force_hosts=['h0']), f'in_tree={H0}&limit=1000&{SMALL}'
    ),
    'a forced host with two nodes': asks(given(force_hosts=['two']), SMALL),
    'aggregates of the destination': asks(
        given(
            destination={
                'aggregates': [f'{A2},{A1}', A3],
                'forbidden_aggregates': [A9, A8],
            }
        ),
        f'limit=1000&member_of=!in:{A8},{A9}&member_of=in:{A1},{A2}'
        f'&member_of=in:{A3}&{SMALL}',
    ),
    'a port with a bandwidth': asks(given(groups=[PORT]), f'limit=1000&{PORT_TEXT}'),
    'a port with a bandwidth and a rate': asks(
        given(groups=[PORT, PACKETS], level={'same_subtree': [[Q, P]]}),
        f'group_policy=none&limit=1000&{PORT_TEXT}'
        f'&resources{Q}=NET_PACKET_RATE_KILOPACKET_PER_SEC:10'
        f'&same_subtree={P},{Q}',
    ),
    'PCI devices': asks(
        given(
            groups=[
                group(f'{R1}-0', {'CUSTOM_PCI_8086_1563': 1}, 'OWNER_NOVA'),
                group(f'{R1}-1', {'CUSTOM_PCI_8086_1563': 1}, 'OWNER_NOVA'),
                group(
                    f'{R2}-0',
                    {'CUSTOM_GPU': 1},
                    'CUSTOM_HW_NIC_SRIOV',
                    'CUSTOM_MY_GPU',
                    'OWNER_NOVA',
                ),
            ],
            level=PREFILTERED,
        ),
        f'group_policy=none&limit=1000&required{R1}-0=OWNER_NOVA'
        f'&required{R1}-1=OWNER_NOVA&required{R2}-0=CUSTOM_HW_NIC_SRIOV'
        f',CUSTOM_MY_GPU,OWNER_NOVA&{SMALL}'
        f'&resources{R1}-0=CUSTOM_PCI_8086_1563:1'
        f'&resources{R1}-1=CUSTOM_PCI_8086_1563:1'
        f'&resources{R2}-0=CUSTOM_GPU:1&{ROOT}',
    ),
    'a destination host': asks(
        given(destination={'host': 'h0'}), f'in_tree={H0}&limit=1000&{SMALL}'
    ),
    'a destination node': asks(
        given(destination={'host': 'two', 'node': 'n1', 'cell': A1}),
        f'in_tree={H1}&limit=1000&{SMALL}',
    ),
    'a server group': asks(given(hints={'group': [P]}), SMALL),
    'the host of a server': asks(given(hints={'same_host': [P]}), SMALL),
    'another host than these, and this one': asks(
        given(hints={'different_host': [P, Q]}, force_hosts=['h0']),
        f'in_tree={H0}&{SMALL}',
    ),
    'a numbered group of traits only': asks(
        given(extra_specs={'trait1:CUSTOM_A': 'required'}),
        f'limit=1000&required1=CUSTOM_A&{SMALL}&resources1=',
    ),
    'a group of nothing is dropped': asks(
        given(extra_specs={'resources1:VGPU': '0'}), f'limit=1000&{SMALL}'
    ),
    'a requested group goes as it is, but for zeros': asks(
        given(groups=[group('X', {'VGPU': 1, 'FPGA': 0}, in_tree=H0)]),
        f'in_treeX={H0}&limit=1000&{SMALL}&resourcesX=VGPU:1',
    ),
    'no groups': asks(given(groups=None), f'limit=1000&{SMALL}'),
}
"""By what it shows: the request, its query, and the fallback if it has one."""
