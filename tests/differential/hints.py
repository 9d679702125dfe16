# SPDX-License-Identifier: Apache-2.0
"""Scheduler hints made by chance: names of instances, addresses, JSON queries."""

import json

ADDRESSES = ['192.168.1.1', '192.168.2.255', '10.0.0.1', 'fd00::1']
ODD_ADDRESSES = ['bad', '', '192.168.1', '192.168.1.999', '192.168.1.1/24']
NETWORKS = ['/24', '/16', '/32', '/0', '/64', '/255.255.0.0']
ODD_NETWORKS = ['24', '', '/', '/33', '/x', '/-1', '/129']
ODD_QUERIES = [
    '',
    '[]',
    '{}',
    'null',
    '5',
    '"text"',
    'not JSON',
    '["bogus", 1]',
    '["and"]',
    '["or"]',
    '["not"]',
    '["and", []]',
    '["and", 0]',
    '[["="], 1]',
    '["=", "$cpu_info.x", 1]',
    '["<", "$free_ram_mb", "2048"]',
    '["in", "$host", ["h1"]]',
    '["=", "$", 1]',
    '["=", "$.x", 1]',
    '["=", "$stats.", 1]',
    '["=", {"a": 1}, {"a": 1}]',
]
NUMBERS = ['$free_ram_mb', '$vcpus_total', '$num_instances', '$vcpus_used', 0, 8, 512]
TEXTS = ['$host', '$nodename', '$hypervisor_type', '$stats.gpu', '$stats.nope']
OTHERS = ['$nope', '', None, True, '$service.disabled', '$stats.x.y', 'h1', '1', 'QEMU']
COMPARISONS = ['=', '<', '>', '<=', '>=', 'in']


def some(rng, instances):
    """Return the hints of a request, most often none."""
    found = {}
    for name in ('same_host', 'different_host'):
        if rng.random() < 0.12:
            found[name] = rng.choice(
                (rng.sample(instances, rng.randint(1, 3)), [], [''], ['nobody'])
            )
    if rng.random() < 0.1:
        found.update(_network(rng))
    if rng.random() < 0.15:
        found['query'] = _queries(rng)
    if rng.random() < 0.06:
        check = rng.choice((['rebuild'], ['rebuild'], ['x'], ['rebuild', 'x'], []))
        found['_nova_check_type'] = check
    return found


def _network(rng):
    odd = rng.random() < 0.1
    found = {'build_near_host_ip': [rng.choice(ODD_ADDRESSES if odd else ADDRESSES)]}
    if rng.random() < 0.7:
        odd = rng.random() < 0.1
        found['cidr'] = [rng.choice(ODD_NETWORKS if odd else NETWORKS)]
    if rng.random() < 0.1:
        del found['build_near_host_ip']
    return found


def _queries(rng):
    if rng.random() < 0.15:
        return [rng.choice(ODD_QUERIES)]
    count = 1 if rng.random() < 0.97 else rng.choice((0, 2))
    return [json.dumps(_query(rng, 3)) for _ in range(count)]


def _query(rng, depth):
    if depth and rng.random() < 0.5:
        inner = [_query(rng, depth - 1) for _ in range(rng.randint(0, 3))]
        return [rng.choice(('and', 'or', 'not')), *inner]
    kinds = [NUMBERS, NUMBERS, TEXTS]
    operands = rng.choice(kinds)
    pick = [rng.choice(operands) for _ in range(rng.randint(1, 3))]
    if rng.random() < 0.2:
        pick.append(rng.choice(OTHERS))
    return [rng.choice(COMPARISONS), *pick]
