# SPDX-License-Identifier: Apache-2.0
"""Hosts and requests of novasched.testing, and NUMA nodes and devices besides."""

import json

from novasched.compat import plugin_adapter
from novasched.objects.numa import (
    InstanceNUMACell,
    InstanceNUMATopology,
    NUMACell,
    NUMAPagesTopology,
    NUMATopology,
)
from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.testing import (
    INSTANCE,
    aggregate,
    destination,
    group,
    hosts,
    objects,
    request,
)

__all__ = [
    'INSTANCE',
    'adapted',
    'aggregate',
    'destination',
    'devices',
    'group',
    'guest_cell',
    'guest_topology',
    'hosts',
    'numa_cell',
    'numa_topology',
    'objects',
    'pools',
    'request',
]


def adapted(extensions):
    """Return filters or weighers as a profile has them: plugins in their adapters."""
    return [plugin_adapter.adapted(each) for each in extensions]


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


def pinned():
    """Return fields of a request for four CPUs of its own: a NUMA cell for itself."""
    cell = guest_cell(cpus=range(4), policy='dedicated')
    return {'numa_topology': guest_topology(cell), 'vcpus': 4}


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
