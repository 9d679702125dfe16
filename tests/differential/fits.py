# SPDX-License-Identifier: Apache-2.0
"""Fits made by chance from a seed: a host, its NUMA nodes and devices, a guest.

A fit has the form of the golden cases of NUMA and PCI, without what they expect. What
nova cannot decide on, and what makes its search remember too much, comes up on
purpose, and rarely enough that about half of the guests find a place.
"""

import random

from tests.differential.devices import Devices
from tests.differential.primitives import primitive

SIZES_KB = (
    ((4,), 8),
    ((4, 2048), 8),
    ((4, 2048, 1048576), 8),
    ((2048, 4), 2),
    ((64, 2048), 1),
    ((64, 16384, 524288), 1),
    ((), 1),
)
ANY_SIZE = (-1, -2, -3)
NETWORKS = ('net1', 'net2', 'net3')
IDS = ((0, 1, 2, 3), (0, 1, 2, 3), (0, 1, 2, 3), (0, 8, 16, 24), (1, 0, 3, 2))
CPU_POLICIES = (None, 'shared', 'dedicated', 'dedicated', 'mixed')
THREAD_POLICIES = (None, None, 'prefer', 'require', 'isolate')
RATIOS = (1.0, 1.5, 4.0, 4.0, 16.0, 1.15)


def fit(seed):
    """Return the fit of a seed."""
    return _Maker(random.Random(seed)).fit(seed)


class _Maker:
    def __init__(self, rng):
        self.rng = rng
        self.pick = rng.choice
        self.knotty = False  # much for a search to remember

    def sometimes(self, chance):
        return self.rng.random() < chance

    def weighed(self, *pairs):
        values, weights = zip(*pairs, strict=True)
        return self.rng.choices(values, weights)[0]

    def fit(self, seed):
        self.knotty = self.sometimes(0.4)
        ids = self.ids()
        guest = self.guest(len(ids)) if self.sometimes(0.92) else None
        host = self.host(ids) if self.sometimes(0.98) else None
        devices = Devices(self.rng, ids).made(0.4 if guest else 1)
        made = {
            'id': f'random-{seed}',
            'title': f'Random fit {seed}.',
            'tags': ['random'],
            'config': {
                'packing_host_numa_cells_allocation_strategy': self.sometimes(0.4)
            },
            'host_numa_topology': host,
            'host_pci_stats': devices['pools'],
            'instance_numa_topology': guest,
            'pci_requests': devices['requests'],
            'limits': self.limits(),
            **self.flavor(guest),
            'allocation_candidates': devices['candidates'],
        }
        repeat = self.weighed((1, 6), (2, 2), (3, 1), (4, 1))
        return made if repeat == 1 else {**made, 'repeat': repeat}

    def ids(self):
        count = self.weighed((1, 2), (2, 6), (3, 5), (4, 4))
        if self.knotty:
            count = self.pick((2, 3, 3, 4, 4))
        ids = list(self.pick(IDS))[:count]
        if self.sometimes(0.1):
            self.rng.shuffle(ids)
        return ids

    # The nodes of the host.

    def host(self, ids):
        threads = self.weighed((1, 4), (2, 8), (4, 2))
        cores = self.weighed((1, 1), (2, 3), (3, 3), (4, 5), (6, 3))
        like = {
            'kind': self.weighed(('legacy', 5), ('split', 5), ('one kind', 1)),
            'sizes': self.weighed(*SIZES_KB),
            'memory': self.pick((2048, 4096, 8192, 8192, 16384)),
            'version': self.weighed(('1.5', 60), ('1.4', 2), ('1.3', 1)),
            'networks': self.sometimes(0.4),
        }
        busy = self.pick((0.2, 0.4, 0.6) if self.knotty else (0, 0, 0, 0.2, 0.4, 0.7))
        cells = []
        for number, id_ in enumerate(ids):
            if self.sometimes(0.6 if self.knotty else 0.1):
                like['sizes'] = self.weighed(*SIZES_KB)
                cores = self.pick((1, 2, 3, 4))
            first = number * 64
            siblings = self.cores(first, cores, threads)
            cells.append(self.cell(id_, number, siblings, busy, like))
        return primitive('NUMATopology', '1.2', cells=cells)

    def cores(self, first, count, threads):
        """Return the cores of a node, their threads apart by the number of cores."""
        cores = [
            [first + core + thread * count for thread in range(threads)]
            for core in range(count)
        ]
        if self.sometimes(0.05):
            cores[0] = cores[0][:1]  # the rest of it is kept from guests
        if self.sometimes(0.2):
            self.rng.shuffle(cores)
        return cores

    def cell(self, id_, number, siblings, busy, like):
        shared, dedicated = self.cpu_sets(siblings, like['kind'])
        memory = like['memory'] + self.pick((0, 0, 0, 1, -512))
        used = self.used(memory, busy)
        data = {
            'id': id_,
            'cpuset': shared,
            'pcpuset': dedicated,
            'memory': memory,
            'cpu_usage': self.used(2 * len(shared), busy),
            'memory_usage': used,
            'pinned_cpus': self.pinned(siblings, dedicated, busy),
            'siblings': [] if self.sometimes(0.01) else siblings,
            'mempages': self.pages(like['sizes'], memory, busy),
            'socket': self.weighed((number // 2, 9), (number, 4), (None, 1)),
        }
        if like['networks']:
            data['network_metadata'] = self.networks()
        if like['version'] < '1.5':
            del data['socket']
        if like['version'] < '1.4':
            del data['pcpuset']
        return primitive('NUMACell', like['version'], **data)

    def used(self, total, busy):
        if not busy or self.sometimes(0.3):
            return 0
        return int(total * self.rng.uniform(0, 1.1 * busy))

    def cpu_sets(self, siblings, kind):
        everyone = [cpu for core in siblings for cpu in core]
        if kind == 'legacy':
            return everyone, everyone
        if kind == 'one kind':
            return self.pick((([], everyone), (everyone, [])))
        cut = self.rng.randint(0, len(siblings))
        shared = [cpu for core in siblings[:cut] for cpu in core]
        if shared and self.sometimes(0.1):
            shared.pop()  # threads of one core in both sets
        return shared, [cpu for cpu in everyone if cpu not in shared]

    def pinned(self, siblings, dedicated, busy):
        """Return CPUs that guests have, most often whole cores."""
        if not busy or self.sometimes(0.3):
            return []
        if self.sometimes(0.5):
            return [cpu for cpu in dedicated if self.sometimes(busy / 2)]
        taken = {cpu for core in siblings if self.sometimes(busy) for cpu in core}
        return [cpu for cpu in dedicated if cpu in taken]

    def pages(self, sizes, memory, busy):
        found = []
        left_kb = memory * 1024
        for size in sorted(sizes, reverse=True):
            part = 1 if size == min(sizes) else self.pick((0, 0.25, 0.5, 0.75))
            total = int(left_kb * part) // size
            left_kb -= total * size
            used = self.used(total, busy)
            kept = self.weighed((0, 6), (min(1, total), 1), (total // 4, 1))
            found.append((size, total, used, kept))
        self.rng.shuffle(found)
        return [
            primitive(
                'NUMAPagesTopology',
                '1.1',
                **dict(zip(('size_kb', 'total', 'used', 'reserved'), one, strict=True)),
            )
            for one in found
        ]

    def networks(self, most=2):
        physnets = self.rng.sample(NETWORKS, self.rng.randint(0, most))
        return primitive(
            'NetworkMetadata', '1.0', physnets=physnets, tunneled=self.sometimes(0.3)
        )

    # The nodes of the guest.

    def guest(self, host_cells):
        count = (
            self.pick((1, 2, 2, 3))
            if self.knotty
            else self.weighed((1, 4), (2, 5), (3, 3))
        )
        if count > host_cells and self.sometimes(0.9):
            count = host_cells
        policy = self.pick(CPU_POLICIES)
        pins = policy in ('dedicated', 'mixed')
        like = {
            'cpu_policy': policy,
            'cpu_thread_policy': self.pick(THREAD_POLICIES) if pins else None,
            'memory': self.pick((256, 512, 512, 1024, 1024, 2048)),
            'pagesize': self.pagesize(),
            'cpus': self.weighed((1, 4), (2, 5), (3, 2), (4, 1)),
        }
        uneven = self.sometimes(0.6 if self.knotty else 0.3)
        cells, cpu = [], 0
        for number in range(count):
            if uneven:
                like['memory'] = self.pick((1, 256, 512, 1024, 2048, 4096))
                like['cpus'] = self.rng.randint(1, 4)
            cells.append(self.guest_cell(number, cpu, like))
            cpu += like['cpus']
        isolates = pins and self.sometimes(0.2)
        policy = 'isolate' if isolates else self.pick((None, 'share'))
        return primitive(
            'InstanceNUMATopology', '1.3', cells=cells, emulator_threads_policy=policy
        )

    def pagesize(self):
        if self.sometimes(0.35 if self.knotty else 0.5):
            return None
        literal = self.weighed((4, 2), (2048, 3), (1048576, 2), (64, 1))
        return self.weighed((literal, 2), *((size, 2) for size in ANY_SIZE))

    def guest_cell(self, number, first, like):
        cpus = list(range(first, first + like['cpus']))
        dedicated = []
        if like['cpu_policy'] == 'dedicated':
            dedicated = cpus
        elif like['cpu_policy'] == 'mixed':
            few = 0 if self.sometimes(0.1) else 1
            dedicated = self.rng.sample(cpus, self.rng.randint(few, len(cpus)))
        return primitive(
            'InstanceNUMACell',
            '1.6',
            id=number,
            cpuset=[cpu for cpu in cpus if cpu not in dedicated],
            pcpuset=sorted(dedicated),
            cpuset_reserved=None,
            memory=like['memory'],
            pagesize=like['pagesize'],
            cpu_pinning_raw=None,
            cpu_policy=like['cpu_policy'],
            cpu_thread_policy=like['cpu_thread_policy'],
        )

    def limits(self):
        if self.sometimes(0.03):
            return None
        ratios = {
            'cpu_allocation_ratio': self.pick(RATIOS),
            'ram_allocation_ratio': self.pick(RATIOS),
        }
        if self.sometimes(0.35):
            ratios['network_metadata'] = self.networks()
        return primitive('NUMATopologyLimits', '1.1', **ratios)

    def flavor(self, guest):
        """Return what flavor and image say of CPUs, most often as the guest is."""
        cell = (
            guest['nova_object.data']['cells'][0]['nova_object.data'] if guest else {}
        )
        policy, threads = cell.get('cpu_policy'), cell.get('cpu_thread_policy')
        if self.sometimes(0.05):
            policy, threads = self.pick(CPU_POLICIES), self.pick(THREAD_POLICIES)
        flavor, image = {}, {}
        for name, value in (('cpu_policy', policy), ('cpu_thread_policy', threads)):
            if value is not None and self.sometimes(0.5):
                flavor[f'hw:{name}'] = value
            elif value is not None:
                image[f'hw_{name}'] = value
        return {'flavor_extra_specs': flavor, 'image_properties': image}
