# SPDX-License-Identifier: Apache-2.0
"""Decision records, made by hand: a server that got a host, and one that got none."""

import dataclasses

from novasched.decisions.body import body_of
from novasched.decisions.record import DecisionRecord, Head
from novasched.runtime.typed_json import to_json

AT = 1_795_348_803_000_000
"""2026-11-22T12:00:03Z"""
SERVER = '5b1c8e42-0c9e-4f0e-9d0a-77f1f2c5a001'
PROJECT = '3f0a77aa-2222-4333-8444-555566667777'
REQUEST = 'req-7f3a0c11-5c2d-4f7e-8a9b-0123456789ab'
FLAVOR = {
    'name': 'm1.large',
    'vcpus': 4,
    'memory_mb': 8192,
    'root_gb': 80,
    'ephemeral_gb': 0,
    'swap': 0,
    'extra_specs': {},
}


def request(**changes):
    """The request part of a body."""
    return {
        'flavor': FLAVOR,
        'image': {'id': 'rhel9', 'properties': {}},
        'zone': 'az1',
        'group': None,
        'forced': [],
        'ignored': [],
        'named': None,
        'hints': {},
        'pci_requests': 0,
        'ports': 0,
        'requested_resources': 0,
        'numa_nodes': 0,
        'is_move': False,
        'is_rebuild': False,
        **changes,
    }


def asked(**changes):
    """One query to placement, and its answer."""
    return {
        'query': 'resources=VCPU:4,MEMORY_MB:8192,DISK_GB:80&limit=1000',
        'status': 200,
        'candidates': 187,
        'pcpu_fallback': False,
        'limit': 1000,
        'cut': False,
        'fallback': '',
        'further': False,
        'copied': False,
        **changes,
    }


def step(name, start, end, *reasons):
    return {
        'name': name,
        'in': start,
        'out': end,
        'reasons': [list(r) for r in reasons],
    }


def weigher(name, normalised, multiplier=1.0, raw=None):
    return {
        'name': name,
        'raw': raw or [value * 1000 for value in normalised],
        'normalised': normalised,
        'multipliers': [multiplier] * len(normalised),
    }


def host_names(number):
    return [f'cmp-{n:03}' for n in range(1, number + 1)]


def outcomes(hosts, candidates, steps, left):
    """One byte per host: those that are no candidates come last."""
    found = b'\1' * left
    for number, each in enumerate(steps):
        found += bytes([min(2 + number, 254)]) * (each['in'] - each['out'])
    found += b'\xff' * (candidates - len(found))
    return found + b'\0' * (hosts - candidates)


def decision(hosts, candidates, steps, **changes):
    """A whole decision; ``left`` are those of the last step."""
    left = steps[-1]['out'] if steps else candidates
    return {
        'index': 0,
        'attempt': 1,
        'seed': 17955481234567890123,
        'cut': False,
        'further': False,
        'host_list': 'abc',
        'hosts': hosts,
        'candidates': candidates,
        'left': left,
        'steps': steps,
        'outcomes': outcomes(hosts, candidates, steps, left),
        'top': [],
        'totals': [],
        'weighers': [],
        'no_effect': [],
        'decisive': {},
        'numa': None,
        'host': None,
        **changes,
    }


def head_of(**changes):
    return Head(
        **{
            'id': 'd-06f3k9w2qz8tm',
            'at': AT,
            'request_id': REQUEST,
            'project_id': PROJECT,
            'user_id': 'u-1',
            'flavor': 'm1.large',
            'zone': 'az1',
            'result': 'scheduled',
            'hosts': 312,
            'candidates': 187,
            'servers': 1,
            'took_us': 24_000,
            'worker': 'controller-1:4711',
            **changes,
        }
    )


def body(**changes):
    return {
        'v': 1,
        'servers': [server(SERVER)],
        'request': request(),
        'asked': [asked()],
        'notes': [],
        'view': {'left_out': [], 'ages_s': {'cell1': 1.0}},
        'profile': 'p1',
        'claims': [],
        'claims_total': 0,
        'rounds': {},
        'stages_ms': {'prefilter': 0.1, 'query': 17.2, 'refresh': 2.0, 'filter': 1.1},
        'error': None,
        'placement': None,
        'decisions': [],
        **changes,
    }


def server(uuid, host=None, alternates=()):
    node, cell = (host, 'cell1') if host else (None, None)
    return {
        'uuid': uuid,
        'host': host,
        'node': node,
        'cell': cell,
        'alternates': list(alternates),
    }


def claim(host, outcome='claimed', text='', ms=3.0):
    return {'host': host, 'servers': 1, 'outcome': outcome, 'text': text, 'ms': ms}


def record(head=None, hosts=312, **changes):
    return DecisionRecord(
        head_of(**(head or {})),
        body_of(to_json(body(**changes))),
        {'abc': host_names(hosts)},
        {'p1': {'enabled_filters': ['ComputeFilter'], 'version': '0.1.0'}},
    )


def changed(made, **changes):
    """A record with other fields in its head."""
    return dataclasses.replace(made, head=dataclasses.replace(made.head, **changes))


GROUP = {'uuid': 'web', 'policies': ['anti-affinity'], 'members': 3}


def scheduled(**changes):
    """A server of a group that got the best of 182 hosts."""
    steps = [
        step('AllHostsFilter', 187, 187),
        step(
            'ComputeFilter',
            187,
            185,
            ('service-down', 'not heard from for 74 s', 2, 'cmp-117'),
        ),
        step(
            'ServerGroupAntiAffinityFilter',
            185,
            182,
            ('group-limit', 'enough members', 3, 'cmp-009'),
        ),
    ]
    made = decision(
        312,
        187,
        steps,
        host='cmp-044',
        top=['cmp-044', 'cmp-051', 'cmp-003'],
        totals=[1.8431, 1.8117, 1.6034],
        weighers=[
            weigher('RAMWeigher', [0.992, 0.9702, 1.0]),
            weigher('CPUWeigher', [0.9511, 0.9415, 0.7034]),
            weigher('IoOpsWeigher', [0.1, 0.1, 0.1], -1.0),
        ],
        no_effect=['DiskWeigher', 'PCIWeigher', 'MetricsWeigher', 'CrossCellWeigher'],
        decisive={'CPUWeigher': 'cmp-003'},
    )
    return record(
        **{
            'request': request(group=GROUP),
            'decisions': [made],
            'servers': [server(SERVER, 'cmp-044', ['cmp-051', 'cmp-003'])],
            'claims': [claim('cmp-044')],
            'claims_total': 1,
            'stages_ms': {
                'prefilter': 0.2,
                'query': 17.2,
                'refresh': 2.0,
                'filter': 1.1,
                'score': 0.6,
                'claim': 3.4,
            },
            **changes,
        }
    )


PINNED = {
    **FLAVOR,
    'name': 'm1.pinned.8',
    'vcpus': 8,
    'memory_mb': 16384,
    'extra_specs': {'hw:cpu_policy': 'dedicated', 'hw:mem_page_size': '1048576'},
}


def reason(
    code, hosts, what='', only=0, wanted=None, largest=None, example='', named=''
):
    return {
        'code': code,
        'what': what,
        'named': named,
        'hosts': hosts,
        'only': only,
        'wanted': wanted,
        'largest': largest,
        'example': example,
    }


DIAGNOSIS = {
    'age_s': 12.0,
    'source': 'api',
    'hosts': 312,
    'offered': 31,
    'reasons': [
        reason('disabled', 38, example='cmp-300'),
        reason('exhausted', 240, 'PCPU', 200, 8, 6, 'cmp-118'),
        reason('trait-missing', 3, 'HW_CPU_X86_AVX512F', only=0, example='cmp-200'),
    ],
}


def unschedulable(**changes):
    """A pinned server that NUMATopologyFilter left no host."""
    steps = [
        step('ComputeFilter', 31, 30, ('service-down', 'no sign', 1, 'cmp-117')),
        step(
            'NUMATopologyFilter',
            30,
            0,
            ('not-enough-pages', 'node 0 has 3 free pages, 16 wanted', 3, 'cmp-020'),
            ('not-enough-dedicated-cpus', '6 free of 8 wanted', 27, 'cmp-010'),
        ),
    ]
    changed_head = {
        'id': 'd-06f3kd1r0vb4n',
        'flavor': 'm1.pinned.8',
        'result': 'unschedulable',
        'blocker': 'filters',
        'plugin': 'NUMATopologyFilter',
        'code': 'not-enough-dedicated-cpus',
        'candidates': 31,
        'took_us': 19_000,
        'worker': 'controller-2:99',
        'diagnosis': 'made',
    }
    return record(
        changed_head,
        **{
            'request': request(flavor=PINNED, image=None, numa_nodes=1),
            'asked': [asked(candidates=31)],
            'decisions': [decision(312, 31, steps)],
            'placement': DIAGNOSIS,
            **changes,
        },
    )


def failed(blocker, plugin='', code='', **changes):
    """A request that ended before any decision."""
    result = 'unschedulable'
    if blocker in ('plugin', 'store', 'error', 'caller-gone'):
        result = 'error'
    changed_head = {
        'result': result,
        'blocker': blocker,
        'plugin': plugin,
        'code': code,
        'candidates': -1,
        **changes.pop('head', {}),
    }
    return record(changed_head, **{'asked': [], **changes})
