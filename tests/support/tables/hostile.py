# SPDX-License-Identifier: Apache-2.0
"""Texts by which somebody might want to make a scheduler work or store for ever."""

from hypothesis import HealthCheck
from hypothesis import strategies as st

from tests.support.tables import examples as all_examples


def examples(few):
    """Go through few examples, as each costs a request, or four times as many of all
    tests."""
    # How long it takes to draw one says something of the machine only.
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    return all_examples.examples(4 * few, suppress_health_check=checks)


NUMBERS = [
    *('', ' ', '0', '-1', '1', '2', '3', '7', '16', '1000', '65535', '65536', '65537'),
    *('2147483647', '2147483648', '9' * 11, '9' * 18, '9' * 19, '9' * 30, '9' * 1900),
    *('9' * 4400, '²', '٣', '1_000', '+5', '0x10', '1.5', '1e9', '1e999', 'nan', 'inf'),
    *('-inf', '0-99999999999', '0-65535', '^0', '0-3,^1', '3-1', '-', '0-65535,' * 200),
    *('^0-65535,' * 200, ',' * 1900, 'true', 'x'),
]
JSON = [
    '[' * 1900,
    '[' * 950 + ']' * 950,
    '[' * 400 + ']' * 400,
    '{"a":' * 350 + '1' + '}' * 350,
    '[{"a":' + '[' * 300 + ']' * 300 + '}]',
    '[1e999, NaN, -Infinity]',
    '{"a": ' + '9' * 1900 + '}',
    '["and", ' + '["=", "$free_ram_mb", 1], ' * 60 + '1]',
    '["not"' + ', ["not"' * 200 + ']' * 201,
]
WORDS = ['*', '%', '$', "'", '"', '\\', '\0', '\x1b[2J', '*a' * 300 + 'b']
numbers = st.sampled_from(NUMBERS)
texts = st.one_of(
    numbers, st.sampled_from(JSON), st.sampled_from(WORDS), st.text(max_size=12)
)
POLICIES = st.sampled_from(['dedicated', 'mixed', 'shared', 'isolate', 'require', 'x'])
SPECS = {
    'hw:numa_nodes': numbers,
    'hw:numa_cpus.0': numbers,
    'hw:numa_cpus.1': numbers,
    'hw:numa_mem.0': numbers,
    'hw:mem_page_size': numbers | st.sampled_from(['large', 'any', '9' * 18 + 'GB']),
    'hw:cpu_policy': POLICIES,
    'hw:cpu_thread_policy': POLICIES,
    'hw:emulator_threads_policy': POLICIES,
    'hw:cpu_dedicated_mask': numbers,
    'hw:cpu_realtime': st.sampled_from(['yes', 'x']),
    'hw:cpu_realtime_mask': numbers,
    'hw:maxphysaddr_bits': numbers,
    'hw:mem_encryption': texts,
    'resources:VCPU': numbers,
    'resources:PCPU': numbers,
    'resources:CUSTOM_X': numbers,
    'resources1:VGPU': numbers,
    'resources_A:VCPU': numbers,
    'trait1:HW_CPU_X86_VMX': st.sampled_from(['required', 'forbidden', 'x']),
    'group_policy': st.sampled_from(['isolate', 'none', 'x']),
    'pci_passthrough:alias': st.builds('gpu:{}'.format, numbers) | texts,
    'capabilities:cpu_info:model': texts,
    'capabilities:vcpus_used': st.builds('>= {}'.format, numbers),
    'aggregate_instance_extra_specs:size': texts,
}
PROPERTIES = {
    'hw_numa_nodes': numbers,
    'hw_numa_cpus.0': numbers,
    'hw_numa_cpus.1': numbers,
    'hw_numa_mem.0': numbers,
    'hw_mem_page_size': numbers,
    'hw_cpu_policy': POLICIES,
    'hw_cpu_realtime_mask': numbers,
    'hw_cpu_sockets': numbers,
    'hw_maxphysaddr_bits': numbers,
    'img_mappings': texts,
    'img_block_device_mapping': texts,
    'img_hv_requested_version': texts,
    'hw_architecture': texts,
    'os_distro': texts,
    'traits_required': texts,
}
HINTS = {
    'query': texts,
    'cidr': numbers,
    'build_near_host_ip': texts,
    'different_host': texts,
    'same_host': texts,
    'group': texts,
    'x': texts,
}


specs = st.sets(st.sampled_from(sorted(SPECS)), max_size=4).flatmap(
    lambda names: st.fixed_dictionaries({name: SPECS[name] for name in sorted(names)})
)
properties = st.sets(st.sampled_from(sorted(PROPERTIES)), max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({n: PROPERTIES[n] for n in sorted(names)})
)
hints = st.sets(st.sampled_from(sorted(HINTS)), max_size=2).flatmap(
    lambda names: st.fixed_dictionaries({name: HINTS[name] for name in sorted(names)})
)
OPTIONS = [
    *('scheduler.max_attempts', 'scheduler.max_placement_results'),
    *('filter_scheduler.host_subset_size', 'filter_scheduler.max_io_ops_per_host'),
    *('filter_scheduler.max_instances_per_host', 'metrics.weight_setting'),
    *('filter_scheduler.ram_weight_multiplier', 'metrics.weight_of_unavailable'),
    *('filter_scheduler.enabled_filters', 'filter_scheduler.isolated_hosts'),
    *('filter_scheduler.image_props_weight_setting', 'scheduler.nothing'),
    *('filter_scheduler.aggregate_image_properties_isolation_separator', 'nothing.x'),
    *('filter_scheduler.shuffle_best_same_weighed_hosts', 'database.connection'),
]
PLACES = st.sampled_from(['h1', 'h*', '*', 'h9', 'az1'])
changes = st.one_of(
    st.builds('option {}={}'.format, st.sampled_from(OPTIONS), texts),
    st.builds(
        'ratio {}={} {}'.format,
        st.sampled_from(['VCPU', 'MEMORY_MB', 'X']),
        numbers | st.just('999999'),
        PLACES,
    ),
    st.builds('add {} like {}'.format, numbers, PLACES),
    st.builds('property az1 {}={}'.format, st.sampled_from(
        ['cpu_allocation_ratio', 'max_instances_per_host', 'ram_weight_multiplier',
         'availability_zone', 'size']), texts),
    st.builds('trait {} +{}'.format, PLACES, texts),
    st.builds('{} {}'.format, st.sampled_from(['remove', 'disable', 'enable']), PLACES),
    texts,
)  # fmt: skip


def said(values):
    """Return values as an address of the console has them."""
    return ','.join(f'{name}={value}' for name, value in values.items())


sizes = st.fixed_dictionaries(
    {
        'vcpus': st.sampled_from(['1', '2', '4', '16']) | numbers,
        'ram': st.sampled_from(['1', '64', '512']) | numbers,
        'disk': st.sampled_from(['0', '1']) | numbers,
    }
)
flavors = st.builds(lambda size, extra: said({**size, **extra}), sizes, specs)
small = specs.map(lambda extra: said({'vcpus': 2, 'ram': 512, 'disk': 1, **extra}))
orders = st.fixed_dictionaries(
    {'flavor': flavors | small},
    optional={
        'image': properties.map(said),
        'zone': texts | st.just('az1'),
        'like': texts,
        'count': st.sampled_from(['2', '30', '1000']) | numbers,
        'hints': hints.map(lambda each: '\n'.join(f'{n}={v}' for n, v in each.items())),
        'what_if': st.lists(changes, max_size=3).map('\n'.join),
    },
)
