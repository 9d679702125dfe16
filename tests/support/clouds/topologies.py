# SPDX-License-Identifier: Apache-2.0
"""Nodes of hosts and guests for tests: valid by default, say what matters."""

import dataclasses

from novasched.scheduler.fit.search import fit_each
from novasched.scheduler.fit.topology import Guest, GuestCell, HostCell, Pages
from novasched.scheduler.reasons import Code, Reason


def host_cell(id=0, cores=((0,), (1,), (2,), (3,)), **given):
    """Return a host node whose CPUs serve all guests, all free, with 4 GiB."""
    cpus = frozenset(cpu for core in cores for cpu in core)
    cell = HostCell(
        id=id,
        cpuset=cpus,
        pcpuset=cpus,
        memory=4096,
        siblings=tuple(map(frozenset, cores)),
        mempages=(Pages(4, 1048576),),
        socket=0,
    )
    given = {key: _frozen(value) for key, value in given.items()}
    return dataclasses.replace(cell, **given)


def _frozen(value):
    return frozenset(value) if isinstance(value, set) else value


def guest_cell(id=0, shared=(), dedicated=(), **given):
    """Return a guest node with 1 GiB; its policy is that of the CPUs it has."""
    policy = None
    if dedicated:
        policy = 'mixed' if shared else 'dedicated'
    given = {'memory': 1024, 'cpu_policy': policy, **given}
    return GuestCell(id, frozenset(shared), frozenset(dedicated), **given)


def guest(*cells, isolates_emulator=False):
    return Guest(cells, isolates_emulator)


def hosts(*cells):
    """Return host nodes, given by what is not as usual."""
    return [host_cell(id=n, **cell) for n, cell in enumerate(cells)]


def free(*counts):
    """Return host nodes with so many CPUs free, in that order."""
    cores = tuple((cpu,) for cpu in range(max(counts)))
    return hosts(
        *({'cores': cores, 'pinned_cpus': set(range(n, max(counts)))} for n in counts)
    )


def wants(*counts, **given):
    """Return a guest whose nodes have so many dedicated CPUs."""
    return guest(
        *(guest_cell(n, dedicated=range(c)) for n, c in enumerate(counts)), **given
    )


def fit(cells, guest, limits, devices, pack):
    """Fit a guest onto a host with some devices."""
    return fit_each(cells, guest, limits, [devices], pack)[0]


class FakeDevices:
    """Devices that are on some nodes and support a guest on some of them."""

    def __init__(self, by_node=(), supported=(), wanted=True):
        self.wanted = wanted
        self.by_node = dict(by_node)
        self.supported = [frozenset(nodes) for nodes in supported]
        self.asked = []

    def on_cell(self, cell_id):
        return self.by_node.get(cell_id, 0)

    def supports(self, nodes):
        self.asked.append(nodes)
        return nodes in self.supported

    def cell_class(self, cell_id):
        return cell_id

    def why(self, nodes):
        return Reason(Code.PCI_DEVICES_MISSING, f'no devices near {sorted(nodes)}')

    def elsewhere(self, nodes):
        return {node: n for node, n in self.by_node.items() if node not in nodes}
