# SPDX-License-Identifier: Apache-2.0
"""Whether a guest may be where it was put, by the rules alone: no search, no order."""

import collections


class Judge:
    """Judges the nodes of guests on a host.

    ``cells`` are the nodes of the host as they were before the guest came; ``asked``
    the topology and ``limits`` the limits (or None) as they travel; ``supports``
    tells whether the devices agree with some nodes of the host; ``within`` whether
    pinned nodes must fit into what all guests leave of the memory, as before nova 30.
    """

    def __init__(self, cells, asked, limits, supports, within=False):
        self._cells = {cell.id: cell for cell in cells}
        self._asked = [cell['nova_object.data'] for cell in _data(asked)['cells']]
        self._isolates = _data(asked).get('emulator_threads_policy') == 'isolate'
        self._limits = limits and _data(limits)
        self._supports = supports
        self._within = within

    def problems(self, nodes):
        """Yield what is wrong with nodes of a fitted guest, as answers have them."""
        ids = [node['host_cell'] for node in nodes]
        if len(set(ids)) < len(ids) or not self._cells.keys() >= {*ids}:
            yield f'nodes {ids}'
            return
        for number, (asked, node) in enumerate(zip(self._asked, nodes, strict=True)):
            cell = self._cells[node['host_cell']]
            reserve = int(self._isolates and number == 0)
            for name, problem in (
                ('CPUs', self._misses_cpus(cell, asked, node, reserve)),
                ('memory', self._misses_memory(cell, asked, node)),
                ('ratios', self._over_limits(cell, asked)),
            ):
                if problem:
                    yield f'{name} of guest node {number} on node {cell.id}: {problem}'
        if not self._supports(frozenset(ids)):
            yield f'devices near {ids}'
        if not self._networks_agree(ids):
            yield f'networks near {ids}'

    def _misses_cpus(self, cell, asked, node, reserve):
        for name in ('cpuset', 'pcpuset'):
            if sorted(asked[name]) != node[name]:
                return f'{name} is another'
        if asked['cpu_policy'] != 'dedicated' and len(asked['cpuset']) > len(
            cell.cpuset
        ):
            return 'too many shared ones'
        if asked['cpu_policy'] not in ('dedicated', 'mixed'):
            return node['cpu_pinning'] and 'pinned for no reason'
        pinning, reserved = node['cpu_pinning'] or {}, node['cpuset_reserved'] or ()
        used = [*pinning.values(), *reserved]
        if sorted(map(int, pinning)) != node['pcpuset'] or len(reserved) != reserve:
            return f'pinned {pinning}, reserved {reserved}'
        if len(set(used)) < len(used) or not cell.free_cpus.issuperset(used):
            return f'{used} are not all free'
        return _breaks_policy(cell, asked['cpu_thread_policy'], pinning.values())

    def _misses_memory(self, cell, asked, node):
        wanted_kb, size = asked['memory'] * 1024, node['pagesize']
        if node['memory'] != asked['memory']:
            return f'{node["memory"]} MiB'
        known = {pages.size_kb: pages for pages in cell.mempages}
        pins = asked['cpu_policy'] in ('dedicated', 'mixed')
        if pins and self._within and asked['memory'] > cell.free_memory:
            return f'{asked["memory"]} of {cell.free_memory} MiB'
        if asked['pagesize']:
            if size not in _sizes(asked['pagesize'], sorted(known)):
                return f'pages of {size} KiB'
            available_kb = known[size].free * size
        elif size:
            return f'pages of {size} KiB that nobody asked for'
        elif known:
            size = min(known)
            counts_free = pins and not self._within
            pages = known[size].free if counts_free else known[size].total
            available_kb = pages * size
        else:
            size = 1024
            available_kb = (cell.free_memory if pins else cell.memory) * 1024
        if wanted_kb > available_kb or wanted_kb % size:
            return f'{wanted_kb} of {available_kb} KiB in pages of {size}'
        return None

    def _over_limits(self, cell, asked):
        if self._limits is None or asked['cpu_policy'] == 'dedicated':
            return None
        cpus = cell.cpu_usage + len(asked['cpuset'])
        memory = cell.memory_usage + asked['memory']
        if cpus > len(cell.cpuset) * self._limits['cpu_allocation_ratio']:
            return f'{cpus} CPUs'
        if memory > cell.memory * self._limits['ram_allocation_ratio']:
            return f'{memory} MiB'
        return None

    def _networks_agree(self, ids):
        wanted = self._limits and self._limits.get('network_metadata')
        if not wanted:
            return True
        here, elsewhere = set(), set()
        for cell in self._cells.values():
            near = here if cell.id in ids else elsewhere
            if cell.network_metadata is not None:
                near |= cell.network_metadata.physnets
                near |= {None} if cell.network_metadata.tunneled else set()
        asked = {*_data(wanted)['physnets']}
        asked |= {None} if _data(wanted)['tunneled'] else set()
        return not (asked - here) & elsewhere


def _data(primitive):
    return primitive['nova_object.data']


def _sizes(asked, known):
    """Return the page sizes that do."""
    if asked == -1:
        return known[:1]
    if asked == -2:
        return known[1:]
    return known if asked == -3 else [asked] if asked in known else []


def _breaks_policy(cell, policy, cpus):
    """Say how the cores of some CPUs break a thread policy; None: they do not."""
    core_of = {cpu: core for core in cell.siblings for cpu in core}
    if not core_of.keys() >= {*cpus}:
        return 'a CPU that is on no core'
    used = collections.Counter(core_of[cpu] for cpu in cpus)
    whole = max(map(len, cell.siblings), default=0)
    if policy == 'isolate':
        if any(count > 1 or len(core & cell.free_cpus) < whole
               for core, count in used.items()):  # fmt: skip
            return 'a core is shared'
        if whole > 1 and cell.pcpuset != cell.cpuset:
            return 'cores of a split host are never whole'
    if policy == 'require':
        if any(len(core & cell.free_cpus) < 2 for core in used):
            return 'a core has one thread'
        if len(used) > (len(cpus) + 1) // 2:
            return 'threads are not on the same cores'
    return None
