# SPDX-License-Identifier: Apache-2.0
"""Resources of a host, the free part of them, and the servers that hold the rest."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from novasched import errors
from novasched.db.servers import HolderRow
from novasched.decisions.reading import Criteria
from novasched.inspection.questions import reports
from novasched.inspection.questions.all_decisions import AllDecisions
from novasched.inspection.questions.capacity import REFUSALS, Capacity, flavors_in_use
from novasched.inspection.session import places
from novasched.inspection.session.session import Inspection
from novasched.providers.contents import Contents, build
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.times import time_of
from novasched.scheduler.fit.topology import HostCell
from novasched.scheduler.hosts import HostState, HostTable

MOST_FLAVORS = 5
MOST_DECISIONS = 5
DOWN = 'disabled or down'


def report(
    inspection: Inspection,
    host: str,
    log: AllDecisions,
    holding: str | None = None,
    capacity: Capacity | None = None,
) -> reports.HostReport:
    """Return all that is known of a host.

    ``holding`` leaves the servers that hold pages, dedicated CPUs or devices. Raises
    errors.OptionError for a host that there is not.
    """
    places.check(inspection.run, '', host, 'HOST')
    hosts = _hosts(inspection, host)
    every = holders(inspection, host, log)
    uuids, store = hosts.uuid.tolist(), inspection.copies.store
    capacity = capacity or Capacity.of(inspection)
    trees: list[list[reports.ChildProvider]] = []
    slots: list[reports.FlavorSlots] | None = None
    problems = []
    try:
        trees = [_tree(store.read_tree(uuid), uuid) for uuid in uuids]
        slots = _slots(inspection, capacity, host)
    except errors.StoreFailed as problem:
        what = 'Slots' if trees else 'Resources, traits and slots'
        problems.append(f'{what} are not shown. {problem}. {errors.CONNECTIONS}.')
    problems += [
        f'Placement has no resource provider {uuid}, which nova-compute makes.'
        for uuid, tree in zip(uuids, trees, strict=False)
        if not tree
    ]
    return reports.HostReport(
        as_of=_text(SYSTEM_CLOCK.utcnow()),
        host=host,
        placement_problems=problems,
        nodes=[
            _node(inspection, state, tree)
            for state, tree in zip(
                hosts.states(), trees or [[]] * len(uuids), strict=True
            )
        ],
        holders=[each for each in every if holding is None or each.held(holding)],
        servers=len(every),
        slots=slots,
        decisions=[
            reports.ChoosingDecision(head.id, time_of(head.at), head.flavor)
            for head in log.find(Criteria(host=host), MOST_DECISIONS)
        ],
        cells_left_out=inspection.cells_left_out(),
    )


def holders(
    inspection: Inspection,
    host: str,
    log: AllDecisions | None = None,
) -> list[reports.Holder]:
    """Return the servers that hold something of a host, the newest first."""
    uuids = set(_hosts(inspection, host).cell_uuid.tolist())
    cells = [c for c in inspection.run.reader.view.cells.all() if c.uuid in uuids]
    answers = inspection.finder.of_cells(lambda rows: rows.holders(host), cells)
    return [_holder(each, log) for _, rows in answers for each in rows]


def _hosts(inspection: Inspection, host: str) -> HostTable:
    """Return the nodes of a host."""
    hosts = inspection.run.reader.view.hosts(None)
    named = [place for place, name in enumerate(hosts.host.tolist()) if name == host]
    return HostTable(hosts.snapshot, hosts.rows[named])


def _text(moment: datetime.datetime) -> str:
    """Return a time, UTC with a zone or without, as text."""
    return moment.replace(tzinfo=None).isoformat(timespec='seconds') + 'Z'


def _node(
    inspection: Inspection, state: HostState, tree: Sequence[reports.ChildProvider]
) -> reports.HostNode:
    service, topology = state.service, state.numa_topology
    cells = inspection.run.reader.view.cells
    known = cells.get(state.cell_uuid)
    seen = service.get('last_seen_up') or service.get('created_at')
    return reports.HostNode(
        node=state.nodename,
        uuid=state.uuid,
        cell=(known and known.name) or state.cell_uuid,
        enabled=not state.service_disabled,
        disabled_reason=service.get('disabled_reason'),
        up=bool(state.service_up),
        forced_down=bool(service.get('forced_down')),
        heard_from=None if seen is None else _text(seen),
        aggregates=[
            reports.NamedAggregate(each.name, dict(each.metadata))
            for each in state.aggregates
        ],
        instances=state.num_instances,
        io_ops=state.num_io_ops,
        traits=tree[0].traits if tree else [],
        resources=tree[0].resources if tree else {},
        children=tree[1:],
        numa=[_numa_node(each) for each in topology.cells] if topology else [],
        devices=[
            reports.Devices(
                pool.keys.get('vendor_id'),
                pool.keys.get('product_id'),
                pool.numa_node,
                pool.count,
            )
            for pool in state.pci_stats.free
        ],
    )


def _tree(contents: Contents, root: str) -> list[reports.ChildProvider]:
    """Return the providers of the tree of a root, which comes first."""
    table = build(contents)
    if (first := table.rows_by_uuid.get(root)) is None:
        return []
    used = {(id_, class_): n for id_, class_, n in contents.usage.tolist()}
    found = []
    for row in range(first, int(table.ends[first])):
        id_ = int(table.ids[row])
        rows = contents.inventories[contents.inventories[:, 0] == id_]
        resources = {
            contents.class_names[int(each[1])]: _resource(
                each.tolist(), int(used.get((id_, int(each[1])), 0))
            )
            for each in rows
            if int(each[1]) in contents.class_names
        }
        traits = contents.traits[contents.traits[:, 0] == id_, 1].tolist()
        found.append(
            reports.ChildProvider(
                table.uuids[row],
                dict(sorted(resources.items())),
                sorted(contents.trait_names[each] for each in traits),
            )
        )
    return found


def _resource(inventory: Sequence[float], used: int) -> reports.Resource:
    total, reserved, ratio = int(inventory[2]), int(inventory[3]), inventory[7]
    capacity = int((total - reserved) * ratio)
    max_unit, free = int(inventory[5]), max(0, capacity - used)
    return reports.Resource(total, reserved, ratio, max_unit, used, free)


def _numa_node(cell: HostCell) -> reports.NumaNode:
    return reports.NumaNode(
        node=cell.id,
        cpus=len(cell.cpuset),
        cpus_used=cell.cpu_usage,
        dedicated_cpus=len(cell.pcpuset or ()),
        dedicated_free=sorted(cell.free_cpus),
        memory_mb=cell.memory,
        memory_free_mb=cell.free_memory,
        pages=[
            reports.PagePool(each.size_kb, each.total, each.free)
            for each in cell.mempages
        ],
    )


def _holder(row: HolderRow, log: AllDecisions | None) -> reports.Holder:
    cells = row.numa_topology.cells if row.numa_topology is not None else []
    requests = row.pci_requests.requests if row.pci_requests is not None else []
    heads = [] if log is None else log.find(Criteria(server=row.uuid), 1)
    return reports.Holder(
        server=row.uuid,
        name=row.name,
        flavor=None if row.flavor is None else row.flavor.name,
        state=row.state,
        vcpus=row.vcpus,
        memory_mb=row.memory_mb,
        pages=[
            reports.HeldPages(
                cell.id, cell.pagesize, cell.memory * 1024 // cell.pagesize
            )
            for cell in cells
            if cell.pagesize and cell.pagesize > 0
        ],
        pcpu={
            str(cell.id): sorted(set(cell.cpu_pinning.values()))
            for cell in cells
            if cell.cpu_pinning
        },
        pci=sum(each.count for each in requests),
        since=None if row.since is None else _text(row.since),
        decision=heads[0].id if heads else None,
    )


def _slots(
    inspection: Inspection, capacity: Capacity, host: str
) -> list[reports.FlavorSlots]:
    """Return how many more servers of the common flavors the host takes."""
    found = []
    for flavor in flavors_in_use(inspection, MOST_FLAVORS):
        try:
            slots = capacity.of_flavor(inspection, flavor)
        except REFUSALS as problem:
            found.append(reports.FlavorSlots(flavor.name, 0, str(problem)))
            continue
        places_ = [p for p, n in enumerate(slots.hosts.host.tolist()) if n == host]
        count = int(slots.counts[places_].sum()) if places_ else 0
        why: str | None = None
        if not count:
            why = slots.reasons(places_[:1])[0] if places_ else DOWN
        found.append(reports.FlavorSlots(flavor.name, count, why))
    return found
