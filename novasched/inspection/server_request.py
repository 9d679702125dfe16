# SPDX-License-Identifier: Apache-2.0
"""Request specs of servers that are new, or move.

Nova: objects/request_spec.py, from_components; virt/hardware.py,
numa_get_constraints.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from novasched import errors, parsing
from novasched.inspection.pci_aliases import PciAliases
from novasched.objects.flavor import Flavor
from novasched.objects.image_meta import ImageMeta
from novasched.objects.instance_group import InstanceGroup
from novasched.objects.network import NetworkRequestList
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.objects.request_spec import (
    CellMapping,
    Destination,
    RequestSpec,
    SecurityGroupList,
)
from novasched.resources.cpu import cpus_in, every_cpu

NO_ALIASES = PciAliases()
PAGE_WORDS = {'small': -1, 'large': -2, 'any': -3}
UNITS_KIB = {'KB': 1, 'MB': 1024, 'GB': 1024**2}


def request_spec(
    uuid: str,
    flavor: Flavor,
    image: Mapping[str, Any] | None,
    *,
    project_id: str | None,
    user_id: str | None,
    num_instances: int = 1,
    availability_zone: str | None = None,
    hints: Mapping[str, Sequence[str]] | None = None,
    group: InstanceGroup | None = None,
    aliases: PciAliases = NO_ALIASES,
) -> RequestSpec:
    """Return the request to place an instance; every field is set.

    ``image`` has an id and properties, None: it boots from a volume. A zone may be
    ``zone:host`` or ``zone:host:node``, which forces it there. Raises
    errors.InvalidDemand.
    """
    zone, _, place = (availability_zone or '').partition(':')
    host, _, node = place.partition(':')
    unset = ('ignore_hosts', 'requested_destination', 'retry', 'limits')
    made = RequestSpec(
        flavor=flavor,
        image=ImageMeta.from_dict(dict(image or {})),
        is_bfv=image is None,
        instance_uuid=uuid,
        project_id=project_id,
        user_id=user_id,
        num_instances=num_instances,
        availability_zone=zone or None,
        force_hosts=[host] if host else None,
        force_nodes=[node] if node else None,
        instance_group=group,
        scheduler_hints={name: list(values) for name, values in (hints or {}).items()},
        security_groups=SecurityGroupList(objects=[]),
        requested_networks=NetworkRequestList(objects=[]),
        requested_resources=[],
        numa_topology=None,
        pci_requests=None,
        **dict.fromkeys(unset),
    )
    topology, devices = numa_topology_of(made), aliases.requests_of(made)
    made.assign(numa_topology=topology, pci_requests=devices)
    made.obj_reset_changes(recursive=True)
    return made


def destined(request: RequestSpec, host: str) -> RequestSpec:
    """Return a request that must end on a host, after its filters have agreed."""
    to = Destination(host=host, node=None)
    to.obj_reset_changes()
    return request.replaced(requested_destination=to)


def moved(
    request: RequestSpec,
    *,
    flavor: Flavor,
    project_id: str | None,
    user_id: str | None,
    cell: tuple[str, str | None],
    leaves: Sequence[str],
    host: str | None = None,
) -> RequestSpec:
    """Return the request to move the instance that a request was kept for.

    It stays in its ``cell``, a uuid and a name; ``leaves`` are the hosts that it must
    not go to, ``host`` is where it must go. Nova: conductor/tasks/migrate.py.
    """
    uuid, name = cell
    to = {'host': host, 'node': None} if host is not None else {}
    return request.replaced(
        flavor=flavor,
        project_id=project_id,
        user_id=user_id,
        num_instances=1,
        force_hosts=None,
        force_nodes=None,
        retry=None,
        ignore_hosts=list(leaves),
        requested_destination=Destination(
            cell=CellMapping(uuid=uuid, name=name), allow_cross_cell_move=False, **to
        ),
    )


def grouped(
    request: RequestSpec, group: InstanceGroup, hosts: Iterable[str]
) -> RequestSpec:
    """Return the request with its server group, whose members are on these hosts.

    Nova: scheduler/utils.py, setup_instance_group.
    """
    policies = [group.policy] if group.policy else []
    made = group.replaced(policies=policies, hosts=sorted(hosts))
    return request.replaced(instance_group=made)


def numa_topology_of(request: RequestSpec) -> InstanceNUMATopology | None:
    """Return the NUMA cells of an instance; None where none are asked for.

    Raises errors.InvalidDemand for demands that do not fit the flavor.
    """
    count, pages = _asked(request, 'numa_nodes'), _page_size(request)
    policy = _asked(request, 'cpu_policy')
    if policy is None and request.extra_specs.get('resources:PCPU'):
        shared = request.extra_specs.get('resources:VCPU', '0') != '0'
        policy = 'mixed' if shared else 'dedicated'
    if count is None and pages is None and policy not in ('dedicated', 'mixed'):
        return None
    nodes = _number('hw:numa_nodes', count or '1')
    if nodes < 1 or nodes > request.vcpus:
        raise errors.InvalidDemand(f'{nodes} NUMA nodes for {request.vcpus} vCPUs')
    if nodes > parsing.MOST_NODES:
        most = parsing.MOST_NODES
        raise errors.InvalidDemand(f'{nodes} NUMA nodes: there may be {most} at most')
    own = _dedicated(request, policy)
    cells = [
        InstanceNUMACell.made_of(
            id=number,
            cpuset=cpus - own,
            pcpuset=cpus & own,
            memory=memory,
            pagesize=pages,
            cpu_policy=policy,
            cpu_thread_policy=_asked(request, 'cpu_thread_policy') if own else None,
        )
        for number, (cpus, memory) in enumerate(_shares(request, nodes))
    ]
    emulator = request.extra_specs.get('hw:emulator_threads_policy')
    made = InstanceNUMATopology.made_of(cells=cells, emulator_threads_policy=emulator)
    made.obj_reset_changes(recursive=True)
    return made


def _asked(request: RequestSpec, name: str) -> str | None:
    """Return the value of the flavor, or else of the image."""
    found = request.extra_specs.get(f'hw:{name}')
    if found is None:
        found = request.image_properties.get(f'hw_{name}')
    return None if found is None else str(found)


def _number(name: str, text: str) -> int:
    try:
        return parsing.whole_number(text)
    except ValueError:
        problem = f'{name} is {text!r:.200}, not a number of {parsing.MOST_BITS} bits'
        raise errors.InvalidDemand(problem) from None


def _dedicated(request: RequestSpec, policy: str | None) -> set[int]:
    """Return the vCPUs that get a CPU of their own."""
    if policy == 'dedicated':
        return every_cpu(request.vcpus)
    if policy != 'mixed':
        return set()
    mask = request.extra_specs.get('hw:cpu_dedicated_mask')
    mask = mask or _asked(request, 'cpu_realtime_mask')
    if not mask:
        raise errors.InvalidDemand('hw:cpu_policy mixed needs hw:cpu_dedicated_mask')
    return cpus_in(mask, request.vcpus)


def _page_size(request: RequestSpec) -> int | None:
    """Return the size of the memory pages in KiB, or what stands for a word."""
    text = _asked(request, 'mem_page_size')
    if text is None:
        return None
    if text.lower() in PAGE_WORDS:
        return PAGE_WORDS[text.lower()]
    unit = next((unit for unit in UNITS_KIB if text.upper().endswith(unit)), '')
    number = _number('hw:mem_page_size', text.upper().removesuffix(unit))
    return _number('hw:mem_page_size', str(number * UNITS_KIB.get(unit, 1)))


def _shares(request: RequestSpec, nodes: int) -> list[tuple[set[int], int]]:
    """Return the vCPUs and the memory of each node, in MiB.

    As the flavor says for each, or else equal runs of the whole.
    """
    specs, vcpus = request.extra_specs, request.vcpus
    if 'hw:numa_cpus.0' not in specs:
        if vcpus % nodes or request.memory_mb % nodes:
            raise errors.InvalidDemand(f'the flavor has no {nodes} equal parts')
        width, memory = vcpus // nodes, request.memory_mb // nodes
        firsts = range(0, vcpus, width)
        return [(set(range(first, first + width)), memory) for first in firsts]
    named = parsing.NamedCPUs()
    found = [
        (
            cpus_in(specs.get(f'hw:numa_cpus.{number}', ''), vcpus, named),
            _number('hw:numa_mem', specs.get(f'hw:numa_mem.{number}', '0')),
        )
        for number in range(nodes)
    ]
    if sorted(cpu for cpus, _ in found for cpu in cpus) != list(range(vcpus)):
        raise errors.InvalidDemand('hw:numa_cpus does not name each vCPU once')
    if sum(memory for _, memory in found) != request.memory_mb:
        raise errors.InvalidDemand('hw:numa_mem does not add up to the memory')
    return found
