# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests that are valid by default; a test says what matters to it."""

from __future__ import annotations

import copy
import json

import numpy as np

from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.objects.request_spec import Destination, RequestSpec
from novasched.scheduler.aggregates import Aggregate
from novasched.scheduler.fit.host_topology import HostPools, host_topology
from novasched.scheduler.hosts import Categories, HostTable, Snapshot

FLOATS = {
    'cpu_allocation_ratio': 4.0,
    'ram_allocation_ratio': 1.0,
    'disk_allocation_ratio': 1.0,
    'hypervisor_version': 8002002,
}
INTS = {
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
}
MASKS = {'service_disabled': False, 'service_up': True}
CATEGORIES = {
    'cell_uuid': 'cell1',
    'hypervisor_type': 'QEMU',
    'cpu_info': None,
    'supported_instances': [['x86_64', 'kvm', 'hvm']],
    'numa_topology': None,
    'pci_stats': None,
    'metrics': None,
    'aggregates': (),
}
OBJECTS = {
    'host_ip': None,
    'stats': {},
    'service': {'disabled_reason': None, 'forced_down': False, 'last_seen_up': None},
    'updated': None,
    'instances': {},
    'instance_images': {},
    'limits': {},
    'allocation_candidates': [],
}
INSTANCE = 'c0000000-0000-4000-8000-000000000001'


def objects(values):
    """Return an array of Python objects, lists and dicts included."""
    column = np.empty(len(values), object)
    for row, value in enumerate(values):
        column[row] = value
    return column


def aggregate(number=1, hosts=(), **metadata):
    """Return an aggregate with metadata; ``number`` makes its id and names."""
    return Aggregate(
        number, f'aggregate-{number}', f'agg{number}', frozenset(hosts), metadata
    )


def hosts(count=None, **columns):
    """Return a table of hosts h1, h2, ...: a list of values per column given.

    Without a column, ``count`` hosts (default 1). What a column is not given for
    is the same on every host; dicts and lists are not shared.
    """
    given = {name: list(values) for name, values in columns.items()}
    if count is None:
        count = len(next(iter(given.values()))) if given else 1
    names = [f'h{i + 1}' for i in range(count)]
    given.setdefault('host', names)
    given.setdefault('nodename', given['host'])
    given.setdefault('uuid', [f'uuid-{name}' for name in given['nodename']])
    given.setdefault('hypervisor_hostname', given['nodename'])
    for name, value in {**FLOATS, **INTS, **MASKS, **CATEGORIES, **OBJECTS}.items():
        given.setdefault(name, [copy.deepcopy(value) for _ in range(count)])
    assert {len(values) for values in given.values()} == {count}
    return HostTable(Snapshot({k: _column(k, v) for k, v in given.items()}))


PARSED = {'numa_topology': host_topology, 'pci_stats': HostPools}


def _column(name, values):
    if name in PARSED:
        texts = list(dict.fromkeys(values))
        place = {text: number for number, text in enumerate(texts)}
        codes = np.array([place[text] for text in values], np.intp)
        return Categories([PARSED[name](text) for text in texts], codes)
    if name in CATEGORIES:
        distinct = []
        for value in values:
            if value not in distinct:
                distinct.append(value)
        codes = [distinct.index(value) for value in values]
        return Categories(distinct, np.array(codes, np.intp))
    if name in FLOATS:
        return np.array(values, np.float64)
    if name in INTS:
        return np.array(values, np.int64)
    if name in MASKS:
        return np.array(values, bool)
    return objects(values)


def group(policy='anti-affinity', members=(), hosts=(), **rules):
    """Return a server group with a policy and its rules."""
    made = InstanceGroup(
        uuid='60000000-0000-4000-8000-000000000001',
        policy=policy,
        policies=[policy],
        members=list(members),
        hosts=list(hosts),
        _rules={name: str(value) for name, value in rules.items()},
    )
    made.obj_reset_changes()
    return made


def destination(host, node=None):
    """Return a destination on a host."""
    made = Destination(host=host, node=node)
    made.obj_reset_changes()
    return made


def numa_cell(number=0, cpus=range(4), pinned=(), threads=1, pages=None, **fields):
    """Return a node of a host; its CPUs may be shared and pinned, and nothing is used.

    ``threads`` CPUs in a row are a core; ``pages`` are free pages by size in KiB.
    """
    cpus = list(cpus)
    sizes = {4: 1048576} if pages is None else pages
    return NUMACell(
        **{
            'id': number,
            'cpuset': set(cpus),
            'pcpuset': set(cpus),
            'pinned_cpus': set(pinned),
            'memory': 4096,
            'siblings': [
                set(cpus[at : at + threads]) for at in range(0, len(cpus), threads)
            ],
            'mempages': [
                NUMAPagesTopology(size_kb=size_kb, total=total)
                for size_kb, total in sizes.items()
            ],
            'socket': number,
            **fields,
        }
    )


def numa_topology(*cells):
    """Return the JSON text of the nodes of a host."""
    return json.dumps(NUMATopology(cells=list(cells)).obj_to_primitive())


def guest_cell(number=0, cpus=range(1), policy=None, memory=1024, **fields):
    """Return a node that an instance asks for, with CPUs of its own by ``policy``."""
    shared, own = (set(), set(cpus)) if policy else (set(cpus), set())
    return InstanceNUMACell(
        id=number,
        cpuset=shared,
        pcpuset=own,
        cpu_policy=policy,
        memory=memory,
        **fields,
    )


def guest_topology(*cells, emulator=None):
    """Return the nodes that an instance asks for."""
    return InstanceNUMATopology(cells=list(cells), emulator_threads_policy=emulator)


def pools(*flat):
    """Return the JSON text of pools of PCI devices, from numbers or plain dicts."""
    pool = {'vendor_id': '8086', 'product_id': '1520', 'count': 1}
    given = [{'count': one} if isinstance(one, int) else one for one in flat]
    return json.dumps([{**pool, **one} for one in given])


def devices(count=1, alternative=None, alias='nic', **fields):
    """Return a request for devices of one alias; None: for a port."""
    asked = InstancePCIRequest(
        count=count,
        spec=[alternative or {'vendor_id': '8086'}],
        alias_name=alias,
        **fields,
    )
    return InstancePCIRequests(requests=[asked])


def request(
    vcpus=1,
    memory_mb=512,
    root_gb=1,
    ephemeral_gb=0,
    swap=0,
    extra_specs=None,
    image=None,
    **values,
):
    """Return the request of one instance.

    ``image`` are the properties of its image; the other values are fields of
    the RequestSpec.
    """
    flavor = Flavor(
        id=1,
        name='small',
        flavorid='1',
        vcpus=vcpus,
        memory_mb=memory_mb,
        root_gb=root_gb,
        ephemeral_gb=ephemeral_gb,
        swap=swap,
        extra_specs=extra_specs or {},
    )
    fields = {
        'image': None if image is None else ImageMeta.from_dict({'properties': image}),
        'flavor': flavor,
        'instance_uuid': INSTANCE,
        'project_id': 'project',
        'user_id': 'user',
        'num_instances': 1,
        **dict.fromkeys(
            (
                'numa_topology',
                'pci_requests',
                'availability_zone',
                'ignore_hosts',
                'force_hosts',
                'force_nodes',
                'requested_destination',
                'retry',
                'limits',
                'instance_group',
            )
        ),
        'scheduler_hints': {},
        **values,
    }
    made = RequestSpec(**fields)
    made.obj_reset_changes(recursive=True)
    return made
