# SPDX-License-Identifier: Apache-2.0
"""Random specs that have much for prefilters to do; plain data, for both sides.

Left out is what nova crashes on: no image, no disk format, an unset ``is_bfv``, a
network request with neither port nor network.
"""

import random

OPTIONS = (
    'limit_tenants_to_placement_aggregate',
    'placement_aggregate_required_for_tenants',
    'query_placement_for_image_type_support',
    'enable_isolated_aggregate_filtering',
    'image_metadata_prefilter',
    'query_placement_for_routed_network_aggregates',
)
BOOLEANS = ('true', 'True', ' yes ', 'on', '1', 'false', '0', '', 'perhaps')
EXTRA_SPECS = {
    'hw:virtio_packed_ring': BOOLEANS,
    'hw:ephemeral_encryption': BOOLEANS,
    'hw:ephemeral_encryption_format': ('plain', 'luks', 'luksv2', 'LUKS', ''),
    'hw:sound_model': ('virtio', 'usb', 'sb16', 'bad', ''),
    'hw:tpm_version': ('1.2', '2.0', '2.0', '2.0', '3', ''),
    'hw:tpm_model': ('tpm-tis', 'tpm-crb', 'bad', ''),
    'hw:tpm_secret_security': ('user', 'host', 'deployment', 'bad', ''),
    'hw:cpu_thread_policy': ('require', 'isolate', 'prefer'),
    'accel:device_profile': ('fpga', ''),
    'trait:CUSTOM_A': ('required', 'forbidden', 'bad'),
    'trait:CUSTOM_B': ('required',),
    'trait_x:CUSTOM_C': ('required', 'forbidden'),
    'resources_x:VGPU': ('1',),
}
PROPERTIES = {
    'hw_virtio_packed_ring': (True, False),
    'hw_ephemeral_encryption': (True, False),
    'hw_ephemeral_encryption_format': ('plain', 'luks', 'luksv2'),
    'hw_sound_model': ('virtio', 'usb', 'sb16'),
    'hw_tpm_version': ('1.2', '2.0'),
    'hw_tpm_model': ('tpm-tis', 'tpm-crb'),
    'traits_required': (['CUSTOM_A'], ['CUSTOM_B', 'CUSTOM_C']),
    'hw_cdrom_bus': ('ide', 'sata'),
    'hw_disk_bus': ('virtio', 'scsi', 'uml'),
    'hw_video_model': ('none', 'bochs', 'virtio'),
    'hw_vif_model': ('spapr-vlan', 'e1000', 'igb'),
    'hw_architecture': ('x86_64', 'aarch64', 'armv7l'),
    'hw_emulation_architecture': ('aarch64', 'i686'),
    'hw_viommu_model': ('intel', 'auto'),
    'hw_floppy_bus': ('fdc',),
}
METADATA = {
    'filter_tenant_id': ('p1', 'p2', 'p1,p2'),
    'filter_tenant_id2': ('p1', 'p2'),
    'xfilter_tenant_id': ('p1',),
    'availability_zone': ('az1', 'az2'),
    'trait:CUSTOM_A': ('required', 'forbidden'),
    'trait:CUSTOM_B': ('required',),
    'trait:CUSTOM_C': ('required',),
    'trait:COMPUTE_SECURITY_TPM_2_0': ('required',),
    'trait:HW_CPU_HYPERTHREADING': ('required',),
    'trait:OWNER_NOVA': ('required',),
}
FORMATS = ('qcow2', 'raw', 'iso', 'ploop', 'docker', 'rbd')
VNIC_TYPES = ('normal', 'direct', 'remote-managed')


def uuid(kind, number):
    """The uuid of a thing; equal in both processes."""
    return f'{kind:08d}-7ff0-44c2-951c-{number:012d}'


def some(rng, values, share):
    """Return a value for some of the keys."""
    return {
        key: rng.choice(choices)
        for key, choices in values.items()
        if rng.random() < share
    }


def spec(seed):
    """Return the spec of a seed: the same one in every run."""
    rng = random.Random(seed)
    aggregates = {uuid(1, n): some(rng, METADATA, 0.2) for n in range(6)}
    world = _world(rng, sorted(aggregates))
    pci = [uuid(7, n) for n in range(rng.choice((0, 0, 1, 2)))]
    return {
        'options': {name: rng.random() < 0.5 for name in OPTIONS},
        'version': rng.choice((0, 72, 73, 74, 74, 74)),
        'aggregates': aggregates,
        'world': world,
        'extra_specs': some(rng, EXTRA_SPECS, rng.choice((0.05, 0.2))),
        'properties': some(rng, PROPERTIES, rng.choice((0.05, 0.2))),
        'disk_format': rng.choice(FORMATS),
        'is_bfv': rng.random() < 0.3,
        'project_id': rng.choice(('p1', 'p2', 'p3')),
        'availability_zone': rng.choice((None, '', 'az1', 'az2', 'nova')),
        'networks': _networks(rng, world),
        'pci_requests': [
            {'request_id': one, 'alias_name': rng.choice(('gpu', None))} for one in pci
        ],
        'requested_resources': [
            {
                'requester_id': name,
                'resources': {'VGPU': 1},
                'required_traits': rng.choice(([], ['CUSTOM_A'])),
            }
            for name in [f'{one}-0' for one in pci] + pci[:1]
        ],
        'root_required': rng.choice(([], [], ['CUSTOM_R'], ['OWNER_NOVA'])),
    }


def _world(rng, aggregates):
    """Return the networks that there are: most with segments, some without."""
    segments = {
        uuid(2, n): rng.sample(aggregates, rng.choice((0, 1, 1, 1, 2, 2)))
        for n in range(4)
    }
    choices = [None, *segments]
    networks = {
        uuid(3, n): rng.sample(choices, rng.choice((0, 1, 1, 2))) for n in range(3)
    }
    subnets = {uuid(4, n): rng.choice(choices) for n in range(3)}
    ports = {
        uuid(5, n): {
            'id': uuid(5, n),
            'binding:vnic_type': rng.choice(VNIC_TYPES),
            'network_id': rng.choice(sorted(networks)),
            'fixed_ips': [
                {'subnet_id': one, 'ip_address': '10.0.0.7'}
                for one in rng.sample(sorted(subnets), rng.choice((0, 1, 2)))
            ],
        }
        for n in range(3)
    }
    return {
        'segments': segments,
        'networks': networks,
        'subnets': subnets,
        'ports': ports,
    }


def _networks(rng, world):
    return [
        {'port_id': rng.choice(sorted(world['ports']))}
        if rng.random() < 0.5
        else {'network_id': rng.choice(sorted(world['networks']))}
        for _ in range(rng.choice((0, 0, 1, 1, 2)))
    ]
