# SPDX-License-Identifier: Apache-2.0
"""Requests made by chance, with all that flavors and images may ask of placement.

Most of it makes sense; some of it, on purpose, does not.
"""

import random

import pytest

from tests.support.databases.query_table import NODES, given, group

TALLY = pytest.StashKey()

UUIDS = [f'{n:08d}-0000-4000-8000-000000000000' for n in range(12)]
CLASSES = ['VGPU', 'SRIOV_NET_VF', 'CUSTOM_GOLD', 'PCPU', 'VCPU', 'DISK_GB', 'FPGA']
ODD_CLASSES = ['GOLD', 'vcpu', '', 'CUSTOM_', 'CUSTOM_a b', 'VCPU:X', 'custom_x']
AMOUNTS = ['1', '2', '16', '0', '0', ' 3 ', '+4', '1_0', '007']
ODD_AMOUNTS = ['-1', '1.5', '', 'many', '1e3', '0x10', 'None']
TRAITS = ['CUSTOM_A', 'CUSTOM_B', 'HW_CPU_X86_AVX2', 'HW_CPU_HYPERTHREADING']
ODD_TRAITS = ['lower', 'X:Y', 'A B']
SUFFIXES = ['', '', '', '1', '2', '_NET1', 'x-1', '_', 'a' * 64]
ODD_SUFFIXES = ['a' * 65, ' 1', '.5', 'ä']
BOOLEANS = ['true', 'True', 'yes', '1', 'on', 'false', 'no', '', 'bogus']
MASKS = ['0', '0-1', '^0', '^0-1', '1,3', '0-3,^1', '^0,2', ' 0 - 1 ', '1,,2', '00']
ODD_MASKS = [
    *('x', '', ',', ' ', '^', '-', '-1', '0-', '3-1', '0-1-2', '1.5', '^x', '^^0'),
    *('9', '0-9', '^9', '0,9', '^0-7', '0-7', '0-3,^9', '^-1', '0--1', '7-10', '1_0'),
]
MODELS = ['amd-sev', 'amd-sev-es', 'amd-sev-snp', 'intel-tdx']
LABELS = ['6GB', '16GB', 'a-b', ' x ', '', 'a.b', 'ä', 'x y', '6gb', ' ']

FEATURES = {
    # By extra spec: what makes sense, what does not, and whether images have it.
    'hw:cpu_policy': (['dedicated', 'mixed', 'shared'], ['bogus', ''], True),
    'hw:cpu_thread_policy': (['prefer', 'isolate', 'require'], ['bogus', ''], True),
    'hw:emulator_threads_policy': (['share', 'isolate'], ['bogus', ''], False),
    'hw:cpu_dedicated_mask': (MASKS, ODD_MASKS, False),
    'hw:cpu_realtime': (BOOLEANS, BOOLEANS, False),
    'hw:cpu_realtime_mask': (MASKS, ODD_MASKS, True),
    'hw:mem_encryption': (['true', 'yes'], BOOLEANS, True),
    'hw:mem_encryption_model': (MODELS, ['bogus', '', 'AMD-SEV'], True),
    'hw:tpm_version': (['1.2', '2.0'], ['2', '', 'bogus'], True),
    'hw:tpm_model': (['tpm-tis', 'tpm-crb'], ['crb', '', 'bogus'], True),
    'hw:pci_numa_affinity_policy': (
        ['socket', 'required', 'legacy', 'preferred'],
        ['bogus', '', 'Socket'],
        True,
    ),
    'os:secure_boot': (['required', 'optional', 'disabled'], ['bogus', ''], True),
    'hw:maxphysaddr_mode': (['passthrough', 'emulate'], ['bogus', ''], True),
    'hw:maxphysaddr_bits': (['42'], ['x'], False),
    'hw:firmware_stateless': (['true'], ['x'], False),
}
BOOLEAN_PROPERTIES = {'hw_mem_encryption': ['true', 'false']}
RELATED = {
    # What goes with what, so that it is not always missing.
    'hw:cpu_policy': [
        'hw:cpu_thread_policy',
        'hw:emulator_threads_policy',
        'hw:cpu_dedicated_mask',
        'hw:cpu_realtime',
        'hw:cpu_realtime_mask',
    ],
    'hw:mem_encryption': ['hw:mem_encryption_model'],
    'hw:tpm_version': ['hw:tpm_model'],
}


def request(seed):
    """Return the request of a seed, as data."""
    rng = random.Random(f'query {seed}')
    extra_specs, image = _features(rng)
    extra_specs.update(_amounts(rng))
    if rng.random() < 0.15:
        labels = rng.choices(LABELS, k=rng.randint(1, 4))
        extra_specs['hw:pmem'] = ','.join(labels)
    for trait in TRAITS:
        if rng.random() < 0.06:
            image[f'trait:{trait}'] = rng.choice(['required', 'required', 'forbidden'])
    size = f'{rng.choice((1, 2, 4, 4, 8))}/{rng.choice((0, 512, 4096))}/'
    return given(
        size + str(rng.choice((0, 1, 20))),
        ephemeral=rng.choice((0, 0, 0, 5)),
        swap=rng.choice((0, 0, 1, 1023, 1024, 1025, 1500)),
        extra_specs=extra_specs,
        image=image or rng.choice((None, {})),
        is_bfv=rng.choice((None, False, True)),
        groups=_groups(rng),
        destination=_destination(rng),
        force_hosts=_names(rng, ['h0', 'two', 'gone'], 0.1),
        force_nodes=_names(rng, ['n0', 'n1', 'gone'], 0.06),
        hints=_hints(rng),
        level=_level(rng),
        nodes=NODES,
        limit=rng.choice((1000, 1000, 1, 50)),
    )


def _features(rng):
    extra_specs, image = {}, {}
    for name in FEATURES:
        _feature(rng, name, 0.1, extra_specs, image)
        if name in extra_specs or name.replace(':', '_') in image:
            for other in RELATED.get(name, ()):
                _feature(rng, other, 0.5, extra_specs, image)
    encrypts = 'hw:mem_encryption' in extra_specs or 'hw_mem_encryption' in image
    for name, values in (
        ('hw_firmware_type', ['uefi'] if encrypts else ['uefi', 'bios']),
        ('hw_firmware_stateless', ['true', 'true', 'false']),
        ('hw_video_model', ['none', 'none', 'none', 'vga']),
        ('hw_machine_type', ['q35', 'q35', 'q35', 'pc-q35-8.2', 'pc', '', 'Q35']),
    ):
        if rng.random() < (0.8 if encrypts else 0.1):
            image[name] = rng.choice(values)
    return extra_specs, image


def _feature(rng, name, chance, extra_specs, image):
    values, odd, has_property = FEATURES[name]
    wanted = rng.choice(values)
    prop = name.replace(':', '_')
    if rng.random() < chance:
        extra_specs[name] = rng.choice(odd) if rng.random() < 0.12 else wanted
    if has_property and rng.random() < chance * 0.7:
        # Images cannot say what does not exist; most say what the flavor says.
        agreeing = wanted if rng.random() < 0.6 else rng.choice(values)
        image[prop] = (
            rng.choice(BOOLEAN_PROPERTIES[prop])
            if prop in BOOLEAN_PROPERTIES and rng.random() < 0.3
            else agreeing
        )


def _amounts(rng):
    found = {}
    for _ in range(rng.choice((0, 0, 0, 1, 2, 3, 4))):
        suffix = rng.choice(ODD_SUFFIXES if rng.random() < 0.05 else SUFFIXES)
        odd = rng.random() < 0.1
        if rng.random() < 0.6:
            name = rng.choice(ODD_CLASSES if rng.random() < 0.1 else CLASSES)
            value = rng.choice(ODD_AMOUNTS if odd else AMOUNTS)
            found[f'resources{suffix}:{name}'] = value
        else:
            name = rng.choice(ODD_TRAITS if rng.random() < 0.1 else TRAITS)
            value = rng.choice(['Required', '', 'x'] if odd else ['required'] * 3)
            value = 'forbidden' if rng.random() < 0.3 else value
            found[f'trait{suffix}:{name}'] = value
    if rng.random() < 0.15:
        for name in rng.sample(['VCPU', 'MEMORY_MB', 'DISK_GB'], rng.randint(1, 3)):
            found[f'resources:{name}'] = '0'
    if rng.random() < 0.25:
        found['group_policy'] = rng.choice(['none', 'isolate', 'isolate', 'all', ''])
    return found


def _groups(rng):
    if rng.random() < 0.05:
        return None
    made = []
    for uuid in rng.sample(UUIDS[:6], rng.choice((0, 0, 0, 1, 2, 3))):
        resources = {
            name: rng.choice((1, 2, 1000, 0 if rng.random() < 0.2 else 4))
            for name in rng.sample(CLASSES[:3], rng.choice((1, 1, 2)))
        }
        one = group(uuid, resources, *rng.sample(TRAITS, rng.choice((0, 0, 1, 2))))
        if rng.random() < 0.15:
            one['forbidden_traits'] = rng.sample(TRAITS, 1)
        if rng.random() < 0.1:
            one['aggregates'] = [rng.sample(UUIDS, 2), rng.sample(UUIDS, 1)]
        if rng.random() < 0.1:
            one['forbidden_aggregates'] = rng.sample(UUIDS, 2)
        if rng.random() < 0.1:
            one['in_tree'] = rng.choice(UUIDS)
        made.append(one)
    if made and rng.random() < 0.04:
        made[0].update(rng.choice(ODD_GROUPS))
    if made and rng.random() < 0.02:
        made.append(dict(made[0]))
    return made


ODD_GROUPS = [
    {'requester_id': None},
    {'requester_id': ''},
    {'requester_id': '1'},
    {'resources': {}, 'required_traits': []},
    {'resources': {}},
    {'use_same_provider': False},
]


def _destination(rng):
    if rng.random() < 0.6:
        return None
    made = {}
    if rng.random() < 0.3:
        made['host'] = rng.choice(('h0', 'two', 'two', 'gone'))
        made['node'] = rng.choice((None, None, 'n1'))
    if rng.random() < 0.2:
        made['cell'] = rng.choice(UUIDS)
    if rng.random() < 0.5:
        made['aggregates'] = [
            ','.join(rng.sample(UUIDS, rng.randint(1, 3)))
            for _ in range(rng.randint(0, 3))
        ]
    if rng.random() < 0.3:
        made['forbidden_aggregates'] = rng.sample(UUIDS, rng.randint(0, 3))
    return made


def _names(rng, names, chance):
    if rng.random() >= chance:
        return rng.choice((None, []))
    return rng.sample(names, rng.choice((1, 1, 2)))


def _hints(rng):
    if rng.random() < 0.8:
        return {}
    name = rng.choice(('group', 'same_host', 'different_host', 'query', 'cidr'))
    return {name: rng.sample(UUIDS, rng.randint(0, 2))}


def _level(rng):
    made = {}
    if rng.random() < 0.3:
        made['root_required'] = rng.sample(TRAITS, rng.randint(0, 3))
    if rng.random() < 0.3:
        made['root_forbidden'] = rng.sample(TRAITS, rng.randint(0, 2))
    if rng.random() < 0.1:
        made['same_subtree'] = [
            rng.sample(UUIDS, rng.randint(1, 3)) for _ in range(rng.randint(0, 2))
        ]
    return made
