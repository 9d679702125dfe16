# SPDX-License-Identifier: Apache-2.0
"""Where two answers about a fit differ, and for which defect of nova they may.

The numbers of the defects are those that the documentation of NUMA fitting lists;
half a booking is one of some of the devices, when there are none left of others.
"""

from __future__ import annotations

from typing import NamedTuple

NAMES = {
    'PciDeviceRequestFailed': 'DeviceRequestFailed',
    # By sockets of nodes, on a host without nodes.
    'AttributeError': 'DeviceRequestFailed',
}
OF_NODES = ('cpu_pinning', 'cpuset_reserved')  # threads of one core are alike
OLD_DATA = ('NotImplementedError', 'ValueError')
OF_ERRORS = {
    'IndexError': 'N4',
    'CPUPinningInvalid': 'N7',
    'CPUPinningUnknown': 'N1',
    'PciDeviceRequestFailed': 'half a booking',
    'AttributeError': 'half a booking',
}


class Difference(NamedTuple):
    """The first one: in a filter or, with ``instance``, when that one was placed."""

    subject: str
    their: object
    our: object
    instance: int | None = None

    def __str__(self):
        where = '' if self.instance is None else f'instance {self.instance}, '
        return f'{where}{self.subject}: nova {self.their}, we {self.our}'


def difference(theirs, ours):
    """Return the first difference, or None.

    Where nova cannot go on because a compute told too little, neither must we.
    """
    for name, their in (theirs['filters'] or {}).items():
        if their['error'] is None:
            their, our = _said(their), _said(ours['filters'][name])
            if their != our:
                return Difference(name, their, our)
    pairs = list(zip(theirs['sequence'], ours['sequence'], strict=False))
    for number, (their, our) in enumerate(pairs):
        if their['error'] is not None:
            return None
        if _said(their) != _said(our):
            return Difference('both', _said(their), _said(our), number)
        if their['consume'] is None:
            break
        if their['consume']['error'] in OLD_DATA:
            return None
        their, our = _comparable(their), _comparable(our)
        for name, part in their.items():
            if part != our[name]:
                return Difference(name, part, our[name], number)
    return None


def _said(entry):
    return {name: entry[name] for name in ('passes', 'candidates')}


def _comparable(entry):
    """Return what must be equal of an instance that was placed, part by part."""
    consumed = entry['consume']
    cells = [_without(cell, ('pinned_cpus',)) for cell in consumed['numa_cells'] or ()]
    return {
        'candidate': consumed['candidate'],
        'error': NAMES.get(consumed['error'], consumed['error']),
        'request_topology_cleared': consumed['request_topology_cleared'],
        'guest': entry['guest'] and [_by_core(node) for node in entry['guest']],
        'numa_cells': cells,
        'pci_pools': consumed['pci_pools'],
    }


def _by_core(node):
    """Return a node of a guest; of host CPUs only their cores matter."""
    cores = node['cpuset_reserved_core'] and sorted(
        node['cpuset_reserved_core'], key=str
    )
    return {**_without(node, OF_NODES), 'cpuset_reserved_core': cores}


def _without(values, names):
    return {name: value for name, value in values.items() if name not in names}


def defects(case, theirs, found, alone):
    """Return which defects of nova explain a difference from the right answer.

    ``alone`` are those candidates with which, alone and for one instance, the
    search of nova answers another than the right one. Empty: none explains it.
    """
    consumed = None
    if found.subject not in ('both', *(theirs['filters'] or ())):
        consumed = theirs['sequence'][found.instance]['consume']
    if consumed and consumed['error']:
        return OF_ERRORS.get(consumed['error'], '')
    if not case['instance_numa_topology']:
        return ''
    if consumed and consumed['request_topology_cleared']:
        return 'N6'
    if alone:
        return _of_the_search(case)
    if found.instance or len(case['allocation_candidates']) > 1:
        return 'N5'
    return ''


def _of_the_search(case):
    """Return N1 if pairs of nodes can be mistaken, N2 if a page size can stick."""
    hosts = case['host_numa_topology']['nova_object.data']['cells']
    guests = case['instance_numa_topology']['nova_object.data']['cells']
    ids = [cell['nova_object.data']['id'] for cell in hosts]
    remembers = len(guests) > 1 and ids != [0, 1]
    sizes = [cell['nova_object.data']['pagesize'] for cell in guests]
    sticks = len(hosts) > 1 and any(size and size < 0 for size in sizes)
    return ' or '.join(
        name for name, may_be in (('N1', remembers), ('N2', sticks)) if may_be
    )
