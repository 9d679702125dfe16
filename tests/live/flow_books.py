# SPDX-License-Identifier: Apache-2.0
"""What a whole cloud must agree about: databases, placement, the books of computes."""

import json
import re
from collections import Counter

from novasched.objects.base import parse
from tests.live.servers.process import wait_until

NAMED = re.compile(
    r'No valid host was found\. '
    r'|Exceeded maximum number of retries\. .*'
)


def assert_named(flow, uuids):
    """Let every instance that failed have a fault that says why."""
    faults = {uuid: flow.fault(uuid).message for uuid in uuids}
    assert [text for text in faults.values() if not NAMED.fullmatch(text)] == []


class Books:
    """Reads what everybody has written about the instances of a Flow."""

    def __init__(self, flow, placement):
        self._flow = flow
        self._placement = placement

    def _instances(self):
        return [
            (cell, row)
            for cell in ('cell0', *self._flow.cloud.cells)
            for row in self._flow.cloud.rows(cell, 'instances', deleted=0)
        ]

    def states(self):
        """How many instances are in each (vm_state, task_state)."""
        return Counter((row['vm_state'], row['task_state']) for _, row in
                       self._instances())  # fmt: skip

    def at_rest(self, uuids, timeout_s):
        """Wait until all these instances end; give those that are built, and failed."""
        wanted = set(uuids)

        def ended():
            found = {row['uuid']: row for _, row in self._instances()}
            done = {
                uuid
                for uuid, row in found.items()
                if row['vm_state'] in ('active', 'error') and not row['task_state']
            }
            return found if wanted <= done else None

        try:
            found = wait_until(ended, timeout_s, 'all to end', every_s=0.5)
        except AssertionError as late:
            raise AssertionError(f'{late}: {self.states()}') from None
        active = {uuid for uuid in wanted if found[uuid]['vm_state'] == 'active'}
        return active, wanted - active

    def agree(self, uuids, timeout_s=30):
        """Wait until all agree: rows and claims are written one after another."""
        try:
            wait_until(lambda: not self._problems(uuids), timeout_s, 'agreement',
                       every_s=0.5)  # fmt: skip
        except AssertionError:
            raise AssertionError('\n'.join(self._problems(uuids))) from None

    def _problems(self, uuids):
        return [*self._of_rows(uuids), *self._of_claims(), *self._of_capacity()]

    def _of_rows(self, uuids):
        """Each instance is in one cell, mapped there; none is asked for any more."""
        found = Counter(row['uuid'] for _, row in self._instances())
        for uuid in uuids:
            if found[uuid] != 1:
                yield f'{uuid} is in {found[uuid]} cells'
        cloud = self._flow.cloud
        ids = {row['id']: row['name'] for row in cloud.rows('api', 'cell_mappings')}
        mapped = {
            row['instance_uuid']: ids.get(row['cell_id'])
            for row in cloud.rows('api', 'instance_mappings')
        }
        for cell, row in self._instances():
            if mapped.get(row['uuid']) != cell:
                yield f'{row["uuid"]} is in {cell}, mapped to {mapped.get(row["uuid"])}'
            if (row['vm_state'] == 'active') != (row['host'] is not None):
                yield f'{row["uuid"]} is {row["vm_state"]} on {row["host"]}'
        for row in cloud.rows('api', 'build_requests'):
            yield f'{row["instance_uuid"]} is still asked for'

    def _of_claims(self):
        """Each holds what its size is, where it is; nobody else holds anything."""
        wanted = {
            row['uuid']: (
                row['host'],
                row['vcpus'],
                row['memory_mb'],
                row['root_gb'] + row['ephemeral_gb'],
            )
            for _, row in self._instances()
            if row['vm_state'] == 'active'
        }
        held = {}
        for consumer, host, kind, used in self._placement.rows(CLAIMS):
            where = held.setdefault(consumer, {})
            where.setdefault(host, Counter())[kind] += used
        for uuid in wanted.keys() | held.keys():
            if uuid not in wanted:
                yield f'{uuid} holds {held[uuid]}, and is on no host'
                continue
            host, vcpus, memory_mb, disk_gb = wanted[uuid]
            amounts = held.get(uuid, {}).get(host, Counter())
            cpus = amounts['VCPU'] + amounts['PCPU']
            found = (cpus, amounts['MEMORY_MB'], amounts['DISK_GB'])
            if set(held.get(uuid, {})) != {host} or found != (
                vcpus,
                memory_mb,
                disk_gb,
            ):
                yield f'{uuid} is on {host} and holds {held.get(uuid)}'

    def _of_capacity(self):
        """Nothing is over what there is, and rows of hosts say what is on them."""
        for name, kind, limit, used in self._placement.rows(USAGES):
            if used > limit:
                yield f'{name}: {used} of {limit} {kind} are used'
        cloud = self._flow.cloud
        for cell in cloud.cells:
            on = {}
            for row in cloud.rows(cell, 'instances', deleted=0):
                on.setdefault(row['host'], []).append(row)
            extra = {
                row['instance_uuid']: row
                for row in cloud.rows(cell, 'instance_extra', deleted=0)
            }
            for node in cloud.rows(cell, 'compute_nodes', deleted=0):
                here = on.get(node['host'], [])
                yield from _of_node(node, here, [extra[row['uuid']] for row in here])


CLAIMS = """
SELECT a.consumer_id, root.name, c.name, a.used
FROM allocations a
JOIN resource_providers p ON p.id = a.resource_provider_id
JOIN resource_providers root ON root.id = p.root_provider_id
JOIN resource_classes c ON c.id = a.resource_class_id
"""
USAGES = """
SELECT p.name, c.name, (i.total - i.reserved) * i.allocation_ratio, SUM(a.used)
FROM inventories i
JOIN resource_providers p ON p.id = i.resource_provider_id
JOIN resource_classes c ON c.id = i.resource_class_id
JOIN allocations a ON a.resource_provider_id = p.id AND a.resource_class_id = c.id
GROUP BY i.id
"""


def _of_node(node, instances, extras):
    name = node['host']
    for column, wanted in (
        ('running_vms', len(instances)),
        ('vcpus_used', sum(row['vcpus'] for row in instances)),
        ('memory_mb_used', sum(row['memory_mb'] for row in instances)),
    ):
        if node[column] != wanted:
            yield f'{name}: {column} is {node[column]}, and {wanted} by its instances'
    yield from _of_numa(node, extras)
    yield from _of_devices(node, extras)


def _of_numa(node, extras):
    """The nodes of its instances are on nodes of the host, and share no pinned CPU."""
    text = node['numa_topology']
    cells = {} if not text else {c.id: c for c in parse(json.loads(text)).cells}
    pinned, memory_mb = Counter(), Counter()
    for extra in extras:
        if not extra['numa_topology']:
            continue
        for cell in parse(json.loads(extra['numa_topology'])).cells:
            memory_mb[cell.id] += cell.memory
            pinned.update((cell.id, cpu) for cpu in (cell.cpu_pinning or {}).values())
    for (number, cpu), count in pinned.items():
        if count > 1 or cpu not in cells[number].pcpuset:
            yield f'{node["host"]}: CPU {cpu} of node {number} is pinned {count} times'
    for number, cell in cells.items():
        if {cpu for on, cpu in pinned if on == number} != cell.pinned_cpus:
            yield f'{node["host"]}: node {number} says {cell.pinned_cpus} are pinned'
        if cell.memory_usage != memory_mb[number] or cell.memory_usage > cell.memory:
            yield (
                f'{node["host"]}: {cell.memory_usage} of {cell.memory} MiB used on '
                f'node {number}, {memory_mb[number]} by its instances'
            )


def _of_devices(node, extras):
    pools = parse(json.loads(node['pci_stats'])).objects
    free = sum(pool.count for pool in pools)
    taken = sum(
        request['count']
        for extra in extras
        for request in json.loads(extra['pci_requests'] or '[]')
    )
    total = DEVICES.get(node['host'].partition('-')[0], 0)
    if free + taken != total or free < 0:
        yield f'{node["host"]}: {free} devices free, {taken} taken, {total} in all'


DEVICES = {'pci': 4}
"""How many devices a host has, by the first part of its name."""
