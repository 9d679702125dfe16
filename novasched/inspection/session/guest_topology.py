# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of a guest, as flavor and image ask for them; and what nova's API refuses.

Nova: virt/hardware.py, numa_get_constraints.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, NamedTuple

from oslo_utils import strutils

from novasched import errors, parsing
from novasched.objects.numa import InstanceNUMACell, InstanceNUMATopology
from novasched.objects.request_spec import RequestSpec
from novasched.resources import cpu
from novasched.resources.features import persistent_memory

PAGE_WORDS = {'small': -1, 'large': -2, 'any': -3}
THREADS_BY_TRAIT = {'required': 'require', 'forbidden': 'isolate'}
_AMOUNT = re.compile(r'resources\d*:([VP]CPU)')
_THREADS_TRAIT = re.compile(r'trait\d*:HW_CPU_HYPERTHREADING')


class _GuestCPUs(NamedTuple):
    """The policies of an instance, and its guest CPUs with a host CPU of their own."""

    policy: str | None
    threads: str | None
    emulator: str | None
    dedicated: set[int]


def numa_topology_of(request: RequestSpec) -> InstanceNUMATopology | None:
    """Return the NUMA cells of an instance; None where none are asked for.

    Raises errors.InvalidDemand, in nova's words, for demands that do not go together
    or do not fit the flavor.
    """
    text = _alone(request, 'numa_nodes', request.extra_specs.get('hw:numa_nodes'))
    pages, cpus = _page_size(request), _cpus(request)
    if not (text or pages or cpus.dedicated or persistent_memory(request)):
        return None
    cells = [
        InstanceNUMACell.made_of(
            id=number,
            cpuset=own - cpus.dedicated,
            pcpuset=own & cpus.dedicated,
            memory=memory,
            pagesize=pages,
            cpu_policy=cpus.policy,
            cpu_thread_policy=cpus.threads,
        )
        for number, (own, memory) in enumerate(_shares(request, _nodes(text or '1')))
    ]
    made = InstanceNUMATopology.made_of(
        cells=cells, emulator_threads_policy=cpus.emulator
    )
    made.obj_reset_changes(recursive=True)
    return made


def _refuse(holds: object, words: str) -> None:
    """Raise errors.InvalidDemand with these words, if that holds."""
    if holds:
        raise errors.InvalidDemand(words)


def _alone(request: RequestSpec, name: str, of_flavor: Any) -> Any:
    """Return the value of the flavor, or else of the image; both may not have one."""
    of_image = request.image_properties.get(f'hw_{name}')
    _refuse(
        of_flavor and of_image,
        f"Image property 'hw_{name}' is not permitted to override NUMA "
        'configuration set against the flavor',
    )
    return of_flavor or of_image or ()


def _by_node(request: RequestSpec, name: str) -> Any:
    """Return the values for node 0, 1 and so on, up to a gap."""
    found: list[str] = []
    while (value := request.extra_specs.get(f'hw:{name}.{len(found)}')) is not None:
        found.append(value)
    return _alone(request, name, found)


def _number(name: str, text: Any) -> int:
    try:
        return parsing.whole_number(text)
    except ValueError:
        problem = f'{name} is {text!r:.200}, not a number of {parsing.MOST_BITS} bits'
        raise errors.InvalidDemand(problem) from None


def _nodes(text: Any) -> int:
    most = parsing.MOST_NODES
    is_number = str(text).isdecimal() and len(str(text)) < parsing.MOST_BITS
    number = int(text) if is_number else 0
    _refuse(
        number < 1,
        f"The property 'numa_nodes' cannot be '{text!s:.200}'. It must be a number "
        'greater than 0',
    )
    _refuse(number > most, f'{number} NUMA nodes: there may be {most} at most')
    return number


def _cpus(request: RequestSpec) -> _GuestCPUs:
    """Return the CPU policies, and check that they go together."""
    emulator = cpu.emulator_policy(request)
    policy, threads = _policy(request, emulator), _threads(request)
    masked, realtime = cpu.masked(request), cpu.realtime(request, emulator)
    pins = policy in ('dedicated', 'mixed')
    _refuse(
        realtime and not pins,
        'Cannot set realtime policy in a non dedicated cpu pinning policy',
    )
    _refuse(
        masked and policy != 'mixed',
        "Cannot specify 'hw:cpu_dedicated_mask' without the 'mixed' policy.",
    )
    _refuse(
        policy == 'mixed' and bool(masked) == bool(realtime),
        "Dedicated CPU set can be specified from either 'hw:cpu_dedicated_mask' or "
        "'hw:cpu_realtime_mask' when using 'mixed' CPU policy. "
        "'hw:cpu_dedicated_mask' and 'hw:cpu_realtime_mask' can not be specified "
        'at the same time, or be specified with none of them.',
    )
    _refuse(
        threads and not pins,
        'Cannot set cpu thread pinning policy in a non dedicated cpu pinning policy',
    )
    _refuse(
        emulator == 'isolate' and not pins,
        'An isolated CPU emulator threads option requires a dedicated CPU policy '
        'option.',
    )
    if policy == 'dedicated':
        return _GuestCPUs(policy, threads, emulator, cpu.every_cpu(request.vcpus))
    return _GuestCPUs(policy, threads, emulator, masked or realtime)


def _policy(request: RequestSpec, emulator: str | None) -> str | None:
    """Return the CPU policy, which amounts of VCPU or PCPU may say, too."""
    policy = cpu.cpu_policy(request)
    amounts: Counter[str] = Counter()
    for key, value in request.extra_specs.items():
        if (found := _AMOUNT.fullmatch(key)) and value.isdecimal():
            amounts[found[1]] += _number(key, value)
    if not any(amounts.values()):
        return policy
    isolated = emulator == 'isolate'
    _refuse(
        policy,
        "It is not possible to use the 'resources:VCPU' or 'resources:PCPU' extra "
        "specs in combination with the 'hw:cpu_policy' extra spec or "
        "'hw_cpu_policy' image metadata property; use one or the other",
    )
    _refuse(
        amounts['VCPU'] and amounts['PCPU'],
        "It is not possible to specify both 'resources:VCPU' and 'resources:PCPU' "
        'extra specs; use one or the other',
    )
    _refuse(
        isolated and amounts['PCPU'] not in (0, request.vcpus + 1),
        "You have requested 'hw:emulator_threads_policy=isolate' but have not "
        'requested sufficient PCPUs to handle this policy; you must allocate '
        'exactly flavor.vcpus + 1 PCPUs.',
    )
    _refuse(
        not isolated and amounts['PCPU'] not in (0, request.vcpus),
        'There is a mismatch between the number of PCPUs requested via '
        "'resourcesNN:PCPU' and the flavor); you must allocate exactly "
        'flavor.vcpus PCPUs',
    )
    return 'dedicated' if amounts['PCPU'] else 'shared'


def _threads(request: RequestSpec) -> str | None:
    """Return the thread policy, which a trait may say, too."""
    said = cpu.thread_policy(request) or None
    specs = request.extra_specs
    trait = next((specs[key] for key in specs if _THREADS_TRAIT.fullmatch(key)), None)
    if 'HW_CPU_HYPERTHREADING' in request.image_properties.get('traits_required', ()):
        trait = trait or 'required'
    _refuse(
        said and trait in THREADS_BY_TRAIT,
        "It is not possible to use the 'trait:HW_CPU_HYPERTHREADING' extra spec in "
        "combination with the 'hw:cpu_thread_policy' extra spec or "
        "'hw_cpu_thread_policy' image metadata property; use one or the other",
    )
    return THREADS_BY_TRAIT.get(trait or '', said)


def _page_size(request: RequestSpec) -> int | None:
    """Return the size of the memory pages in KiB, or what stands for a word.

    The image may choose where the flavor says ``large`` or ``any``.
    """
    text = request.extra_specs.get('hw:mem_page_size')
    of_image = request.image_properties.get('hw_mem_page_size')
    size = _pages(text) if text else None
    if not of_image:
        return size or None
    _refuse(
        size not in (PAGE_WORDS['large'], PAGE_WORDS['any']),
        f"Page size {of_image} forbidden against '{text or '<empty>'}'",
    )
    return _pages(of_image)


def _pages(text: str) -> int:
    if text in PAGE_WORDS:
        return PAGE_WORDS[text]
    try:
        if text.isdecimal():
            return parsing.whole_number(text)
        number = strutils.string_to_bytes(text, return_int=True) // 1024
        return parsing.whole_number(str(number))
    except (ValueError, OverflowError):
        words = f"Invalid memory page size '{text:.200}'"
        raise errors.InvalidDemand(words) from None


def _shares(request: RequestSpec, nodes: int) -> list[tuple[set[int], int]]:
    """Return the vCPUs and the memory of each node, in MiB.

    As flavor and image say for each, or else equal runs of the whole.
    """
    cpus, memory = _by_node(request, 'numa_cpus'), _by_node(request, 'numa_mem')
    vcpus, total = request.vcpus, request.memory_mb
    if not cpus and not memory:
        _refuse(
            vcpus % nodes or total % nodes,
            'Instance CPUs and/or memory cannot be evenly distributed across '
            'instance NUMA nodes. Explicit assignment of CPUs and memory to nodes '
            'is required',
        )
        width = vcpus // nodes
        firsts = range(0, vcpus, width)
        return [(set(range(each, each + width)), total // nodes) for each in firsts]
    _refuse(
        not len(cpus) == len(memory) == nodes,
        'CPU and memory allocation must be provided for all NUMA nodes',
    )
    named = parsing.NamedCPUs()
    sets = [
        cpu.cpus_in(each, 0, named) if isinstance(each, str) else set(each)
        for each in cpus
    ]
    sizes = [_number('hw:numa_mem', each) for each in memory]
    if sorted(each for cpus in sets for each in cpus) != list(range(vcpus)):
        raise errors.InvalidDemand('hw:numa_cpus does not name each vCPU once')
    if sum(sizes) != total:
        raise errors.InvalidDemand('hw:numa_mem does not add up to the memory')
    return list(zip(sets, sizes, strict=True))
