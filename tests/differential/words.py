# SPDX-License-Identifier: Apache-2.0
"""The words that clouds are made of, the usual ones and the odd.

Where a value is a pair of lists, one list is chosen first: odd values are then as
rare as the list is.
"""

USUAL = 6

MULTIPLIERS = (
    'ram_weight_multiplier',
    'cpu_weight_multiplier',
    'disk_weight_multiplier',
    'io_ops_weight_multiplier',
    'num_instances_weight_multiplier',
    'hypervisor_version_weight_multiplier',
    'build_failure_weight_multiplier',
    'cross_cell_move_weight_multiplier',
    'image_props_weight_multiplier',
)
NEVER_NEGATIVE = (
    'pci_weight_multiplier',
    'soft_affinity_weight_multiplier',
    'soft_anti_affinity_weight_multiplier',
)
NO_NUMBERS = ['', 'abc', '1,2', '0x10', 'ü', '1.0.0', 'None', '9' * 400]
ODD_NUMBERS = [' 3 ', '1e3', '1_000', '٣', '-0', '+2', '00']


def _mostly(*usual, odd=()):
    """Return lists to choose one of: the usual values, rarely the odd ones."""
    return [list(usual)] * USUAL + [list(odd or usual)]


METADATA = {
    'availability_zone': _mostly('az1', 'az2', 'az1, az2', odd=['', 'ü', ',']),
    'ssd': _mostly('true', 'false', 'true,false', odd=['', ' true ', 'True', ',,']),
    'size': _mostly('1', '5', '1,5', '10', odd=['five', '', '5.0', '٥']),
    'a:b': _mostly('x', 'y', 'x,y'),
    'filter_tenant_id': _mostly('p1', 'p1,p2', 'p2, p3', odd=['', ' ', 'P1', ',p1']),
    'filter_tenant_id3': _mostly('p1', 'p2'),
    'filter_tenant_idX': _mostly('p1', 'p3'),
    'instance_type': _mostly(
        'small', 'large', 'small, large', odd=['', 'Small', ',small', 'm1.ü']
    ),
    'max_io_ops_per_host': _mostly(
        '1', '4', '8', '10', ' 10 ', odd=['many', '8.5', '', '-1', '٣', '1_0', '5,6']
    ),
    'max_instances_per_host': _mostly(
        '1', '10', '40', '50', ' 60 ', odd=['many', '8.5', '', '-1', '٣', '1_0', '5,6']
    ),
    'os_distro': _mostly('windows', 'windows, linux', 'linux', odd=['', 'Windows']),
    'hw_architecture': _mostly('x86_64', 'i686', odd=['amd64', '']),
    'hw_qemu_guest_agent': _mostly('True', 'true', 'yes'),
    'hw_cpu_cores': _mostly('4', '4,8'),
    'hw_video_ram': _mostly('0', '4'),
    'hw_numa_mem': _mostly('1', '[1]', '[512]'),
    'architecture': _mostly('x86_64'),
    'hw.os_distro': _mostly('windows'),
    'mykey': _mostly('x'),
    'trait:HW_CPU_X86_AVX': _mostly('required'),
    **{
        key: _mostly('0', '0.5', '2', '2.0', '100', odd=NO_NUMBERS + ODD_NUMBERS)
        for key in (*MULTIPLIERS, *NEVER_NEGATIVE, 'metrics_weight_multiplier')
    },
}
METADATA['ram_weight_multiplier'] = _mostly('-1', '1', '5', odd=['inf', '-inf'])

CPU_INFO = [
    '{"model": "core2duo", "features": ["lahf_lm", "rdtscp", "vmx"], '
    '"topology": {"cores": 1}, "maxphysaddr": {"bits": 42}}',
    '{"model": "p4", "features": [], "topology": {"cores": 8}, "arch": "x86_64"}',
    '{"model": null, "maxphysaddr": {"bits": 0}}',
    '{"model": "p4", "maxphysaddr": {"mode": "emulate"}}',
    '{}',
    'not JSON',
    '',
    None,
]
SUPPORTED_INSTANCES = [
    [['x86_64', 'kvm', 'hvm'], ['i686', 'kvm', 'hvm']],
    [['x86_64', 'kvm', 'hvm'], ['i686', 'kvm', 'hvm']],
    [['x86_64', 'kvm', 'hvm'], ['x86_64', 'xen', 'xen']],
    [['x86_64', 'kvm', 'xen']],
    [['i686', 'xen', 'xen'], ['aarch64', 'kvm', 'hvm']],
    [],
]
STATS = {
    'gpu': ['0', '1', '2', '16'],
    'nested': ['{"a": {"b": "c"}}', '{"a": {"b": "d"}, "n": 3}', '{"a": 1}', 'none'],
    'flag': ['True', 'true', ''],
    'list': ['["a", "b"]', '[]'],
    'no': [None],
    'vcpus_total': ['4'],
    'ü': ['é'],
}
HOST_IPS = ['192.168.1.12', '192.168.2.12', '10.0.0.5', 'fd00::5', '192.168.1.12', None]
METRICS = [
    'cpu.frequency',
    'cpu.user.time',
    'cpu.kernel.percent',
    'cpu.percent',
    'cpu.idle.percent',
    'numa.membw.max',
]
INSTANCE_IMAGES = {
    'os_distro': ['windows', 'linux'],
    'hw_machine_type': ['q35', 'pc'],
    'hw_architecture': ['x86_64', 'amd64'],
    'hw_qemu_guest_agent': ['yes', 'True'],
    'hw_cpu_cores': ['4', '8'],
    'unknown_property': ['x'],
    'os_type': ['linux', 'windows'],
}

_RATIOS = [
    ['cpu.frequency=1.0'],
    ['cpu.frequency=1.0', 'cpu.percent=-2'],
    ['cpu.percent=0'],
    ['bad', 'cpu.percent=x', 'cpu.percent=3'],
    ['cpu.percent=0.1', 'cpu.percent=0.2'],
    ['cpu.user.time = 2'],
    ['cpu.user.time= 2 '],
    ['cpu.kernel.percent=1e3', 'cpu.frequency=-0.5'],
    ['numa.membw.max=1'],
    ['=1', 'x='],
]
OPTIONS = {
    'filter_scheduler': {
        'max_io_ops_per_host': [0, 1, 4, 10],
        'max_instances_per_host': [1, 10, 30],
        'restrict_isolated_hosts_to_isolated_images': [False],
        'image_properties_default_architecture': ['x86_64', 'i686', 'aarch64'],
        'aggregate_image_properties_isolation_namespace': ['hw', 'os', ''],
        'aggregate_image_properties_isolation_separator': ['_', '.', ''],
        'image_props_weight_setting': [
            ['os_distro=2', 'hw_machine_type=-1'],
            ['os_distro=0'],
            ['bad', 'os_distro=x'],
            ['os_distro=1', 'os_distro=3'],
            ['hw_qemu_guest_agent=0.5'],
        ],
        **{name: [-1.0, 0.0, 0.3, 2.0, 1e6] for name in MULTIPLIERS},
        **{name: [0.0, 0.3, 2.0] for name in NEVER_NEGATIVE},
    },
    'metrics': {
        'weight_multiplier': [-1.0, 0.0, 0.3, 2.0],
        'weight_setting': _RATIOS,
        'required': [False],
        'weight_of_unavailable': [600.0, 0.0],
    },
}
# Without these, some filters and weighers would have nothing to say.
OFTEN_SET = {
    'weight_setting': 0.6,
    'required': 0.7,
    'image_props_weight_multiplier': 0.35,
    'num_instances_weight_multiplier': 0.4,
}

EXTRA_SPECS = {
    'ssd': ['true', 'false'],
    'aggregate_instance_extra_specs:ssd': ['true', 'True'],
    'aggregate_instance_extra_specs:size': ['1', '5', '10'],
    'size': ['1', '5'],
    'aggregate_instance_extra_specs:a:b': ['x', 'y', 'x,y'],
    'aggregate_instance_extra_specs:': [''],
    'capabilities:hypervisor_type': ['QEMU', 'qemu', 'ironic'],
    'capabilities:hypervisor_version': ['6002000', '8002002', '0'],
    'capabilities:vcpus_total': ['8', '4', '8.0'],
    'vcpus_total': ['4', '8'],
    'capabilities:num_instances': ['0', '3', '40'],
    'num_instances': ['0', '10'],
    'capabilities:num_io_ops': ['0', '4'],
    'capabilities:free_ram_mb': ['0', '512', '3072'],
    'capabilities:cpu_allocation_ratio': ['1.0', '4', '16.0'],
    'capabilities:cpu_info:model': ['core2duo', 'p4', 'None'],
    'capabilities:cpu_info:topology:cores': ['1', '2', '8'],
    'capabilities:cpu_info:features': ['vmx', 'tsc', '[]'],
    'capabilities:cpu_info:nokey': ['1'],
    'capabilities:gpu': ['0', '1', '2'],
    'capabilities:stats:gpu': ['1', '2'],
    'gpu': ['1', '2'],
    'capabilities:nested:a:b': ['c', 'd'],
    'capabilities:nested:a': ['1', "{'b': 'c'}"],
    'capabilities:stats:nested:a:b': ['c'],
    'capabilities:nested:n': ['3', '4'],
    'capabilities:flag': ['True', 'true', ''],
    'capabilities:list': ['["a", "b"]', 'a'],
    'capabilities:list:a': ['a'],
    'capabilities:no': ['None', ''],
    'capabilities:ü': ['é'],
    'capabilities:nope': ['1'],
    'capabilities:': ['1'],
    'capabilities::': ['1'],
    'capabilities': ['x'],
    'capabilities:vcpus_total:foo': ['1'],
    'capabilities:host': ['h1', 'h2'],
    'capabilities:supported_instances': ['kvm', 'xen'],
    'capabilities:limits': ['{}', 'x'],
    'capabilities:service:disabled': ['False', 'True'],
    'capabilities:service:host': ['h1'],
    'capabilities:host_ip': ['192.168.1.12', 'None'],
    'hw:maxphysaddr_bits': ['42', '43'],
    'hw:cpu_policy': ['dedicated'],
    'other:thing': ['x'],
    'unknown': ['y'],
    'resources:VGPU': ['1'],
}
TEXT_OPERATORS = [
    's== {}',
    's!= {}',
    's< {}',
    's<= {}',
    's> {}',
    's>= {}',
    '<in> {}',
    '<in> {} {}',
    '<all-in> {}',
    '<all-in> {} {}',
    '<or> {}',
    '<or> {} <or> {}',
    '<or> {} {}',
    '  s==   {}  ',
    's=={}',
    '{} ',
]
NUMBER_OPERATORS = [
    '= {}',
    '== {}',
    '!= {}',
    '>= {}',
    '<= {}',
    '> {}',
    '={}',
    '== {}.0',
]
ODD_OPERATORS = ['<or>', '=', 's==', '<all-in>', '<in>', '', ' ', '>= {}x', '== nan']

IMAGE = {
    'hw_architecture': _mostly('x86_64', 'i686', 'aarch64', odd=['amd64', 'i386']),
    'architecture': _mostly('x86_64', 'i386'),
    'img_hv_type': _mostly('kvm', 'xen', odd=['xapi', 'KVM']),
    'hypervisor_type': _mostly('kvm', 'qemu'),
    'hw_vm_mode': _mostly('hvm', 'xen', odd=['hv', 'pv', 'HVM']),
    'vm_mode': _mostly('hvm'),
    'img_hv_requested_version': _mostly(
        '>=6.0', '<7', '>=6.0,<6.2', '==6.2', '!=6.2.0', '>=0'
    ),
    'hw_maxphysaddr_bits': _mostly(42, 43, odd=['42', 0, 1]),
    'os_distro': _mostly('windows', 'linux', odd=['', 'ü']),
    'hw_qemu_guest_agent': _mostly('yes', 'no', True),
    'hw_cpu_cores': _mostly(4, '8', 0),
    'hw_video_ram': _mostly(0, 4),
    'hw_numa_mem.0': _mostly('1', '512'),
    'hw_machine_type': _mostly('q35', 'pc'),
    'os_type': _mostly('linux', 'windows'),
    'mykey': _mostly('x'),
    'traits_required': _mostly(['CUSTOM_A'], []),
}
REFUSED_IMAGE = (
    'hw_architecture',
    'img_hv_type',
    'hw_vm_mode',
    'hw_cpu_cores',
    'img_hv_requested_version',
)
REFUSED_WORD = 'nonsense'
POLICIES = ['affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity']
