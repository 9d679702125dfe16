# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests of every kind that the rules tell apart."""

from __future__ import annotations

from hypothesis import strategies as st

from tests import factories

NAN = float('nan')
MEMBERS = ['m1', 'm2', 'm3']
WEIGHTS = st.sampled_from(['-1', '0', '0.1', '2', ' 3 ', '1e3', 'many', ''])
MULTIPLIERS = (
    'cpu_weight_multiplier',
    'disk_weight_multiplier',
    'io_ops_weight_multiplier',
    'num_instances_weight_multiplier',
    'ram_weight_multiplier',
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
candidates = st.lists(
    st.integers(0, 9).map(lambda n: {'allocations': {f'p{n}': {}}, 'mappings': {}}),
    max_size=3,
)

host = st.fixed_dictionaries(
    {
        'host': st.sampled_from(['h1', 'h2', 'H2', 'h3']),
        'cell_uuid': st.sampled_from(['cell1', 'cell2']),
        'free_ram_mb': amounts,
        'free_disk_mb': amounts,
        'vcpus_total': counters,
        'vcpus_used': counters,
        'num_instances': counters,
        'num_io_ops': counters,
        'failed_builds': counters,
        'cpu_allocation_ratio': ratios,
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
        'stats': st.sampled_from([{}, {'gpu': '1'}, {'gpu': '{"n": 2}', 'no': None}]),
        'service_disabled': st.booleans(),
        'service_up': st.booleans(),
        'aggregates': aggregates,
        'instances': some_of([*MEMBERS, 'other'], 4).map(dict.fromkeys),
        'allocation_candidates': candidates,
    }
)


def _table(many):
    columns = {name: [one[name] for one in many] for name in many[0]}
    columns['nodename'] = [f'n{number}' for number in range(len(many))]
    return factories.hosts(**columns)


host_tables = st.lists(host, max_size=7).map(
    lambda many: _table(many) if many else factories.hosts(0)
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
        'hw:maxphysaddr_bits': st.sampled_from(['42', '43']),
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
requests = st.builds(
    factories.request,
    vcpus=st.integers(1, 8),
    memory_mb=st.sampled_from([512, 4096]),
    extra_specs=extra_specs,
    image=images,
    availability_zone=st.sampled_from([None, '', 'az1', 'nova']),
    instance_uuid=st.sampled_from(['m1', 'new']),
    instance_group=groups,
)
naming_requests = st.builds(
    factories.request,
    ignore_hosts=st.none() | some_of(['h1', 'H2', 'zz']),
    force_hosts=st.none() | some_of(['h1', 'h2', 'zz']),
    force_nodes=st.none() | some_of(['n0', 'n1', 'n2']),
    requested_destination=st.none() | st.just(factories.destination('h1')),
    scheduler_hints=st.sampled_from([{}, {'_nova_check_type': ['rebuild']}]),
)
