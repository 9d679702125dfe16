# SPDX-License-Identifier: Apache-2.0
"""Every dry run says of a host what the scheduler does with it."""

import collections
from dataclasses import replace
from uuid import UUID

from hypothesis import given, note
from hypothesis import strategies as st

from novasched import errors
from novasched.db.server_groups import ServerGroup
from novasched.inspection.questions import plan
from novasched.inspection.questions.why_not import why_not
from novasched.inspection.session import catalogue
from novasched.inspection.session.orders import BootOrder
from novasched.inspection.session.server_request import moved
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestGroup
from tests.properties.strategies import some_of
from tests.support.clouds import factories
from tests.support.clouds.dry_clouds import (
    ALIAS,
    Child,
    DryCloud,
    inventory,
    node,
    stats,
)
from tests.support.tables.examples import examples

HOSTS = ('h1', 'h2', 'h3')
DEVICE = 'CUSTOM_PCI_8086_1520'
SERVERS = {'s1': 'h1', 's2': 'h2', 's3': 'h3'}
GROUP = 'group'
MANY = 5
BOTH = {'VCPU': 8, 'PCPU': 8}
POLICIES = ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')
FILTERS = (
    'ComputeFilter',
    'AvailabilityZoneFilter',
    'ComputeCapabilitiesFilter',
    'ImagePropertiesFilter',
    'ServerGroupAntiAffinityFilter',
    'ServerGroupAffinityFilter',
)
MORE_FILTERS = (
    ('NUMATopologyFilter', 'PciPassthroughFilter'),
    ('PciPassthroughFilter', 'NUMATopologyFilter', 'IoOpsFilter'),
    ('RamFilter', 'CoreFilter', 'DiskFilter', 'NumInstancesFilter'),
    (
        *('AggregateRamFilter', 'AggregateInstanceExtraSpecsFilter', 'IoOpsFilter'),
        *('AggregateMultiTenancyIsolation', 'AggregateNumInstancesFilter'),
        *('DifferentHostFilter', 'SameHostFilter', 'NUMATopologyFilter'),
    ),
)
OWN_WEIGHERS = (
    {},
    {'keep_room_weight_multiplier': 10.0, 'keep_room_flavors': ['1:512', '4:4096=2']},
    {'keep_room_weight_multiplier': 10.0, 'build_failure_forget_after': 60},
    {'cpu_share_weight_multiplier': 1.0, 'ram_share_weight_multiplier': 1.0},
    {'same_host_weight_multiplier': 100.0, 'disk_share_weight_multiplier': -1.0},
)
"""Options of weighers that nova lacks."""


def numa(*cells):
    return factories.numa_topology(*cells) if cells else None


topologies = st.builds(
    lambda first, second, pages: numa(
        factories.numa_cell(0, range(4), pinned=first, pages={4: 524288, **pages}),
        factories.numa_cell(1, range(4, 8), pinned=second, memory_usage=3072),
    ),
    first=some_of(range(4), 4),
    second=st.sampled_from([(), (4, 5, 6), (4, 5, 6, 7)]),
    pages=st.sampled_from([{}, {1048576: 1}, {1048576: 2}]),
)
"""Two cells, of which some CPUs are pinned."""


@st.composite
def nodes(draw, host, place, tracked):
    """Draw a node: as full, as equipped and in such a state as it may be. ``tracked``:
    placement has its devices."""
    cpus = draw(st.sampled_from([*[BOTH] * 8, {'VCPU': 8}, {'PCPU': 8}]))
    stocks = {**cpus, 'MEMORY_MB': 4096, 'DISK_GB': 20}
    free = {
        'VCPU': draw(st.sampled_from([8, 8, 8, 8, 4, 2, 2, 1, 0])),
        'PCPU': draw(st.sampled_from([8, 8, 4, 2, 1])),
        'MEMORY_MB': draw(st.sampled_from([4096, 4096, 2048, 1024, 512])),
        'DISK_GB': draw(st.sampled_from([20, 20, 20, 20, 2, 1, 0])),
    }
    used = {name: total - free[name] for name, total in stocks.items()}
    reserved = draw(st.sampled_from([*[None] * 20, *stocks]))
    inventories = {
        name: inventory(total, total if name == reserved else 0)
        for name, total in stocks.items()
    }
    row = {
        'vcpus_used': used.get('VCPU', used.get('PCPU')),
        'memory_mb_used': used['MEMORY_MB'],
        'free_ram_mb': 4096 - used['MEMORY_MB'],
        'local_gb_used': used['DISK_GB'],
        'free_disk_gb': 20 - used['DISK_GB'],
        'running_vms': draw(st.integers(0, 2)),
        'stats': stats(draw(st.integers(0, 2))),
        'numa_topology': draw(st.one_of(topologies, topologies, topologies, st.none())),
    }
    children = ()
    if draw(st.sampled_from([True, True, True, False])):
        count = st.sampled_from([2, 2, 1, 0])
        counts = draw(st.lists(count, min_size=1, max_size=2))
        pools = [
            {'numa_node': draw(st.sampled_from([0, 1, None])), 'count': count}
            for count in counts
        ]
        if tracked:
            for number, pool in enumerate(pools):
                pool['rp_uuid'] = str(UUID(int=1000 * (place + 1) + number))
            children = tuple(
                Child(pool['rp_uuid'], {DEVICE: inventory(2)}, {DEVICE: 2 - count})
                for pool, count in zip(pools, counts, strict=True)
            )
        row['pci_stats'] = factories.pools(*pools)
    return node(
        host,
        8,
        4096,
        20,
        cell=draw(st.sampled_from(['c1', 'c1', 'c2'])),
        row=row,
        inventories=inventories,
        used=used,
        traits=draw(st.sampled_from([(), ('CUSTOM_GOLD',)])),
        disabled=draw(st.sampled_from([False] * 14 + [True])),
        is_down=draw(st.sampled_from([False] * 14 + [True])),
        children=children,
    )


metadata = st.fixed_dictionaries(
    {},
    optional={
        'availability_zone': st.sampled_from(['az1', 'az2']),
        'ssd': st.sampled_from(['true', 'false']),
        'filter_tenant_id': st.sampled_from(['project', 'other']),
        'max_instances_per_host': st.just('2'),
        'ram_allocation_ratio': st.just('2.0'),
        'trait:CUSTOM_GOLD': st.just('required'),
    },
)


@st.composite
def clouds(draw):
    hosts = HOSTS[: draw(st.integers(1, 3))]
    tracked = draw(st.booleans())
    made = [draw(nodes(host, n, tracked)) for n, host in enumerate(hosts)]
    if draw(st.sampled_from([False, False, False, True])):
        other = draw(nodes(made[0].host, len(made), tracked))
        made.append(replace(other, cell=made[0].cell))
    aggregates = [
        replace(
            factories.aggregate(number, draw(some_of(hosts, 3)), **draw(metadata)),
            uuid=str(UUID(int=0x9000 + number)),
        )
        for number in range(draw(st.integers(0, 2)))
    ]
    scheduler = {
        name: draw(st.booleans())
        for name in (
            'limit_tenants_to_placement_aggregate',
            'enable_isolated_aggregate_filtering',
            'query_placement_for_availability_zone',
        )
    }
    options = {
        'filter_scheduler': {
            'enabled_filters': [*FILTERS, *draw(st.sampled_from(MORE_FILTERS))],
            'max_instances_per_host': 3,
            'max_io_ops_per_host': 3,
            **draw(st.sampled_from(OWN_WEIGHERS)),
        },
        'workarounds': {'disable_fallback_pcpu_query': draw(st.booleans())},
        'pci': {'alias': [ALIAS]},
        'scheduler': scheduler,
    }
    policy = draw(st.sampled_from(POLICIES))
    members = tuple(draw(some_of(sorted(SERVERS), 3)))
    group = ServerGroup(GROUP, GROUP, 'project', 'user', policy, {}, members)
    return DryCloud(
        tuple(made),
        tuple(aggregates),
        options,
        {GROUP: group},
        {server: host for server, host in SERVERS.items() if host in hosts},
    )


devices = st.sampled_from(
    [
        'pci_passthrough:alias=nic:1',
        'pci_passthrough:alias=nic:1',
        'pci_passthrough:alias=nic:2,group_policy=none',
        'pci_passthrough:alias=nic:1,hw:pci_numa_affinity_policy=required',
    ]
)
cells = st.sampled_from(
    [
        'hw:numa_nodes=1',
        'hw:cpu_policy=dedicated',
        'hw:cpu_policy=dedicated',
        'hw:cpu_policy=dedicated,hw:numa_nodes=2',
        'hw:numa_nodes=2',
        'hw:mem_page_size=small',
        'hw:mem_page_size=1GB',
    ]
)
others = st.sampled_from(
    [
        'trait:CUSTOM_GOLD=required',
        'trait:CUSTOM_GOLD=forbidden',
        'aggregate_instance_extra_specs:ssd=true',
    ]
)
extra_specs = st.one_of(
    st.tuples(),
    st.tuples(devices),
    st.tuples(cells),
    st.tuples(devices, cells),
    st.tuples(others),
)
flavors = st.builds(
    lambda vcpus, ram, specs: catalogue.flavor_of(
        ','.join([f'vcpus={vcpus},ram={ram},disk=1', *specs])
    ),
    st.sampled_from([1, 1, 2, 2, 4]),
    st.sampled_from([512, 512, 1024, 2048]),
    extra_specs,
)
hints = st.sampled_from([(), ('different_host=s1',), ('same_host=s1', 'same_host=s2')])
owner = {'project_id': st.just('project'), 'user_id': st.just('user')}
orders = st.one_of(
    st.builds(BootOrder, **owner),
    st.builds(
        BootOrder,
        zone=st.sampled_from(['', '', 'az1', 'nova', 'nova:h1']),
        hints=hints,
        **owner,
    ),
    st.builds(BootOrder, group=st.just(GROUP), **owner),
    st.builds(BootOrder, policy=st.sampled_from(POLICIES), **owner),
)
leaves = st.none() | st.none() | st.none() | some_of(HOSTS, 1)
"""Hosts that a server must not go to; None: it is new."""


def wanted(opened, flavor, order, tracked, leaves):
    """Return the request of an order; ``tracked``: placement has the devices. One that
    ``leaves`` hosts is for a server of a cell that moves."""
    made = opened.maker.boot(flavor, order=order)
    request = made.request
    if tracked and request.pci_requests and not request.requested_resources:
        groups = [
            RequestGroup(
                requester_id=f'{each.request_id}-{number}',
                resources={DEVICE: 1},
                use_same_provider=True,
            )
            for each in request.pci_requests.requests
            for number in range(each.count)
        ]
        request = request.replaced(requested_resources=groups)
    if leaves is not None:
        owner = {'project_id': 'project', 'user_id': 'user', 'flavor': request.flavor}
        request = moved(request, **owner, cell=('c1', 'c1'), leaves=leaves)
    return replace(made, request=request)


def planned(opened, asked, host):
    """Say whether a plan puts a server on a host."""
    destination = asked.request.requested_destination
    only = asked.only_on(host)
    if destination is not None:
        only = replace(
            asked,
            request=asked.request.replaced(
                requested_destination=destination.replaced(host=host, node=None)
            ),
        )
    found = plan.boot(opened.run, only)
    return [each.host for each in found.placed] == [host]


def answered(cloud, host, asked):
    """Say whether the scheduler answers a host when all others are disabled."""
    with cloud.all_disabled_but(host).opened() as opened:
        select = opened.run.reader.manager.select_destinations
        context = RequestContext(overwrite=False)
        try:
            [[found, *_]] = select(context, asked.request, asked.uuids, True, True)
        except errors.NoValidHost:
            return False
        return found.service_host == host


def counted(opened, asked):
    """Return how many servers each host takes."""
    slots = opened.capacity.slots('f', asked.request)
    counts = zip(slots.hosts.host.tolist(), slots.counts.tolist(), strict=True)
    found = collections.Counter()
    for host, count in counts:
        found[host] += count
    return found


def fitting_together(opened, asked):
    """Return how many of several servers have a place."""
    request = asked.request.replaced(num_instances=MANY)
    uuids = [str(UUID(int=number + 1)) for number in range(MANY)]
    return plan.boot(opened.run, replace(asked, request=request, uuids=uuids)).fits


def is_of_flavor_alone(asked):
    """Capacity is counted for nothing else."""
    request = asked.request
    named = request.availability_zone or request.requested_destination
    return not (named or request.scheduler_hints or request.instance_group)


@given(clouds(), flavors, orders, leaves)
@examples(100)
def test_plan_why_not_capacity_and_scheduler_agree_about_each_host(
    cloud, flavor, order, leaves
):
    tracked = any(each.children for each in cloud.nodes)
    with cloud.opened() as opened:
        try:
            asked = wanted(opened, flavor, order, tracked, leaves)
        except errors.InvalidDemand:
            return
        expected = {host: answered(cloud, host, asked) for host in cloud.hosts}
        assert {h: planned(opened, asked, h) for h in cloud.hosts} == expected
        reasons = {host: why_not(opened.run, host, asked) for host in cloud.hosts}
        note(f'why not: {reasons}')
        assert {host: reasons[host].fits for host in cloud.hosts} == expected
        found = plan.boot(opened.run, asked)
        fitting = {host for host, fits in expected.items() if fits}
        chosen = {each.host for each in found.placed}
        others = {each for entry in found.placed for each in entry.alternates}
        assert bool(chosen) == bool(fitting)
        assert chosen | others <= fitting
        if len(cloud.nodes) == len(cloud.hosts):
            assert {reasons[h].of for h in fitting} <= {len(fitting)}
            assert all(reasons[h].rank == 1 for h in chosen)
        if is_of_flavor_alone(asked):
            counts = counted(opened, asked)
            assert {host: counts[host] > 0 for host in cloud.hosts} == expected
            if 'IoOpsFilter' not in cloud.filters:  # for capacity, builds end
                assert fitting_together(opened, asked) == min(MANY, counts.total())
                for each in found.hosts:
                    total = counts[each.host] - each.servers
                    assert each.room in (None, total)
