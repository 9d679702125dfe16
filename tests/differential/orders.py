# SPDX-License-Identifier: Apache-2.0
"""Flavors and images that servers are ordered with; plain data, for both sides.

ACCEPTED become requests, REFUSED are not accepted by nova's API. Of each: the extra
specs of the flavor, then the properties of the image, then what else is ordered.
"""

import json

UUID = 'c0000000-0000-4000-8000-000000000001'
IMAGE = 'd0000000-0000-4000-8000-000000000001'
PINNED = {'hw:cpu_policy': 'dedicated'}
MIXED = {'hw:cpu_policy': 'mixed', 'hw:cpu_dedicated_mask': '0-1'}
REALTIME = {'hw:cpu_realtime': 'yes', 'hw:cpu_realtime_mask': '^0'}
NODES = {
    'hw:numa_nodes': '2',
    'hw:numa_cpus.0': '0-2',
    'hw:numa_mem.0': '768',
    'hw:numa_cpus.1': '3',
    'hw:numa_mem.1': '256',
}
NODES_OF_IMAGE = {key.replace('hw:', 'hw_'): value for key, value in NODES.items()}
GPU = {'pci_passthrough:alias': 'gpu:2'}
TRACKED = {'in_placement': True}
SIBLINGS = {'trait:HW_CPU_HYPERTHREADING': 'required'}

ACCEPTED = {
    'nothing': ({},),
    'ephemeral and swap': ({}, {}, {'ephemeral_gb': 5, 'swap': 1500}),
    'boot from volume': ({}, {}, {'is_bfv': True}),
    'several in a zone with hints': (
        {},
        {},
        {'count': 3, 'zone': 'az1', 'hints': {'same_host': [UUID]}},
    ),
    'a server group': ({}, {}, {'hints': {'group': [UUID]}}),
    'resources and traits': (
        {
            'resources:VGPU': '1',
            'trait:CUSTOM_A': 'required',
            'resources1:CUSTOM_B': '1',
        },
    ),
    'bare metal': ({'resources:VCPU': '0', 'resources:CUSTOM_GOLD': '1'},),
    'two nodes': ({'hw:numa_nodes': '2'},),
    'two nodes of the image': ({}, {'hw_numa_nodes': '2'}),
    'each node in full': (NODES,),
    'each node in full, by the image': ({}, NODES_OF_IMAGE),
    'pinned': (PINNED,),
    'pinned by the image': ({}, {'hw_cpu_policy': 'dedicated'}),
    'pinned to siblings': ({**PINNED, 'hw:cpu_thread_policy': 'require'},),
    'pinned apart, by the image': (PINNED, {'hw_cpu_thread_policy': 'isolate'}),
    'pinned to siblings, by a trait': ({**PINNED, **SIBLINGS},),
    'pinned by its resource': ({'resources:PCPU': '4'},),
    'pinned by resources of groups': (
        {'resources1:PCPU': '2', 'resources2:PCPU': '2'},
    ),
    'pinned by no resource': ({'resources:PCPU': '0'},),
    'shared by its resource': ({'resources:VCPU': '4', 'hw:numa_nodes': '1'},),
    'emulator apart': ({**PINNED, 'hw:emulator_threads_policy': 'isolate'},),
    'emulator shared': ({**PINNED, 'hw:emulator_threads_policy': 'share'},),
    'mixed': (MIXED,),
    'mixed on two nodes': ({**MIXED, 'hw:numa_nodes': '2'},),
    'mixed on two nodes, apart': (
        {**MIXED, 'hw:numa_nodes': '2', 'hw:cpu_thread_policy': 'isolate'},
    ),
    'mixed by realtime': ({**REALTIME, 'hw:cpu_policy': 'mixed'},),
    'mixed by realtime of the image': (
        {**REALTIME, 'hw:cpu_policy': 'mixed'},
        {'hw_cpu_realtime_mask': '2-3'},
    ),
    'realtime': ({**PINNED, **REALTIME},),
    'all realtime': (
        {**PINNED, 'hw:cpu_realtime': 'yes', 'hw:emulator_threads_policy': 'share'},
    ),
    'large pages': ({'hw:mem_page_size': 'large'},),
    'pages with a unit': ({'hw:mem_page_size': '2MB'},),
    'pages with another unit': ({'hw:mem_page_size': '1GiB'},),
    'pages in KiB': ({'hw:mem_page_size': '2048'},),
    'pages that the image chooses': (
        {'hw:mem_page_size': 'any'},
        {'hw_mem_page_size': '2MB'},
    ),
    'persistent memory': ({'hw:pmem': '6GB,6GB'},),
    'secure boot and a TPM': ({'os:secure_boot': 'required', 'hw:tpm_version': '2.0'},),
    'encrypted memory': ({'hw:mem_encryption': 'true'}, {'hw_firmware_type': 'uefi'}),
    'queues of interfaces': ({'hw:vif_multiqueue_enabled': 'true'},),
    'locked memory': ({'hw:mem_page_size': 'large', 'hw:locked_memory': 'true'},),
    'devices': (GPU,),
    'devices in placement': (GPU, {}, TRACKED),
    'devices by class and traits': (
        {'pci_passthrough:alias': 'accelerator:1 , nic: 2'},
        {},
        TRACKED,
    ),
    'devices by a class of placement': (
        {'pci_passthrough:alias': 'vgpu:1'},
        {},
        TRACKED,
    ),
    'devices near, by the flavor': (
        {**GPU, 'hw:pci_numa_affinity_policy': 'required'},
        {},
        TRACKED,
    ),
    'devices near, by the image': (GPU, {'hw_pci_numa_affinity_policy': 'socket'}),
    'either device': (
        {'pci_passthrough:alias': 'either:1'},
        {},
        {'in_placement': False, 'aliases': ['either']},
    ),
}

REFUSED = {
    'an unknown CPU policy': ({'hw:cpu_policy': 'x'},),
    'a CPU policy that the image overrides': (
        {'hw:cpu_policy': 'shared'},
        {'hw_cpu_policy': 'dedicated'},
    ),
    'threads without CPUs': ({'hw:cpu_thread_policy': 'require'},),
    'a trait of threads without CPUs': (SIBLINGS,),
    'threads said twice': ({**PINNED, **SIBLINGS, 'hw:cpu_thread_policy': 'require'},),
    'emulator apart without CPUs': ({'hw:emulator_threads_policy': 'isolate'},),
    'mixed without a mask': ({'hw:cpu_policy': 'mixed'},),
    'mixed with two masks': ({**MIXED, **REALTIME},),
    'a mask without mixed': ({**PINNED, 'hw:cpu_dedicated_mask': '0'},),
    'a mask of no such CPU': ({**MIXED, 'hw:cpu_dedicated_mask': '9'},),
    'realtime without CPUs': (REALTIME,),
    'all realtime with the emulator': ({**PINNED, 'hw:cpu_realtime': 'yes'},),
    'PCPU beside a policy': ({**PINNED, 'resources:PCPU': '4'},),
    'PCPU beside VCPU': ({'resources:PCPU': '2', 'resources:VCPU': '2'},),
    'PCPU that does not fit': ({'resources:PCPU': '2'},),
    'PCPU without one for the emulator': (
        {'resources:PCPU': '4', 'hw:emulator_threads_policy': 'isolate'},
    ),
    'nodes said twice': ({'hw:numa_nodes': '2'}, {'hw_numa_nodes': '2'}),
    'nodes that are not equal': ({'hw:numa_nodes': '3'},),
    'nodes that are no number': ({'hw:numa_nodes': 'x'},),
    'no nodes': ({'hw:numa_nodes': '0'},),
    'half a node': ({'hw:numa_nodes': '1', 'hw:numa_mem.0': '1024'},),
    'pages of no size': ({'hw:mem_page_size': 'x'},),
    'pages in capitals': ({'hw:mem_page_size': 'LARGE'},),
    'pages by the image alone': ({}, {'hw_mem_page_size': 'large'}),
    'pages said twice': ({'hw:mem_page_size': '2MB'}, {'hw_mem_page_size': '1GB'}),
    'an unknown alias': ({'pci_passthrough:alias': 'x:1'},),
    'an alias for two devices in placement': (
        GPU,
        {},
        {'in_placement': True, 'aliases': ['gpu', 'either']},
    ),
    'an alias of no device': (GPU, {}, {'aliases': ['gpu', 'vague']}),
    'an alias by class outside placement': (
        {'pci_passthrough:alias': 'vgpu:1'},
        {},
        {'aliases': ['vgpu']},
    ),
    'an alias that may or may not move': (
        {'pci_passthrough:alias': 'odd:1'},
        {},
        {'aliases': ['odd']},
    ),
}

ALIASES = {
    'gpu': [{'vendor_id': '10de', 'product_id': '1dB4', 'device_type': 'type-PCI'}],
    'nic': [
        {
            'vendor_id': '8086',
            'product_id': '1563',
            'device_type': 'type-VF',
            'numa_policy': 'preferred',
            'live_migratable': 'yes',
            'traits': 'CUSTOM_a,CUSTOM_B,my-nic,HW_NIC_SRIOV,hw_gpu_api_vulkan, c,',
        }
    ],
    'accelerator': [{'resource_class': 'fast-card.2', 'traits': 'CUSTOM_FAST'}],
    'vgpu': [{'resource_class': 'vgpu', 'traits': ''}],
    'either': [
        {'vendor_id': '8086', 'product_id': one, 'device_type': 'type-VF'}
        for one in ('0001', '0002')
    ],
    'vague': [{'vendor_id': '8086'}],
    'odd': [{'vendor_id': '8086', 'product_id': '0003', 'live_migratable': 'perhaps'}],
}
BY_DEVICE = ['gpu', 'nic']


def order(specs, properties=None, more=None):
    """Return an order in full."""
    more = dict(more or {})
    sizes = {name: more.pop(name, 0) for name in ('ephemeral_gb', 'swap')}
    in_placement = more.pop('in_placement', False)
    by_class = ['accelerator', 'vgpu'] if in_placement else []
    return {
        'uuid': UUID,
        'flavor': {
            'id': 1,
            'flavorid': 'f',
            'name': 'f',
            'vcpus': 4,
            'memory_mb': 1024,
            'root_gb': 1,
            **sizes,
            'extra_specs': specs,
        },
        'image': {
            'id': IMAGE,
            'name': 'i',
            'status': 'active',
            'min_ram': 0,
            'min_disk': 0,
            'properties': properties or {},
        },
        'in_placement': in_placement,
        'aliases': [
            json.dumps({'name': name, **each})
            for name in more.pop('aliases', BY_DEVICE + by_class)
            for each in ALIASES[name]
        ],
        'hints': {},
        'zone': None,
        'is_bfv': False,
        'count': 1,
        **more,
    }
