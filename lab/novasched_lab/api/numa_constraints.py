# SPDX-License-Identifier: Apache-2.0
"""NUMA constraints: the cells that a flavor and an image give to an instance.

Nova: virt/hardware.py, numa_get_constraints.
"""

from __future__ import annotations

from novasched import errors
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.resources.cpu import cpus_in

PAGE_WORDS = {'small': -1, 'large': -2, 'any': -3}
UNITS_KIB = {'KB': 1, 'MB': 1024, 'GB': 1024**2}


def topology_of(request: RequestSpec) -> InstanceNUMATopology | None:
    """Return the NUMA cells of an instance; None where none are asked for.

    Raises errors.InvalidDemand for demands that do not fit the flavor.
    """
    count, pages = _of(request, 'numa_nodes'), _pages(request)
    policy = _policy(request)
    if count is None and pages is None and policy not in ('dedicated', 'mixed'):
        return None
    nodes = _number('hw:numa_nodes', count or '1')
    if nodes < 1 or nodes > request.vcpus:
        raise errors.InvalidDemand(f'{nodes} NUMA nodes for {request.vcpus} vCPUs')
    own = _dedicated(request, policy)
    cells = [
        InstanceNUMACell(
            id=number,
            cpuset=cpus - own,
            pcpuset=cpus & own,
            memory=memory,
            pagesize=pages,
            cpu_policy=policy,
            cpu_thread_policy=_of(request, 'cpu_thread_policy') if own else None,
        )
        for number, (cpus, memory) in enumerate(_shares(request, nodes))
    ]
    emulator = request.extra_specs.get('hw:emulator_threads_policy')
    made = InstanceNUMATopology(cells=cells, emulator_threads_policy=emulator)
    made.obj_reset_changes(recursive=True)
    return made


def _of(request: RequestSpec, name: str) -> str | None:
    """Return what the flavor says, or else the image."""
    found = request.extra_specs.get(f'hw:{name}')
    if found is None:
        found = request.image_properties.get(f'hw_{name}')
    return None if found is None else str(found)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.InvalidDemand(f'{name} is {text!r}, not a number') from None


def _policy(request: RequestSpec) -> str | None:
    policy = _of(request, 'cpu_policy')
    if policy is None and request.extra_specs.get('resources:PCPU'):
        shared = request.extra_specs.get('resources:VCPU', '0') != '0'
        return 'mixed' if shared else 'dedicated'
    return policy


def _dedicated(request: RequestSpec, policy: str | None) -> set[int]:
    """Return the vCPUs that get a CPU of their own."""
    if policy == 'dedicated':
        return set(range(request.vcpus))
    if policy != 'mixed':
        return set()
    mask = request.extra_specs.get('hw:cpu_dedicated_mask')
    mask = mask or _of(request, 'cpu_realtime_mask')
    if not mask:
        raise errors.InvalidDemand('hw:cpu_policy mixed needs hw:cpu_dedicated_mask')
    return cpus_in(mask, request.vcpus)


def _pages(request: RequestSpec) -> int | None:
    """Return the size of the memory pages in KiB, or what stands for a word."""
    text = _of(request, 'mem_page_size')
    if text is None:
        return None
    if text.lower() in PAGE_WORDS:
        return PAGE_WORDS[text.lower()]
    unit = next((unit for unit in UNITS_KIB if text.upper().endswith(unit)), None)
    if unit is None:
        return _number('hw:mem_page_size', text)
    return _number('hw:mem_page_size', text[: -len(unit)]) * UNITS_KIB[unit]


def _shares(request: RequestSpec, nodes: int) -> list[tuple[set[int], int]]:
    """Return the vCPUs and the memory of each node, in MiB.

    As the flavor says for each, or else equal runs of the whole.
    """
    specs = request.extra_specs
    if 'hw:numa_cpus.0' in specs:
        found = [
            (
                cpus_in(specs.get(f'hw:numa_cpus.{number}', ''), request.vcpus),
                _number('hw:numa_mem', specs.get(f'hw:numa_mem.{number}', '0')),
            )
            for number in range(nodes)
        ]
        whole = [cpu for cpus, _ in found for cpu in cpus]
        if sorted(whole) != list(range(request.vcpus)):
            raise errors.InvalidDemand('hw:numa_cpus does not name each vCPU once')
        if sum(memory for _, memory in found) != request.memory_mb:
            raise errors.InvalidDemand('hw:numa_mem does not add up to the memory')
        return found
    if request.vcpus % nodes or request.memory_mb % nodes:
        raise errors.InvalidDemand(f'the flavor has no {nodes} equal api')
    width, memory = request.vcpus // nodes, request.memory_mb // nodes
    return [
        (set(range(number * width, (number + 1) * width)), memory)
        for number in range(nodes)
    ]
