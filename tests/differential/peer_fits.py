# SPDX-License-Identifier: Apache-2.0
"""Fit guests onto hosts with the peer's own classes; run by the peer's Python.

Reads one JSON line ``{"fits": [...]}`` and writes one ``{"answers": [...]}``, until
its input ends; the first line that it writes is its version. Only what a plugin
author may call is called: host states, the two filters and objects.
"""

import gc
import importlib.metadata
import json
import logging
import sys
import warnings

warnings.simplefilter('ignore')

import nova.conf  # noqa: E402
from nova import objects  # noqa: E402
from nova.scheduler import filters, host_manager  # noqa: E402

CONF = nova.conf.CONF
CELL = '00000000-0000-4000-8000-000000000001'
INSTANCE = '00000000-0000-4000-8000-000000000002'
FILTERS = {cls.__name__: cls() for cls in filters.all_filters()}
PCI, NUMA = FILTERS['PciPassthroughFilter'], FILTERS['NUMATopologyFilter']


class Problems(logging.Handler):
    """Keeps the exceptions that host states swallowed and warned of."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.kept = []

    def emit(self, record):
        problem = isinstance(record.args, dict) and record.args.get('error')
        if isinstance(problem, Exception):
            self.kept.append(type(problem).__name__)

    def taken(self):
        """Return the name of the last one, or None, and forget it."""
        found, self.kept = self.kept[-1:], []
        return found[0] if found else None


PROBLEMS = Problems()


def parsed(cls, primitive):
    return None if primitive is None else cls.obj_from_primitive(primitive)


def host_of(case, limits):
    """Return the host of a case; its ratios and candidates are those of the case."""
    topology, ratios = case['host_numa_topology'], {}
    for name in ('cpu', 'ram'):
        given = limits and getattr(limits, f'{name}_allocation_ratio')
        ratios[f'{name}_allocation_ratio'] = given or 1.0
    state = host_manager.HostState('h1', 'n1', CELL)
    node = objects.ComputeNode(
        uuid=INSTANCE,
        host='h1',
        hypervisor_hostname='n1',
        memory_mb=1 << 20,
        free_ram_mb=1 << 20,
        local_gb=1000,
        local_gb_used=0,
        free_disk_gb=1000,
        disk_available_least=None,
        vcpus=64,
        vcpus_used=0,
        numa_topology=topology and json.dumps(topology),
        pci_device_pools=parsed(objects.PciDevicePoolList, case['host_pci_stats']),
        host_ip=None,
        hypervisor_type='QEMU',
        hypervisor_version=8002002,
        cpu_info=None,
        metrics=None,
        stats={},
        disk_allocation_ratio=1.0,
        updated_at=None,
        supported_hv_specs=[],
        **ratios,
    )
    state.update(compute=node, service={}, aggregates=[], inst_dict={})
    state.allocation_candidates = [
        {'number': number, 'allocations': {}, **candidate}
        for number, candidate in enumerate(case['allocation_candidates'])
    ]
    return state


def request_of(case, limits):
    groups = [name for name in case['allocation_candidates'][0]['mappings'] if name]
    made = objects.RequestSpec(
        flavor=objects.Flavor(
            id=1,
            name='small',
            flavorid='1',
            vcpus=1,
            memory_mb=512,
            root_gb=1,
            ephemeral_gb=0,
            swap=0,
            extra_specs=case['flavor_extra_specs'],
        ),
        image=objects.ImageMeta.from_dict({'properties': case['image_properties']}),
        instance_uuid=INSTANCE,
        numa_topology=parsed(
            objects.InstanceNUMATopology, case['instance_numa_topology']
        ),
        pci_requests=parsed(objects.InstancePCIRequests, case['pci_requests']),
        requested_resources=[
            objects.RequestGroup(requester_id=name) for name in groups
        ],
        instance_group=None,
        scheduler_hints={},
        num_instances=1,
    )
    if limits and 'network_metadata' in limits:
        made.network_metadata = limits.network_metadata
    return made


def filtered(state, spec, used):
    """Return what filters leave of a host, or the name of what one raised."""
    try:
        passes = all(bool(list(one.filter_all([state], spec))) for one in used)
    except Exception as problem:  # noqa: BLE001
        return {'passes': False, 'candidates': [], 'error': type(problem).__name__}
    left = [one['number'] for one in state.allocation_candidates] if passes else []
    return {'passes': passes, 'candidates': left, 'error': None}


def consumed(state, spec):
    """Let a host have an instance; return what a case says of that, and the guest."""
    candidate = state.allocation_candidates[0]
    for group in spec.requested_resources:
        group.provider_uuids = candidate['mappings'][group.requester_id]
    wanted = spec.numa_topology
    state.consume_from_request(spec)
    entry = {
        'candidate': candidate['number'],
        'error': PROBLEMS.taken(),
        'request_topology_cleared': bool(wanted) and spec.numa_topology is None,
        'numa_cells': state.numa_topology
        and [cell_of(cell) for cell in state.numa_topology.cells],
        'pci_pools': [dict(pool) for pool in state.pci_stats.pools],
    }
    return entry, guest_of(spec.numa_topology, state.numa_topology)


def cell_of(cell):
    return {
        'id': cell.id,
        'cpu_usage': cell.cpu_usage,
        'memory_usage': cell.memory_usage,
        'pinned_cpus': sorted(cell.pinned_cpus),
        'pinned_per_core': [len(core & cell.pinned_cpus) for core in cell.siblings],
        'mempages': [
            {name: getattr(pages, name) for name in pages.fields}
            for pages in cell.mempages
        ],
    }


def guest_of(topology, hosts):
    """Return the nodes of a guest as cases do, each CPU with its core."""
    if topology is None:
        return None
    cores = {cell.id: list(cell.siblings) for cell in hosts.cells} if hosts else {}
    return [node_of(cell, cores.get(cell.id, ())) for cell in topology.cells]


def node_of(cell, cores):
    def core(cpu):
        return next((n for n, core in enumerate(cores) if cpu in core), None)

    pinning, reserved = cell.cpu_pinning_raw, cell.cpuset_reserved
    return {
        'host_cell': cell.id,
        'memory': cell.memory,
        'pagesize': cell.pagesize,
        'cpuset': sorted(cell.cpuset),
        'pcpuset': sorted(cell.pcpuset),
        'cpu_pinning': pinning and {str(vcpu): cpu for vcpu, cpu in pinning.items()},
        'cpu_pinning_core': pinning
        and {str(vcpu): core(cpu) for vcpu, cpu in pinning.items()},
        'cpuset_reserved': reserved and sorted(reserved),
        'cpuset_reserved_core': reserved and [core(cpu) for cpu in sorted(reserved)],
    }


def filters_of(case, limits, both):
    """Return what the filters say, each alone and one after the other."""
    pci = filtered(host_of(case, limits), request_of(case, limits), [PCI])
    numa = both
    if len(pci['candidates']) < len(case['allocation_candidates']):
        # Otherwise it found everything as it would have alone.
        numa = filtered(host_of(case, limits), request_of(case, limits), [NUMA])
    return {'PciPassthroughFilter': pci, 'NUMATopologyFilter': numa, 'both': both}


def sequence_of(case, limits):
    """Return what became of each instance of a request; the first refused is last."""
    state, spec = host_of(case, limits), request_of(case, limits)
    found = []
    for _ in range(case.get('repeat', 1)):
        entry = {'passes': True, 'candidates': [0], 'error': None}
        if limits:
            entry = filtered(state, spec, [PCI, NUMA])
        found.append({**entry, 'consume': None, 'guest': None})
        if not entry['passes']:
            break
        found[-1]['consume'], found[-1]['guest'] = consumed(state, spec)
    return found


def fit_of(case, limits):
    """Return the fit with the first candidate, whatever the filters say."""
    state, spec = host_of(case, limits), request_of(case, limits)
    if state.numa_topology is None or spec.numa_topology is None:
        return None
    if not state.numa_topology:
        return {'fits': False, 'error': None, 'cells': None}
    if limits:
        state.limits['numa_topology'] = limits
    entry, guest = consumed(state, spec)
    fits = not entry['request_topology_cleared']
    return {'fits': fits, 'error': None, 'cells': guest if fits else None}


def answer(case):
    limits = parsed(objects.NUMATopologyLimits, case['limits'])
    pack = case['config']['packing_host_numa_cells_allocation_strategy']
    CONF.set_override('packing_host_numa_cells_allocation_strategy', pack, 'compute')
    sequence = sequence_of(case, limits)
    both = {name: sequence[0][name] for name in ('passes', 'candidates', 'error')}
    return {
        'filters': filters_of(case, limits, both) if limits else None,
        'sequence': sequence,
        **({'fit': fit_of(case, limits)} if case.get('tell_fit') else {}),
    }


def write(message):
    sys.stdout.write(json.dumps(message) + '\n')
    sys.stdout.flush()


def main():
    logging.getLogger().setLevel(logging.CRITICAL)
    warned = logging.getLogger('nova.scheduler.host_manager')
    warned.addHandler(PROBLEMS)
    warned.setLevel(logging.WARNING)
    warned.propagate = False
    CONF([], project='nova', default_config_files=[])
    CONF.set_override('track_instance_changes', False, 'filter_scheduler')
    objects.register_all()
    gc.freeze()  # much was imported, for good
    write({'version': importlib.metadata.version('nova')})
    for line in sys.stdin:
        write({'answers': [answer(case) for case in json.loads(line)['fits']]})


if __name__ == '__main__':
    main()
