# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests of every kind that the rules tell apart."""

import ipaddress
import json

from hypothesis import strategies as st

from novasched.objects.compute_node import ComputeNode, ComputeNodeList
from novasched.objects.instance import Instance
from novasched.objects.request_spec import CellMapping, Destination, SchedulerRetries
from tests.support.clouds import factories

NAN = float('nan')
ALIAS = '7c676751-512d-41c1-b313-66dc92a3b8f6'
MEMBERS = ['m1', 'm2', 'm3']
INSTANCES = {'m1': Instance(instance_type_id=1), 'm2': Instance(instance_type_id=2)}
CELLS = [f'0000000{number}-0000-4000-8000-000000000000' for number in (1, 2)]
RATIOS = ('cpu_allocation_ratio', 'disk_allocation_ratio', 'ram_allocation_ratio')
WEIGHTS = st.sampled_from(['-1', '0', '0.1', '2', ' 3 ', '1e3', 'many', ''])
MULTIPLIERS = (
    'build_failure_weight_multiplier',
    'cpu_weight_multiplier',
    'cross_cell_move_weight_multiplier',
    'disk_weight_multiplier',
    'hypervisor_version_weight_multiplier',
    'image_props_weight_multiplier',
    'io_ops_weight_multiplier',
    'metrics_weight_multiplier',
    'num_instances_weight_multiplier',
    'pci_weight_multiplier',
    'ram_weight_multiplier',
    'soft_affinity_weight_multiplier',
    'soft_anti_affinity_weight_multiplier',
)


def some_of(values, most=2):
    """Return up to ``most`` of the values, each once."""
    return st.lists(st.sampled_from(values), unique=True, max_size=most)


metadata = st.fixed_dictionaries(
    {},
    optional={
        'availability_zone': st.sampled_from(['az1', 'az2', 'az1, az2']),
        'ssd': st.sampled_from(['true', 'false', 'true,false', '']),
        'size': st.sampled_from(['1', '5', '1,5']),
        'max_instances_per_host': st.sampled_from(['3', '40', 'few']),
        'max_io_ops_per_host': st.sampled_from(['3', ' 40 ', '8.5']),
        'filter_tenant_id': st.sampled_from(['project', 'other', 'other, project', '']),
        'filter_tenant_id2': st.just('other'),
        'instance_type': st.sampled_from(['small', 'large', 'large, small']),
        'os_distro': st.sampled_from(['windows', 'linux', 'linux,windows']),
        'hw_boot_menu': st.sampled_from(['True', 'true']),
        **dict.fromkeys(RATIOS, st.sampled_from(['1.5', '2', 'many', 'nan'])),
        'local_disk': st.just('true'),
        'local_disk_type': st.just('ssd, nvme'),
        'dedicated_cloud_id': st.sampled_from(['a', 'a,b', '']),
        'dedicated_cloud_project_id': st.sampled_from(['project', 'p2']),
        'vgpu_types': st.just('v1,v2'),
        **dict.fromkeys(MULTIPLIERS, WEIGHTS),
    },
)
aggregates = st.lists(metadata, max_size=2).map(
    lambda many: tuple(
        factories.aggregate(number, **values) for number, values in enumerate(many)
    )
)
amounts = st.one_of(st.integers(-4, 60), st.integers(-(2**60), 2**60))
counters = st.integers(0, 60)
ratios = st.sampled_from([1.0, 1.5, 4.0, 16.0, 0.1, NAN])
# Of hosts that reported: CPUWeigher, as nova's, raises for the others.
known_ratios = st.sampled_from([1.0, 1.5, 4.0, 16.0, 0.1])
candidates = st.lists(
    st.integers(0, 9).map(
        lambda n: {
            'allocations': {f'p{n}': {'resources': {'VGPU': n // 3}}},
            'mappings': {'': ['root'], f'{ALIAS}-0': [f'rp{n % 3}']} if n else {},
        }
    ),
    max_size=3,
)
pools = st.sampled_from(
    [
        None,
        '[]',
        'no JSON',
        factories.pools(150, {'count': '2', 'dev_type': 'type-PF'}),
        factories.pools({'numa_node': 1, 'count': 2}, {'numa_node': 0}),
        factories.pools(*({'rp_uuid': f'rp{n}', 'numa_node': n} for n in range(2))),
    ]
)
topologies = st.sampled_from(
    [
        None,
        'no JSON',
        factories.numa_topology(),
        factories.numa_topology(factories.numa_cell(0, range(4), threads=2)),
        factories.numa_topology(
            factories.numa_cell(0, range(4), pinned=[0, 1], cpu_usage=7),
            factories.numa_cell(1, range(4, 8), pages={4: 524288, 1048576: 1}),
        ),
        factories.numa_topology(
            *(
                factories.numa_cell(n, range(4 * n, 4 * n + 3), memory_usage=1024 * n)
                for n in range(3)
            )
        ),
    ]
)
guests = st.none() | st.builds(
    lambda count, emulator, **fields: factories.guest_topology(
        *(factories.guest_cell(n, **fields) for n in range(count)), emulator=emulator
    ),
    count=st.integers(0, 3),
    cpus=st.sampled_from([range(1), range(3)]),
    policy=st.sampled_from([None, 'dedicated', 'mixed']),
    cpu_thread_policy=st.sampled_from([None, 'require', 'isolate']),
    pagesize=st.sampled_from([None, 4, -2, -3]),
    emulator=st.sampled_from([None, 'isolate']),
)
devices = st.none() | st.builds(
    factories.devices,
    st.integers(1, 2),
    alias=st.sampled_from(['nic', None]),
    request_id=st.just(ALIAS),
    numa_policy=st.sampled_from(['required', 'legacy', 'preferred', 'socket']),
)
metrics = st.none() | st.dictionaries(
    st.sampled_from(['cpu.frequency', 'cpu.percent']), st.integers(0, 3), max_size=2
).map(lambda d: json.dumps([{'name': name, 'value': v} for name, v in d.items()]))
texts = st.fixed_dictionaries(
    {},
    optional={
        'os_distro': st.sampled_from(['linux', 'windows']),
        'hw_machine_type': st.sampled_from(['pc', 'q35']),
        'hw_boot_menu': st.sampled_from(['yes', 'no']),
    },
)

host = st.fixed_dictionaries(
    {
        'host': st.sampled_from(['h1', 'h2', 'H2', 'h3']),
        'host_ip': st.sampled_from(['192.168.1.12', '10.0.0.5', 'fd00::5']).map(
            ipaddress.ip_address
        ),
        'cell_uuid': st.sampled_from(CELLS),
        'total_usable_ram_mb': amounts,
        'total_usable_disk_gb': counters,
        'free_ram_mb': amounts,
        'free_disk_mb': amounts,
        'vcpus_total': counters,
        'vcpus_used': counters,
        'num_instances': counters,
        'num_io_ops': counters,
        'failed_builds': counters,
        'recent_failed_builds': counters,
        'is_source': st.booleans(),
        'cpu_allocation_ratio': known_ratios,
        'ram_allocation_ratio': ratios,
        'disk_allocation_ratio': ratios,
        'hypervisor_version': st.sampled_from([NAN, 0, 6002000, 8000000]),
        'hypervisor_type': st.sampled_from(['QEMU', 'ironic', None]),
        'cpu_info': st.sampled_from(
            [None, 'no JSON', '[]', '{"model": "p4", "maxphysaddr": {"bits": 42}}']
        ),
        'supported_instances': st.sampled_from(
            [
                None,
                [],
                [['x86_64', 'kvm', 'hvm']],
                [['x86_64', 'xen', 'xen'], ['i686', 'kvm', 'hvm']],
            ]
        ),
        'pci_stats': pools,
        'numa_topology': topologies,
        'metrics': metrics,
        'stats': st.sampled_from(
            [
                {},
                {'gpu': '1'},
                {'gpu': '{"n": 2}', 'no': None},
                {'vgpu_types': '["v1"]'},
            ]
        ),
        'service_disabled': st.booleans(),
        'service_up': st.booleans(),
        'aggregates': aggregates,
        'instances': some_of([*MEMBERS, 'other'], 4).map(
            lambda uuids: {uuid: INSTANCES.get(uuid) for uuid in uuids}
        ),
        'instance_images': st.dictionaries(st.sampled_from(MEMBERS), texts),
        'allocation_candidates': candidates,
    }
)


def table(many):
    columns = {name: [one[name] for one in many] for name in many[0]}
    columns['nodename'] = [f'n{number}' for number in range(len(many))]
    return factories.hosts(**columns)


host_tables = st.lists(host, max_size=7).map(
    lambda many: table(many) if many else factories.hosts(0)
)

extra_specs = st.fixed_dictionaries(
    {},
    optional={
        'ssd': st.sampled_from(['true', '<or> true <or> false', 's!= true']),
        'aggregate_instance_extra_specs:size': st.sampled_from(['5', '>= 3', '== 1']),
        'capabilities:hypervisor_type': st.sampled_from(['QEMU', '<in> iron']),
        'capabilities:cpu_info:model': st.just('p4'),
        'capabilities:gpu': st.just('1'),
        'capabilities:gpu:n': st.just('2'),
        'hypervisor_version': st.just('>= 7000000'),
        'gpu': st.just('1'),
        'hw:cpu_policy': st.just('dedicated'),
        'hw:cpu_thread_policy': st.sampled_from(['require', 'isolate']),
        'hw:maxphysaddr_bits': st.sampled_from(['42', '43']),
        'vgpu:type': st.sampled_from(['v1', 'v9', '']),
        'resources:VGPU': st.just('1'),
        'local_disk:size_gb': st.sampled_from(['0', '9', 'x']),
        'local_disk:type': st.just('ssd'),
        'dedicated_cloud:id': st.just('a'),
        'trust:trusted_host': st.sampled_from(['unknown', 'trusted']),
    },
)
images = st.none() | st.fixed_dictionaries(
    {},
    optional={
        'hw_architecture': st.sampled_from(['x86_64', 'i686', 'aarch64']),
        'img_hv_type': st.sampled_from(['kvm', 'xen']),
        'hw_vm_mode': st.sampled_from(['hvm', 'xen']),
        'img_hv_requested_version': st.sampled_from(['>=6.2', '<7']),
        'hw_maxphysaddr_bits': st.sampled_from([42, 43]),
        'hw_boot_menu': st.sampled_from(['true', 'false']),
        'hw_machine_type': st.just('q35'),
        'os_distro': st.just('windows'),
    },
)
groups = st.none() | st.builds(
    factories.group,
    policy=st.sampled_from(
        ['affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity']
    ),
    members=some_of(MEMBERS, 3),
    hosts=some_of(['h1', 'h2']),
    max_server_per_host=st.integers(1, 3),
)
queries = st.sampled_from(
    [
        '',
        '["and", [">=", "$free_ram_mb", 0], ["<", "$num_io_ops", "$vcpus_total", 50]]',
        '["not", ["in", "$host", "h1", "h2"], ["=", "$service_up", true]]',
        '["or", ["=", "$stats.gpu", "1"], ["=", "$cpu_allocation_ratio", 4, 4.0]]',
        '["and", ["not", "$hypervisor_type"], ["=", "$stats.gpu", "$stats.no", "1"]]',
    ]
)
hints = st.fixed_dictionaries(
    {},
    optional={
        'different_host': some_of([*MEMBERS, '']),
        'same_host': some_of([*MEMBERS, '']),
        'build_near_host_ip': st.sampled_from([['192.168.1.1'], ['fd00::1']]),
        'cidr': st.sampled_from([['/16'], ['/1'], ['']]),
        'query': queries.map(lambda text: [text]),
        'dedicated_cloud_id': st.just(['b']),
    },
)
retries = st.none() | st.builds(
    SchedulerRetries,
    num_attempts=st.just(1),
    hosts=some_of(['n0', 'n1', 'n2']).map(
        lambda nodes: ComputeNodeList(
            objects=[ComputeNode(host='h1', hypervisor_hostname=n) for n in nodes]
        )
    ),
)
moves = st.none() | st.builds(
    Destination,
    cell=st.none() | st.builds(CellMapping, uuid=st.sampled_from(CELLS)),
    allow_cross_cell_move=st.booleans(),
)


def _request(image_id, **values):
    made = factories.request(**values)
    if made.image is not None and image_id is not None:
        made.image.id = image_id
        made.image.obj_reset_changes()
    return made


requests = st.builds(
    _request,
    image_id=st.sampled_from([None, 'image', 'another']),
    vcpus=st.integers(1, 8),
    memory_mb=st.sampled_from([512, 4096]),
    extra_specs=extra_specs,
    image=images,
    availability_zone=st.sampled_from([None, '', 'az1', 'nova']),
    instance_uuid=st.sampled_from(['m1', 'new']),
    instance_group=groups,
    requested_destination=moves,
    scheduler_hints=st.just({}) | hints,
    retry=retries,
    numa_topology=guests,
    pci_requests=devices,
)
naming_requests = st.builds(
    factories.request,
    ignore_hosts=st.none() | some_of(['h1', 'H2', 'zz']),
    force_hosts=st.none() | some_of(['h1', 'h2', 'zz']),
    force_nodes=st.none() | some_of(['n0', 'n1', 'n2']),
    requested_destination=st.none() | st.just(factories.destination('h1')),
    scheduler_hints=st.sampled_from([{}, {'_nova_check_type': ['rebuild']}]),
)
