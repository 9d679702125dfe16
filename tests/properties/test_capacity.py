# SPDX-License-Identifier: Apache-2.0
"""Capacity that is counted for all hosts at once is that of filling them one by one."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from novasched import errors
from novasched.scheduler.capacity import CellCounter, Counting
from novasched.scheduler.filters.host_limit import (
    AggregateNumInstancesFilter,
    IoOpsFilter,
    NumInstancesFilter,
)
from novasched.scheduler.filters.legacy.overcommit import (
    AggregateRamFilter,
    CoreFilter,
    DiskFilter,
    RamFilter,
)
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.filters.pci_passthrough import PciPassthroughFilter
from novasched.scheduler.fit.claim import book
from novasched.scheduler.hosts import HostTable, consume, consume_each
from novasched.scheduler.narrow import narrow
from novasched.scheduler.pipeline import Profile, run_filters
from tests.properties.installed import FILTERS, contents
from tests.properties.strategies import aggregates, guests, host_tables, requests
from tests.support.clouds import factories
from tests.support.tables.examples import examples

LIMITS = (
    NumInstancesFilter(6),
    AggregateNumInstancesFilter(8),
    IoOpsFilter(8),
    RamFilter(),
    CoreFilter(),
    DiskFilter(),
    AggregateRamFilter(),
)
CELLS = (NUMATopologyFilter(), PciPassthroughFilter())
COUNTER = CellCounter(most_kept=100)

host = st.fixed_dictionaries(
    {
        'free_ram_mb': st.integers(0, 16).map(lambda n: 1024 * n),
        'total_usable_ram_mb': st.just(16384),
        'free_disk_mb': st.integers(0, 60).map(lambda n: 1024 * n),
        'total_usable_disk_gb': st.just(60),
        'vcpus_total': st.just(16),
        'vcpus_used': st.integers(0, 16),
        'num_instances': st.integers(0, 8),
        'num_io_ops': st.integers(0, 9),
        'cpu_allocation_ratio': st.sampled_from([1.0, 2.0, 4.0]),
        'ram_allocation_ratio': st.sampled_from([1.0, 1.5]),
        'disk_allocation_ratio': st.sampled_from([1.0, 2.0]),
        'aggregates': aggregates,
        'numa_topology': st.sampled_from(
            [
                None,
                factories.numa_topology(factories.numa_cell(0, range(8), threads=2)),
                factories.numa_topology(
                    factories.numa_cell(0, range(4), pinned=[1]),
                    factories.numa_cell(
                        1, range(4, 8), pages={4: 524288, 1048576: 2, 2048: 900}
                    ),
                ),
            ]
        ),
        'pci_stats': st.sampled_from(
            [None, factories.pools(3), factories.pools(2, {'numa_node': 1, 'count': 3})]
        ),
    }
)


def table(many):
    columns = {name: [one[name] for one in many] for name in many[0]}
    columns['host'] = [f'h{number}' for number in range(len(many))]
    columns['allocation_candidates'] = [[{'mappings': {}}]] * len(many)
    return factories.hosts(**columns)


tables = st.lists(host, min_size=1, max_size=5).map(table)
servers = st.builds(
    factories.request,
    vcpus=st.integers(1, 3),
    memory_mb=st.sampled_from([512, 1024, 3000]),
    root_gb=st.integers(0, 9),
    numa_topology=guests,
    pci_requests=st.none()
    | st.builds(
        factories.devices,
        st.integers(1, 2),
        alias=st.none(),
        numa_policy=st.sampled_from(['required', 'legacy', 'preferred']),
    ),
)
profiles = st.builds(
    Profile,
    filters=st.sampled_from(
        [(), LIMITS, CELLS, LIMITS + CELLS, CELLS[1:], tuple(FILTERS)]
    ),
    weighers=st.just(()),
)
rooms = st.lists(st.integers(0, 20), min_size=5, max_size=5)


def filled(profile, hosts, request, room):
    """Fill the hosts with one server after the other; return how many each took."""
    rows = hosts.rows.tolist()
    counts = dict.fromkeys(rows, 0)
    builds = hosts.snapshot.column('num_io_ops')
    while True:
        having = [counts[row] < most for row, most in zip(rows, room, strict=True)]
        open_ = HostTable(
            hosts.snapshot.for_new_request(), hosts.rows[np.array(having, bool)]
        )
        narrowed = narrow(open_, request)
        filters = profile.filters if narrowed.filters_run else ()
        left, _ = run_filters(filters, narrowed.hosts, request)
        if not len(left):
            return [counts[row] for row in rows]
        row = int(left.rows[0])
        counts[row] += 1
        booked = book(consume(left, row, request), row, request, profile.fitting)
        hosts = HostTable(booked.hosts.snapshot, hosts.rows)
        hosts = hosts.with_columns(num_io_ops=builds)


@given(profiles, tables, servers, rooms)
@examples(300)
def test_counted_as_filled(profile, hosts, request, room):
    room = np.array(room[: len(hosts)])
    before = contents(hosts)
    counting = Counting(profile, request, COUNTER)
    found = counting.slots(hosts, room)
    assert found.tolist() == filled(profile, hosts, request, room)
    assert contents(hosts) == before
    for (name, reason), count, most in zip(
        counting.blockers(hosts, found), found.tolist(), room.tolist(), strict=True
    ):
        assert name or count == most, reason


@given(host_tables, requests, st.data())
def test_consuming_several_times(hosts, request, data):
    copies = data.draw(
        st.lists(st.integers(0, 4), min_size=len(hosts), max_size=len(hosts))
    )
    found = consume_each(hosts, np.array(copies, np.int64), request)
    expected = hosts
    try:
        for row, count in zip(hosts.rows.tolist(), copies, strict=True):
            for _ in range(count):
                expected = consume(expected, row, request)
    except errors.NovaschedError:
        return
    assert contents(found) == contents(expected)
