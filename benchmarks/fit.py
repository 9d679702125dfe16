# SPDX-License-Identifier: Apache-2.0
"""Time NUMATopologyFilter over 1,000 and 10,000 hosts, and one fit on a large host.

Run from the checkout: ``.venv/bin/python -m benchmarks.fit``. Prints milliseconds of
processor time. Hosts have two nodes of 52 CPUs in pairs, and pages of 4 KiB and 1 GiB;
their usage is different on all, or one of ten (``alike``). ``first`` is a request that
the filter has not seen the like of, ``again`` one like it; ``50 in a row`` filters and
books 50 instances, as one request for 50 does. ``parse`` is what reading the nodes
costs, once for each report of a compute. A host with 16 nodes is asked to take a
guest with eight; where nova's search is told to do so, with half of the nodes. Hosts
with devices that placement tracks have eight nodes and a candidate for each: the first
request and one like it. ``--peer`` runs nova's own filter on the same hosts, in
``.venv-peer``; ``--hosts`` chooses other numbers.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import time

import numpy as np

from novasched.objects.base import parse
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.fit.parse import HostPools, HostTopology
from novasched.scheduler.fit.requirements import FitRequirements, HostCapacity
from novasched.scheduler.fit.topology import CellLimits
from novasched.scheduler.hosts import Categories
from tests.support.clouds import factories

ROOT = pathlib.Path(__file__).parent.parent
PEER = ROOT / '.venv-peer/bin/python', ROOT / 'benchmarks/peer_fit.py'
IN_A_ROW = 50
HOSTS_WITH_DEVICES = 1000
ALIKE = 10
RATIOS = {'cpu_allocation_ratio': 16.0, 'ram_allocation_ratio': 1.5}
CANDIDATE = {'allocations': {}, 'mappings': {'': ['root']}}
HUGE_KB = 1048576
GROUP = '7c676751-512d-41c1-b313-66dc92a3b8f6'
DEVICE = {'vendor_id': '8086', 'product_id': '1520', 'count': 1}


def primitive(name, version, **values):
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': version,
        'nova_object.data': values,
    }


def node(number, cpus, rng, pinned=0):
    """Return a node of so many CPUs in pairs, of which some are pinned."""
    half = cpus // 2
    pairs = [[number * cpus + at, number * cpus + half + at] for at in range(half)]
    own = [cpu for pair in pairs for cpu in pair]
    memory, used = 245760, rng.randrange(0, 122880)
    pages = [
        {'size_kb': 4, 'total': 1048576 * 4, 'used': 0, 'reserved': 0},
        {'size_kb': HUGE_KB, 'total': 224, 'used': used // 1024, 'reserved': 0},
    ]
    return primitive(
        'NUMACell',
        '1.5',
        id=number,
        cpuset=own,
        pcpuset=own,
        memory=memory,
        cpu_usage=rng.randrange(0, 100),
        memory_usage=used,
        pinned_cpus=[cpu for pair in rng.sample(pairs, pinned) for cpu in pair],
        siblings=pairs,
        mempages=[primitive('NUMAPagesTopology', '1.1', **one) for one in pages],
        socket=number,
    )


def topology(number, nodes=2, cpus=52):
    """Return the JSON text of a host; each number gives another usage."""
    rng = random.Random(number)
    cells = [node(n, cpus, rng, rng.randrange(cpus // 2 - 3)) for n in range(nodes)]
    return json.dumps(primitive('NUMATopology', '1.2', cells=cells))


def guest(cells, pagesize=None, policy=None, vcpus=4, memory=4096):
    """Return a guest of so many nodes, each with so many CPUs."""
    made = []
    for number in range(cells):
        own = list(range(number * vcpus, (number + 1) * vcpus))
        made.append(
            primitive(
                'InstanceNUMACell',
                '1.6',
                id=number,
                cpuset=[] if policy else own,
                pcpuset=own if policy else [],
                cpuset_reserved=None,
                memory=memory,
                pagesize=pagesize,
                cpu_pinning_raw=None,
                cpu_policy=policy,
                cpu_thread_policy=None,
            )
        )
    return primitive(
        'InstanceNUMATopology', '1.3', cells=made, emulator_threads_policy=None
    )


REQUESTS = {
    'pinned': guest(1, policy='dedicated'),
    'pinned, 2 nodes': guest(2, policy='dedicated'),
    'huge pages': guest(1, HUGE_KB),
    'no room': guest(1, policy='dedicated', vcpus=52),
}


def table(texts):
    """Return hosts with these topologies, each distinct text parsed once."""
    count = len(texts)
    ratios = {name: [ratio] * count for name, ratio in RATIOS.items()}
    candidates = [[CANDIDATE]] * count
    hosts = factories.hosts(count, allocation_candidates=candidates, **ratios)
    distinct = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    codes = np.array([distinct[text] for text in texts], np.intp)
    topologies = [HostTopology(text) for text in distinct]
    return hosts.with_columns(numa_topology=Categories(topologies, codes))


def request(asked):
    return factories.request(numa_topology=parse(asked), image={})


def in_a_row(hosts, asked):
    """Filter and book instances one after the other."""
    filter_ = NUMATopologyFilter()
    for _ in range(IN_A_ROW):
        hosts = filter_.apply(hosts, asked)
        if len(hosts):
            hosts = book(hosts, int(hosts.rows[0]), asked, filter_.fitting).hosts


def ms(call):
    start = time.process_time()
    call()
    return (time.process_time() - start) * 1000


def median_ms(call, rounds=5):
    return statistics.median(ms(call) for _ in range(rounds))


def ours(texts, asked):
    """Return milliseconds: parsing, a first request, one like it, 50 in a row."""
    asked, hosts = request(asked), table(texts)
    parsing = ms(lambda: hosts.numa_topology.map(bool))
    first = [ms(lambda: NUMATopologyFilter().apply(hosts, asked)) for _ in range(3)]
    filter_ = NUMATopologyFilter()
    filter_.apply(hosts, asked)
    return [
        parsing,
        statistics.median(first),
        median_ms(lambda: filter_.apply(hosts, asked)),
        ms(lambda: in_a_row(hosts, asked)),
    ]


def large():
    """Yield what a host with 16 nodes is asked, and the milliseconds of the answer."""
    pools = HostPools(
        json.dumps(
            [
                {
                    'vendor_id': '8086',
                    'product_id': '1520',
                    'numa_node': number,
                    'count': 1,
                    'dev_type': 'type-VF',
                }
                for number in range(16)
            ]
        )
    )
    host = HostTopology(topology(16, nodes=16, cpus=32))
    limits = CellLimits(*RATIOS.values())
    for name, asked, devices in (
        ('fits', guest(8, policy='dedicated', vcpus=2), 0),
        ('one node too few', uneven(9), 0),
        ('devices refuse', guest(8, policy='dedicated', vcpus=2), 9),
    ):
        requirements = FitRequirements.of(
            request(asked).replaced(pci_requests=wanted(devices)), Fitting()
        )
        capacity = HostCapacity(host, pools, limits)
        fits = requirements.fits(capacity, [{}])[0]
        yield name, fits, median_ms(lambda q=requirements, p=capacity: q.fits(p, [{}]))
    uneven_pools, asked = kinds_of_devices()
    for name, policy in (('kinds of devices', 'required'), ('and elsewhere', 'legacy')):
        requirements = FitRequirements.of(
            request(guest(8, policy='dedicated', vcpus=2)).replaced(
                pci_requests=wanted_of(asked, policy)
            ),
            Fitting(),
        )
        capacity = HostCapacity(host, uneven_pools, limits)
        fits = requirements.fits(capacity, [{}])[0]
        yield (
            name,
            fits,
            median_ms(lambda q=requirements, p=capacity: q.fits(p, [{}]), 1),
        )


def kinds_of_devices():
    """Return devices that differ on all nodes, and requests that they do not serve."""
    pools = [
        {
            'vendor_id': '8086',
            'product_id': str(number % 4),
            'numa_node': number,
            'count': number % 5 + 1,
            'address': f'a{number}',
        }
        for number in range(16)
    ]
    return HostPools(json.dumps(pools)), [
        (9, {}),
        (9, {}),
        (9, {}),
        (4, {'product_id': '3'}),
    ]


def uneven(large_nodes):
    """Return a guest with eight nodes of which more are large than the host has."""
    made = guest(8, policy='dedicated', vcpus=2)
    for cell in made['nova_object.data']['cells'][: large_nodes - 1]:
        cell['nova_object.data']['memory'] = 300000
    return made


def wanted(count):
    """Return a request for devices of which each node has one."""
    if not count:
        return None
    return wanted_of([(count, {'product_id': '1520'})], 'required')


def wanted_of(asked, policy, **fields):
    """Return requests for so many devices of some kinds."""
    requests = [
        primitive(
            'InstancePCIRequest',
            '1.4',
            count=count,
            spec=[{'vendor_id': '8086', **kind}],
            alias_name='a',
            numa_policy=policy,
            **fields,
        )
        for count, kind in asked
    ]
    return parse(primitive('InstancePCIRequests', '1.1', requests=requests))


def with_devices(count, nodes=8):
    """Return hosts with devices that placement tracks, a candidate for each node."""
    hosts = table([topology(number, nodes=nodes, cpus=32) for number in range(count)])
    pools, candidates = [], np.empty(count, object)
    for number in range(count):
        near = [
            {
                'vendor_id': '8086',
                'product_id': '1520',
                'numa_node': node,
                'count': 1 + (number + node) % 4,
                'rp_uuid': f'{number}-{node}',
            }
            for node in range(nodes)
        ]
        pools.append(HostPools(json.dumps(near)))
        candidates[number] = [
            {**CANDIDATE, 'mappings': {'': ['root'], f'{GROUP}-0': [one['rp_uuid']]}}
            for one in near
        ]
    return hosts.with_columns(
        pci_stats=Categories(pools, np.arange(count)), allocation_candidates=candidates
    )


def candidates(count):
    """Yield what is asked of hosts with candidates, who fits, and milliseconds."""
    hosts = with_devices(count)
    hosts.numa_topology.map(bool)
    for name, cells, asked in (
        ('a device', 1, [(1, {})]),
        ('too many for the nodes', 2, [(9, {}), (9, {})]),
    ):
        devices = wanted_of(asked, 'required', request_id=GROUP)
        made = request(guest(cells, policy='dedicated', vcpus=2))
        made = made.replaced(pci_requests=devices)
        filter_ = NUMATopologyFilter()
        first = ms(lambda f=filter_, m=made: f.apply(hosts, m))
        again = median_ms(lambda f=filter_, m=made: f.apply(hosts, m))
        yield name, len(filter_.apply(hosts, made)), first, again


def as_nova(nodes):
    """Return milliseconds of nova's search where devices refuse every choice."""
    pools = HostPools(json.dumps([{**DEVICE, 'numa_node': n} for n in range(nodes)]))
    host = HostTopology(topology(16, nodes=nodes, cpus=32))
    asked = request(guest(nodes // 2, policy='dedicated', vcpus=2))
    asked = asked.replaced(pci_requests=wanted(nodes // 2 + 1))
    requirements = FitRequirements.of(asked, Fitting(as_nova=True))
    capacity = HostCapacity(host, pools, CellLimits(*RATIOS.values()))
    return ms(lambda: requirements.fits(capacity, [{}]))


def peers(texts, asked):
    """Return milliseconds of nova's filter."""
    given = {'topologies': texts, 'request': asked, 'candidate': CANDIDATE, **RATIOS}
    done = subprocess.run(
        [str(part) for part in PEER],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--hosts', type=int, nargs='+', default=[1000, 10000])
    parser.add_argument('--peer', action='store_true', help='time nova beside it')
    return parser.parse_args()


def main():
    """Print one line per number of hosts, usage and kind of request."""
    args = arguments()
    heads = ['parse', 'first', 'again', '50 in a row']
    heads += ['peer', 'peer/first', 'peer/again'] if args.peer else []
    print(f'{"hosts":>7}  usage      request        ', *(f'{h:>11}' for h in heads))  # noqa: T201
    for count in args.hosts:
        for usage, distinct in (('different', count), ('alike', ALIKE)):
            kinds = [topology(number) for number in range(distinct)]
            texts = [kinds[number % distinct] for number in range(count)]
            for kind, asked in REQUESTS.items():
                times = ours(texts, asked)
                if args.peer:
                    peer = peers(texts, asked)
                    times += [peer, peer / times[1], peer / times[2]]
                row = ' '.join(f'{value:>11.2f}' for value in times)
                print(f'{count:7}  {usage:9}  {kind:15} {row}', flush=True)  # noqa: T201
    for name, fits, took in large():
        answer = 'fits' if fits else 'does not fit'
        print(f'16 nodes, 8 asked: {name:17} {answer:13} {took:8.2f}')  # noqa: T201
    for nodes in (8, 16):
        print(f'{nodes} nodes as nova, devices refuse: {as_nova(nodes):27.2f}')  # noqa: T201
    for name, fitting, first, again in candidates(HOSTS_WITH_DEVICES):
        print(f'8 candidates: {name:22} {fitting:5} fit {first:10.2f} {again:10.2f}')  # noqa: T201
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f'most memory: {peak_mib} MiB')  # noqa: T201


if __name__ == '__main__':
    sys.exit(main())
