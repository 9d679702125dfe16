# SPDX-License-Identifier: Apache-2.0
"""Fit guests onto hosts with our own filters and booking."""

from __future__ import annotations

from typing import Any, NamedTuple

from novasched.releases import NEWEST
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.fit.requirements import guest_of
from novasched.scheduler.hosts import consume
from tests.golden.numa_pci.test_numa_pci_hosts import (
    cells_of,
    filtered,
    fitting_of,
    host_of,
    left,
    request_of,
)


class Found(NamedTuple):
    """What an instance found: the host before it came, and its candidate."""

    host: Any
    candidate: Any


def answers(case, *modes, release=NEWEST):
    """Return of each mode what the peer returns, and what each placed instance found.

    A mode is a choice of ``[novasched] numa_compat``.
    """
    hosts, request = host_of(case), request_of(case)
    fittings = [fitting_of(case, mode).of_release(release) for mode in modes]
    return [_answer(case, hosts, request, fitting) for fitting in fittings]


def _answer(case, hosts, request, fitting):
    pci, numa = PciPassthroughFilter(), NUMATopologyFilter(fitting)
    filters = None
    if case['limits']:
        filters = {
            'PciPassthroughFilter': left(filtered(hosts, request, [pci])),
            'NUMATopologyFilter': left(filtered(hosts, request, [numa])),
            'both': left(filtered(hosts, request, [pci, numa])),
        }
    used = [pci, numa] if case['limits'] else []
    sequence, everyone = _sequence(case, hosts, request, used, fitting)
    return {'filters': filters, 'sequence': sequence}, everyone


def _sequence(case, hosts, request, filters, fitting):
    """Return what became of each instance of a request; the first refused is last."""
    sequence, everyone = [], []
    for _ in range(case.get('repeat', 1)):
        entry = {'passes': True, 'candidates': [0]}
        if filters:
            hosts = filtered(hosts, request, filters)
            entry = left(hosts)
        sequence.append({**entry, 'consume': None, 'guest': None})
        if not entry['passes']:
            break
        host = hosts.state(0)
        candidate = host.allocation_candidates[0]
        everyone.append(Found(host, candidate))
        request = request.with_providers(candidate)
        hosts, topology = _booked(hosts, request, fitting, sequence[-1])
        if fitting.as_nova:
            request = request.replaced(numa_topology=topology)
    return sequence, everyone


def _booked(hosts, request, fitting, entry):
    """Let a host have an instance; write into ``entry`` what came of it."""
    booked = book(consume(hosts, 0, request), 0, request, fitting)
    problem = booked.problem
    host = booked.hosts.state(0)
    entry['consume'] = {
        'candidate': entry['candidates'][0],
        'error': problem and getattr(problem, 'error', type(problem).__name__),
        'request_topology_cleared': bool(request.numa_topology)
        and booked.topology is None,
        'numa_cells': host.numa_topology and cells_of(host.numa_topology),
        'pci_pools': host.pci_stats.pools,
    }
    entry['guest'] = _guest(booked.topology, host.numa_topology)
    return booked.hosts, booked.topology


def _guest(topology, host):
    """Return fitted nodes as the peer does, each CPU with its core."""
    if topology is None:
        return None
    cores = {cell.id: cell.siblings for cell in host.cells} if host else {}
    return [_node(cell, cores.get(cell.id, ())) for cell in guest_of(topology).cells]


def _node(cell, cores):
    def core(cpu):
        return next((n for n, core in enumerate(cores) if cpu in core), None)

    return {
        'host_cell': cell.id,
        'memory': cell.memory,
        'pagesize': cell.pagesize,
        'cpuset': sorted(cell.cpuset),
        'pcpuset': sorted(cell.pcpuset),
        'cpu_pinning': cell.pinning and {str(vcpu): cpu for vcpu, cpu in cell.pinning},
        'cpu_pinning_core': cell.pinning
        and {str(vcpu): core(cpu) for vcpu, cpu in cell.pinning},
        'cpuset_reserved': cell.reserved and sorted(cell.reserved),
        'cpuset_reserved_core': cell.reserved
        and [core(cpu) for cpu in sorted(cell.reserved)],
    }
