# SPDX-License-Identifier: Apache-2.0
"""Sentences on blockers and reasons, and advice for each.

docs/reference/reasons.md is made of these tables.
"""

from __future__ import annotations

from collections.abc import Mapping

from novasched.decisions.body import DiagnosisReason
from novasched.scheduler.reasons import Blocker, Code

BLOCKERS: dict[str, str] = {
    Blocker.PREFILTER: 'Change the flavor, image or request as the error says.',
    Blocker.NAMED_HOST: 'Check the spelling, that its nova-compute has started once, '
    'and that it is mapped to a cell: novasched-manage cell_v2 discover_hosts.',
    Blocker.PLACEMENT_FAILED: 'Look at the log of placement, and at [placement] of '
    'the scheduler. An unknown trait or resource class in the answer is one of the '
    'flavor or image.',
    Blocker.NO_CANDIDATES: 'Free or add what is missing most often, or ask for less.',
    Blocker.UNKNOWN_HOSTS: 'Look for cells that are left out, and for hosts that are '
    'mapped to no cell: novasched-manage cell_v2 discover_hosts. Else these are '
    'resource providers of computes that are gone.',
    Blocker.FILTERS: 'Change what the filter that took the last host complains of.',
    Blocker.CLAIMS: 'Try again: other requests took them meanwhile. If it happens '
    'often, see [filter_scheduler] host_subset_size.',
    Blocker.CALLER_GONE: 'Look for a conductor that was stopped, and for requests '
    'that take longer than [DEFAULT] rpc_response_timeout.',
    Blocker.PLUGIN: 'See the log of the scheduler at this time; correct or disable '
    'the plugin.',
    Blocker.STORE: 'Check that the database runs and that the scheduler reaches it: '
    '/health names the one that fails.',
    Blocker.ERROR: 'See the log of the scheduler at this time, and report it as a '
    'defect.',
}
"""Advice on blockers."""

HELD_BEFORE = (
    'Look at what the server holds: openstack resource provider allocation show {}. If '
    'it was left behind, delete it and try again: openstack resource provider '
    'allocation delete {}.'
)
"""Advice where a server that was to be claimed for had allocations already."""

ADVICE: dict[str, str] = {
    Code.REJECTED: 'Read the page of this filter, and compare the host with the '
    'request.',
    Code.NOT_ASKED: 'Ask one of these hosts: novasched why-not HOST.',
    Code.NOT_NAMED: 'Name another host, or none.',
    Code.UNKNOWN_HOST: 'Map the host to its cell, bring its cell back, or delete the '
    'resource provider that was left behind.',
    Code.CELL_LEFT_OUT: 'Bring the database of the cell back, or the way to it: '
    'novasched-manage cell_v2 list_cells has its address. Its hosts count again as '
    'soon as it answers.',
    Code.DISABLED: 'Enable the compute service of a host: openstack compute service '
    'set --enable HOST nova-compute.',
    Code.NOT_IN_TREE: 'Name another host, or none.',
    Code.AGGREGATE_MISSING: 'Add hosts to the aggregate of the zone or project, in '
    'placement too, or ask for another zone.',
    Code.AGGREGATE_FORBIDDEN: 'Give flavor or image the trait that these aggregates '
    'isolate, or take hosts out of them.',
    Code.TRAIT_MISSING: 'Take the trait out of flavor and image, or use hosts that '
    'have it.',
    Code.TRAIT_FORBIDDEN: 'Take the forbidden trait out of flavor and image, or use '
    'hosts without it.',
    Code.CLASS_MISSING: 'Take the resource class out of the flavor, or configure hosts '
    'to report it.',
    Code.AMOUNT_NOT_ALLOWED: 'Ask for an amount within min_unit, max_unit and '
    'step_size: most often a flavor larger than any host.',
    Code.EXHAUSTED: 'Free some of this resource class, add hosts, raise its allocation '
    'ratio, or use a smaller flavor.',
    Code.NOT_TOGETHER: 'Split the request into fewer groups of resources, or relax '
    'group_policy and same_subtree; else free what it needs at one provider.',
    Code.SERVICE_DISABLED: 'Enable the compute service: openstack compute service set '
    '--enable HOST nova-compute.',
    Code.SERVICE_FORCED_DOWN: 'Take the mark back once the host is repaired: openstack '
    'compute service set --up HOST nova-compute.',
    Code.SERVICE_DOWN: 'Start nova-compute on the host, and check its way to RabbitMQ '
    'and conductor.',
    Code.WRONG_ZONE: 'Ask for another zone or none, or add hosts to the zone.',
    Code.TRIED_BEFORE: 'Look at nova-compute on these hosts for why the build failed '
    'there.',
    Code.NOT_TRUSTED: 'Attest the host again, or ask for another level of trust.',
    Code.CAPABILITY_MISSING: 'Take the extra spec out of the flavor, or put it into '
    'the scope of aggregate_instance_extra_specs.',
    Code.CAPABILITY_DIFFERS: 'Change the extra spec of the flavor to what hosts '
    'report.',
    Code.METRIC_MISSING: 'Let nova-compute report the metric, or take it out of '
    '[metrics] weight_setting.',
    Code.QUERY_NOT_SATISFIED: 'Change or leave out the hint "query".',
    Code.WRONG_NETWORK: 'Change or leave out the hints build_near_host_ip and cidr.',
    Code.IMAGE_NOT_SUPPORTED: 'Change hw_architecture, img_hv_type or hw_vm_mode of '
    'the image, or use hosts that support them.',
    Code.HYPERVISOR_VERSION_DIFFERS: 'Change img_hv_requested_version of the image, or '
    'upgrade hypervisors.',
    Code.ADDRESS_TOO_NARROW: 'Ask for fewer physical address bits, or use hosts with '
    'more.',
    Code.IMAGE_PROPERTY_DIFFERS: 'Change the property of the image, or the metadata of '
    'the aggregate.',
    Code.EXTRA_SPEC_MISSING: 'Set the key on an aggregate of hosts, or take it out of '
    'the flavor.',
    Code.EXTRA_SPEC_DIFFERS: 'Make the value of the flavor that of an aggregate, or '
    'the reverse.',
    Code.PROJECT_NOT_ALLOWED: 'Add the project to filter_tenant_id of the aggregate, '
    'or hosts outside of it.',
    Code.FLAVOR_NOT_ALLOWED: 'Add the flavor to instance_type of the aggregate, or '
    'hosts outside of it.',
    Code.OTHER_FLAVOR_PRESENT: 'Empty a host of other flavors, or add an empty one.',
    Code.HOST_ISOLATED: 'Use an isolated image, or take the host out of '
    '[filter_scheduler] isolated_hosts.',
    Code.HOST_NOT_ISOLATED: 'Add hosts to [filter_scheduler] isolated_hosts, or take '
    'the image out of isolated_images.',
    Code.WRONG_POOL: 'Add hosts to the dedicated pool, or use another.',
    Code.GROUP_LIMIT: 'Add hosts, raise max_server_per_host of the group, or use '
    'soft-anti-affinity.',
    Code.NOT_IN_GROUP: 'Make room on the host of the group, or use soft-affinity.',
    Code.INSTANCE_PRESENT: 'Leave servers out of the hint different_host, or add '
    'hosts.',
    Code.INSTANCE_ABSENT: 'Make room on the hosts of the servers of the hint '
    'same_host, or leave it out.',
    Code.TOO_MANY_INSTANCES: 'Move servers away, or raise [filter_scheduler] '
    'max_instances_per_host.',
    Code.TOO_MANY_IO_OPS: 'Wait until builds, resizes and snapshots end, or raise '
    '[filter_scheduler] max_io_ops_per_host.',
    Code.NOT_ENOUGH_RAM: 'Free memory, add hosts, or use a smaller flavor.',
    Code.NOT_ENOUGH_CPUS: 'Free CPUs, add hosts, or use a smaller flavor.',
    Code.NOT_ENOUGH_DISK: 'Free disk, add hosts, boot from a volume, or use a smaller '
    'flavor.',
    Code.RAM_DIFFERS: 'Use a flavor with exactly the free memory of a host, or disable '
    'ExactRamFilter.',
    Code.CPUS_DIFFER: 'Use a flavor with exactly the free CPUs of a host, or disable '
    'ExactCoreFilter.',
    Code.DISK_DIFFERS: 'Use a flavor with exactly the free disk of a host, or disable '
    'ExactDiskFilter.',
    Code.LOCAL_DISK_MISSING: 'Use a flavor without local disks, or hosts that have '
    'them.',
    Code.LOCAL_DISK_DIFFERS: 'Ask for a type of local disk that hosts have.',
    Code.EXTRA_SPEC_INVALID: 'Correct the extra spec of the flavor.',
    Code.VGPU_MISSING: 'Free virtual GPUs, add hosts with some, or use a flavor '
    'without.',
    Code.VGPU_DIFFERS: 'Ask for a type of virtual GPU that hosts offer.',
    Code.PCI_DEVICES_MISSING: 'Free such devices, add hosts with some, or ask for '
    'fewer; check [pci] alias and device_spec.',
    Code.PCI_WRONG_NODE: 'Relax the NUMA policy of the PCI request to preferred, or '
    'free CPUs and memory beside the devices.',
    Code.PCI_KIND_DIFFERS: 'Set device_type in the PCI alias, or the vNIC type of the '
    'port, to the kind that is free.',
    Code.PCI_WRONG_PROVIDER: 'Try again; if it stays, restart nova-compute, which '
    'reports the devices to placement.',
    Code.PCI_PROVIDER_AMBIGUOUS: 'Give the devices of the host one resource class or '
    'trait each in [pci] device_spec.',
    Code.CANDIDATE_MISSING: 'See what other filters say of the host: they took its '
    'last candidate.',
    Code.NUMA_MISSING: 'Use a flavor without NUMA, pages or pinning, or hosts whose '
    'driver reports NUMA cells.',
    Code.THREADS_MISSING: 'Use hw:cpu_thread_policy=prefer or isolate, or hosts with '
    'hyperthreading.',
    Code.RATIO_UNKNOWN: 'Restart nova-compute on the host, so that it reports its '
    'allocation ratios.',
    Code.NUMA_DOES_NOT_FIT: 'Free a NUMA node of a host, or split the server over more '
    'nodes (hw:numa_nodes).',
    Code.NODES_MISSING: 'Use a flavor with fewer NUMA nodes (hw:numa_nodes), or hosts '
    'with more.',
    Code.NODES_CONTENDED: 'Free CPUs or memory on a second NUMA node of a host, or '
    'split the server over more or smaller nodes (hw:numa_nodes).',
    Code.NODE_DATA_MISSING: 'Restart or upgrade nova-compute on the host, so that it '
    'reports its NUMA topology whole.',
    Code.PAGE_SIZE_MISSING: 'Use a page size that hosts have (hw:mem_page_size), or '
    'reserve such pages at the start of the host.',
    Code.NOT_ENOUGH_PAGES: 'Free pages of this size on one NUMA node, reserve more, or '
    'split the server over two (hw:numa_nodes=2).',
    Code.NOT_ENOUGH_NODE_MEMORY: 'Free memory on one NUMA node, or split the server '
    'over two (hw:numa_nodes=2).',
    Code.NOT_ENOUGH_NODE_CPUS: 'Free CPUs on one NUMA node, or split the server over '
    'two (hw:numa_nodes=2).',
    Code.NOT_ENOUGH_DEDICATED_CPUS: 'Free dedicated CPUs on one NUMA node, give it '
    'more in [compute] cpu_dedicated_set, or split the server over two '
    '(hw:numa_nodes=2).',
    Code.THREADS_DO_NOT_FIT: 'Free whole cores, or relax hw:cpu_thread_policy to '
    'prefer.',
    Code.NETWORKS_ELSEWHERE: 'Free CPUs and memory on the NUMA nodes of the networks, '
    'or configure more nodes for them.',
}
"""Changes by which hosts that were rejected for a reason would fit."""


def advice_for(code: str) -> str:
    """Return the advice on a code; '' for one that is not known here."""
    return ADVICE.get(code, '')


OF_PLACE: Mapping[str, str] = {
    Code.NOT_IN_TREE: 'not the one that is named',
    Code.AGGREGATE_MISSING: 'not in aggregate {what}',
    Code.AGGREGATE_FORBIDDEN: 'in aggregate {what}, which is ruled out',
}
"""Where hosts are."""
LACKING: Mapping[str, str] = {
    Code.DISABLED: '{are} disabled',
    Code.TRAIT_MISSING: '{have} no trait {what}',
    Code.TRAIT_FORBIDDEN: '{have} the forbidden trait {what}',
    Code.CLASS_MISSING: '{have} no {what} at all',
}
"""What hosts lack; behind it stands an example."""


def sentence(reason: DiagnosisReason) -> str:
    """Return in plain words what hosts lack, by a reason of a placement diagnosis."""
    hosts, what, one = reason.hosts, reason.name, reason.hosts == 1
    example = f'{"" if one else "e.g. "}{reason.example}'
    are, have, give = ('is', 'has', 'gives') if one else ('are', 'have', 'give')
    if place := OF_PLACE.get(reason.code):
        return f'{hosts} {are} {place.format(what=what)}'
    if lack := LACKING.get(reason.code):
        return f'{hosts} {lack.format(are=are, have=have, what=what)} ({example})'
    wanted, largest = reason.wanted, reason.largest
    match reason.code:
        case Code.EXHAUSTED if wanted is not None:
            numbers = f'{wanted} wanted, at most {largest} on {reason.example}'
            return f'{hosts} {have} too little free {what} ({numbers})'
        case Code.AMOUNT_NOT_ALLOWED if reason.is_too_much:
            numbers = f'{wanted} wanted, {example}'
            return f'{hosts} {give} a server at most {largest} {what} ({numbers})'
    return f'{hosts} {reason.code} {what}'.rstrip() + f' ({example})'


def specific(reason: DiagnosisReason, has_zone: bool) -> str:
    """Return the advice, with names and numbers; '': the general advice must do.

    ``has_zone``: the request asks for a zone.
    """
    what, example, only = reason.name, reason.example, reason.only
    wanted, largest = reason.wanted, reason.largest
    match reason.code:
        case Code.DISABLED:
            others = f', or another of the {reason.hosts}' if reason.hosts > 1 else ''
            alone = '' if only else '; each of these hosts fails something else, too'
            return (
                f'Enable {example}{others}: openstack compute service set --enable '
                f'{example} nova-compute{alone}.'
            )
        case Code.AGGREGATE_MISSING:
            asked = 'ask for what has no such rule'
            if has_zone:
                asked = 'ask for another zone'
            if not only:
                return f'Each of these hosts fails something else, too: {asked}.'
            fails = 'hosts fail' if only > 1 else 'host fails'
            return (
                f'{only} {fails} nothing else (e.g. {example}): {asked}, or add '
                f'hosts to {what or "the aggregate"}.'
            )
        case Code.EXHAUSTED if wanted is not None and largest is not None:
            if not reason.is_too_much:
                return ''
            return (
                f'Free {wanted - largest} more on {example}, add hosts, raise the '
                f'allocation ratio, or use a smaller flavor (at most {largest}).'
            )
        case Code.AMOUNT_NOT_ALLOWED if reason.is_too_much:
            return (
                f'Use a smaller flavor (at most {largest}), or hosts that have '
                f'{wanted}.'
            )
        case Code.TRAIT_MISSING if only:
            return (
                f'Take it out of flavor and image, or let a host report it '
                f'({example} fails nothing else).'
            )
    return ''
