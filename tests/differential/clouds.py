# SPDX-License-Identifier: Apache-2.0
"""Clouds made by chance from a seed: hosts, options, a request, parts to decide.

A cloud is plain JSON, in the form of the golden cases: what a host does not say is
in ``every_host``. What is missing, odd or nonsense comes up on purpose, and rarely
enough that most hosts pass most filters.
"""

import json
import random
import uuid

from tests.differential import hints, words

CELLS = [str(uuid.UUID(int=number)) for number in (1, 2)]
IMAGE_IDS = [str(uuid.UUID(int=number)) for number in (21, 22)]
RUNNING = [str(uuid.UUID(int=number)) for number in range(101, 117)]
NEW = [str(uuid.UUID(int=number)) for number in range(201, 205)]
EVERY_HOST = {
    'cell_uuid': CELLS[0],
    'total_usable_ram_mb': 16384,
    'free_ram_mb': 8192,
    'total_usable_disk_gb': 100,
    'disk_mb_used': 0,
    'free_disk_mb': 102400,
    'vcpus_total': 8,
    'vcpus_used': 0,
    'num_instances': 0,
    'num_io_ops': 0,
    'failed_builds': 0,
    'cpu_allocation_ratio': 4.0,
    'ram_allocation_ratio': 1.0,
    'disk_allocation_ratio': 1.0,
    'hypervisor_type': 'QEMU',
    'hypervisor_version': 8002002,
    'cpu_info': None,
    'supported_instances': [['x86_64', 'kvm', 'hvm'], ['i686', 'kvm', 'hvm']],
    'host_ip': None,
    'pci_stats': None,
    'metrics': None,
    'stats': {},
    'service_disabled': False,
    'service_up': True,
    'aggregates': [],
    'instances': [],
    'instance_images': {},
}
NEVER_REPORTED = {
    **dict.fromkeys(
        (
            'uuid',
            'cpu_allocation_ratio',
            'ram_allocation_ratio',
            'disk_allocation_ratio',
            'hypervisor_type',
            'hypervisor_version',
            'supported_instances',
            'cpu_info',
            'host_ip',
            'pci_stats',
            'metrics',
        )
    ),
    **dict.fromkeys(
        (
            'total_usable_ram_mb',
            'free_ram_mb',
            'total_usable_disk_gb',
            'free_disk_mb',
            'vcpus_total',
        ),
        0,
    ),
}


def cloud(seed, filters, weighers):
    """Return the cloud of a seed; its pipeline takes some of the parts."""
    return _Maker(random.Random(seed)).cloud(seed, filters, weighers)


class _Maker:
    def __init__(self, rng):
        self.rng = rng
        self.pick = rng.choice

    def sometimes(self, chance):
        return self.rng.random() < chance

    def some(self, values, most=2):
        """Return up to ``most`` of the values, each once."""
        return self.rng.sample(values, self.rng.randint(0, min(most, len(values))))

    def cloud(self, seed, filters, weighers):
        hosts = self.hosts()
        names = [host['host'] for host in hosts]
        return {
            'about': f'Random cloud {seed}.',
            'options': self.options(names),
            'filters': self.some(sorted(filters), 8),
            'weighers': self.some(sorted(weighers), 13),
            'instances': self.instances(),
            'request': self.request(hosts, names),
            'every_host': EVERY_HOST,
            'hosts': hosts,
        }

    def hosts(self):
        count = min(self.rng.randint(1, 12), self.rng.randint(2, 12))
        services = [f'h{number}' for number in range(1, count + 1)]
        if self.sometimes(0.1):
            services[0] = 'H2'  # differs from h2 by its case alone
        if self.sometimes(0.1):
            services = self.rng.choices(services, k=count)  # several nodes each
        kinds = [self.machine() for _ in range(self.rng.randint(1, 3))]
        aggregates = [self.aggregate(services) for _ in range(self.rng.randint(0, 4))]
        shared = {name: self.service(name, aggregates) for name in services}
        free = list(RUNNING)
        self.rng.shuffle(free)
        for service in shared.values():
            service['instances'] = [free.pop() for _ in free[: self.pick((0, 1, 2, 4))]]
            service['instance_images'] = self.instance_images(service['instances'])
        return [
            self.host(number, name, self.pick(kinds), shared[name])
            for number, name in enumerate(services, 1)
        ]

    def instances(self):
        """Return one that runs, and is to be moved, or one or several new ones."""
        if self.sometimes(0.2):
            return [self.pick(RUNNING)]
        return self.rng.sample(NEW, self.rng.randint(1, len(NEW)))

    def service(self, name, aggregates):
        """Return what all nodes of a compute service have in common."""
        return {
            'cell_uuid': self.pick(CELLS),
            'service_disabled': self.sometimes(0.04),
            'service_up': not self.sometimes(0.04),
            'aggregates': [meta for members, meta in aggregates if name in members],
        }

    def aggregate(self, services):
        """Return the members and the metadata of an aggregate."""
        metadata = {
            key: self.pick(self.pick(words.METADATA[key]))
            for key in self.some(list(words.METADATA), 5)
        }
        return self.some(services, len(services)), metadata

    def machine(self):
        """Return what machines of one kind report alike."""
        found = {
            'total_usable_ram_mb': self.pick((2048, 16384, 262144)),
            'vcpus_total': self.pick((0, 1, 4, 8, 64)),
            'cpu_allocation_ratio': self.pick((0.1, 1.0, 1.5, 4.0, 16.0)),
            'hypervisor_type': self.pick(('QEMU', 'QEMU', 'ironic', 'VMware vCenter')),
            'hypervisor_version': self.pick(
                (0, 7, 1006001, 6000000, 6002000, 8002002, 2147483647)
            ),
            'cpu_info': self.pick(words.CPU_INFO),
            'supported_instances': self.pick(words.SUPPORTED_INSTANCES),
        }
        if self.sometimes(0.02):
            found['supported_instances'] = None
        return found

    def host(self, number, name, machine, service):
        host = {'host': name, 'nodename': f'n{number}'}
        host['uuid'] = str(uuid.UUID(int=1000 + number))
        if self.sometimes(0.01):
            return settled({**host, **service, **NEVER_REPORTED})
        reported = {**machine, **self.usage(), **self.reports()}
        return settled({**host, **service, **reported})

    def usage(self):
        amount = self.pick(
            (
                lambda: self.rng.randint(-4, 64),
                lambda: self.rng.randint(-(2**31), 2**31 - 1),
                lambda: 512 * self.pick((0, 1, 2, 6, 16)),
            )
        )
        counter = self.pick((lambda: 0, lambda: self.rng.randint(0, 60)))
        return {
            'free_ram_mb': amount(),
            'free_disk_mb': 1024 * (amount() >> 8),
            'vcpus_used': counter(),
            'num_instances': self.pick((0, counter())),
            'num_io_ops': self.pick((0, 1, 4, 7, 8, 9)),
            'failed_builds': self.pick((0, 0, 0, 1, 4)),
        }

    def reports(self):
        """Return what a driver may report besides, in its texts."""
        return {
            'stats': {
                key: self.pick(values)
                for key, values in words.STATS.items()
                if self.sometimes(0.3)
            },
            'host_ip': self.pick(words.HOST_IPS),
            'metrics': self.metrics() if self.sometimes(0.7) else None,
            'pci_stats': self.pci_stats() if self.sometimes(0.5) else None,
        }

    def metrics(self):
        names = self.some(words.METRICS, 4)
        return json.dumps([self.metric(name) for name in names])

    def metric(self, name):
        found = {'name': name, 'source': 'libvirt.LibvirtDriver'}
        found['timestamp'] = '2026-01-01T00:00:00.000000'
        if name.startswith('numa.'):
            return {**found, 'numa_membw_values': {'0': 10, '1': 20}}
        if name.endswith('percent'):
            return {**found, 'value': self.pick((0.0, 0.35, 0.29, 0.57, 1.0))}
        return {**found, 'value': self.pick((0, 1, 512, 1024, 3072, 2**40 + 1))}

    def pci_stats(self):
        pools = [
            _primitive(
                'PciDevicePool',
                vendor_id='8086',
                product_id=f'154{number}',
                numa_node=self.pick((None, 0, 1)),
                count=self.pick((1, 2, 4, 16, 99, 150)),
                tags={'dev_type': self.pick(('type-PCI', 'type-VF'))},
            )
            for number in range(self.rng.randint(0, 3))
        ]
        return json.dumps(_primitive('PciDevicePoolList', objects=pools))

    def instance_images(self, instances):
        return {
            one: {
                key: self.pick(values)
                for key, values in words.INSTANCE_IMAGES.items()
                if self.sometimes(0.5)
            }
            for one in instances
            if self.sometimes(0.9)
        }

    def options(self, names):
        """Return a few options that differ from their defaults."""
        chosen = {
            group: {
                name: self.pick(values)
                for name, values in options.items()
                if self.sometimes(words.OFTEN_SET.get(name, 0.12))
            }
            for group, options in words.OPTIONS.items()
        }
        if self.sometimes(0.3):
            chosen['filter_scheduler']['isolated_hosts'] = self.some(names, 3)
        if self.sometimes(0.3):
            chosen['filter_scheduler']['isolated_images'] = self.some(IMAGE_IDS)
        return chosen

    def request(self, hosts, names):
        has_image = self.sometimes(0.7)
        asked = {
            'vcpus': self.pick((1, 2, 8)),
            'memory_mb': self.pick((1, 512, 4096)),
            'root_gb': self.pick((0, 1, 20)),
            'ephemeral_gb': self.pick((0, 0, 5)),
            'swap': self.pick((0, 512)),
            'flavor_name': self.pick(('small', 'large', 'm1.ü')),
            'extra_specs': self.extra_specs(),
            'image': self.image() if has_image else None,
            'image_id': self.pick((None, *IMAGE_IDS)) if has_image else None,
            'group': self.group(names) if self.sometimes(0.5) else None,
            'scheduler_hints': hints.some(self.rng, RUNNING),
            'project_id': self.pick(('p1', 'p2', 'p3')),
            **dict.fromkeys(('ignore_hosts', 'force_hosts', 'force_nodes')),
            'destination': self.destination(names) if self.sometimes(0.2) else None,
        }
        if self.sometimes(0.1):
            asked.update(self.names(hosts, names))
        if self.sometimes(0.03):
            asked['scheduler_hints'] = None
        elif self.sometimes(0.03):
            del asked['scheduler_hints']
        return asked

    def names(self, hosts, names):
        nodes = [host['nodename'] for host in hosts]
        spelt = [*names, *map(str.upper, names), 'zz']
        return {
            'ignore_hosts': self.pick((None, self.some(spelt, 3))),
            'force_hosts': self.pick((None, None, self.some(spelt, 3))),
            'force_nodes': self.pick((None, None, self.some([*nodes, 'N1'], 3))),
        }

    def extra_specs(self):
        if self.sometimes(0.05):
            return None
        keys = self.rng.sample(list(words.EXTRA_SPECS), self.pick((0, 0, 1, 1, 2, 3)))
        return {key: self.requirement(words.EXTRA_SPECS[key]) for key in keys}

    def requirement(self, values):
        """Return what an extra spec asks of one of the values."""
        value = self.pick(values)
        if self.sometimes(0.4):
            return value
        numeric = all(known.replace('.', '', 1).isdigit() for known in values)
        kinds = [words.TEXT_OPERATORS, words.NUMBER_OPERATORS]
        operators = kinds[numeric or self.sometimes(0.05)]
        if self.sometimes(0.02):
            operators = words.ODD_OPERATORS
        return self.pick(operators).format(value, self.pick(values))

    def image(self):
        given = {
            key: self.pick(self.pick(words.IMAGE[key]))
            for key in self.some(list(words.IMAGE), 4)
        }
        if self.sometimes(0.01):
            given[self.pick(list(words.REFUSED_IMAGE))] = words.REFUSED_WORD
        return given

    def group(self, names):
        policy = self.pick(words.POLICIES)
        given = {
            'policy': policy,
            'members': self.some([*RUNNING, *NEW], 12),
            'hosts': self.some([*names, names[0].upper()], 3),
            'rules': {},
        }
        if policy == 'anti-affinity' and self.sometimes(0.5):
            limit = self.pick(('0', '1', '2', '2', '3', '3', ' 2 ', 'x'))
            given['rules'] = {'max_server_per_host': limit}
        if self.sometimes(0.04):
            given['has_policies'] = False
        return given

    def destination(self, names):
        found = {
            'cell': self.pick((None, *CELLS)),
            'allow_cross_cell_move': self.sometimes(0.7),
        }
        if self.sometimes(0.2):
            found['host'] = self.pick((*names, names[0].upper()))
            found['node'] = self.pick((None, None, '', 'n1', 'N1'))
        return found


def settled(host):
    """Return what a host does not have in common with every host.

    Its counters stand in its stats as well, where computes report them, and it
    knows the images of its own instances only.
    """
    host = {**EVERY_HOST, **host}
    counters = {
        'num_instances': host['num_instances'],
        'io_workload': host['num_io_ops'],
        'failed_builds': host['failed_builds'],
    }
    stats = {k: v for k, v in host['stats'].items() if k not in counters}
    shown = {key: str(count) for key, count in counters.items() if count}
    host['stats'] = {**stats, **shown}
    host['instance_images'] = {
        uuid: image
        for uuid, image in host['instance_images'].items()
        if uuid in host['instances']
    }
    return {
        key: value
        for key, value in host.items()
        if key not in EVERY_HOST or value != EVERY_HOST[key]
    }


def _primitive(name, **values):
    return {
        'nova_object.name': name,
        'nova_object.namespace': 'nova',
        'nova_object.version': '1.1',
        'nova_object.data': values,
    }
