# SPDX-License-Identifier: Apache-2.0
"""Capacity is what fits: counted, and then filled by real requests until none fits."""

import pytest

from novasched import app, errors
from novasched.app.sources import hints_of
from novasched.commands.capacity import CountCapacity
from novasched.console.cached_session import CachedCapacity
from novasched.db import server_tables, tables
from novasched.inspection.questions.capacity import MOST_FLAVORS, Capacity, row
from novasched.inspection.questions.reports import Amounts, LargestHost, Stranded
from novasched.inspection.session.copy_on_demand import CopyOnDemand
from novasched.objects.request_spec import RequestGroup
from novasched.placement_copy.readers.api import ApiReader
from novasched.scheduler.filters import BaseHostFilter
from novasched_lab.resource_providers import Inventory, Provider, provide
from tests.functional.commands import run, sources
from tests.functional.conftest import Host, named_uuid, new_uuids
from tests.support.clouds import factories
from tests.support.tables.cases import cases

FILTERS = ('ComputeFilter', 'NUMATopologyFilter', 'PciPassthroughFilter')
SMALL_FLAVOR = 'vcpus=1,ram=2048,disk=20'
GROUPS = 'resources1:VCPU=1,resources2:VCPU=1'
SMALL = {'vcpus': 2, 'memory_mb': 512, 'root_gb': 1}


@pytest.fixture
def made_of(cloud):
    """Make a cloud that has as many CPUs as it says."""

    def make(hosts, filters=FILTERS, **more):
        settings = {'enabled_filters': list(filters), **more}
        return cloud(
            hosts,
            filter_scheduler=settings,
            DEFAULT={'cpu_allocation_ratio': 1.0},
        )

    return make


def opened(made, kind=Capacity):
    """Read a cloud as commands do."""
    reader = app.compose_reader(made.conf, sources(made))
    made.stack.callback(reader.view.close)
    reader.view.load()

    def read(aggregates):
        """Read all anew."""
        store = ApiReader(made.adapter, 1.0)
        return CopyOnDemand(store, hints_of(reader.view))(aggregates)

    return kind(reader, read)


def filled(made, **values):
    """Boot servers until there is no valid host; return how many each host got."""
    scheduler, counts = made.compose_remembering(), {}
    while True:
        try:
            [[host]] = made.ask(scheduler, new_uuids(), **values)
        except errors.NoValidHost:
            return counts
        counts[host] = counts.get(host, 0) + 1


def counted(slots):
    names, counts = slots.hosts.host.tolist(), slots.counts.tolist()
    return {name: count for name, count in zip(names, counts, strict=True) if count}


def numa_host(name, *cells, **more):
    return Host(name, numa_topology=factories.numa_topology(*cells), **more)


def check(made, **values):
    """Count, then fill: each host gets what was counted. Return the count."""
    capacity = opened(made)
    slots = capacity.slots('f', made.request(**values))
    everywhere = list(range(len(slots.hosts)))
    told = row(slots, None, everywhere, True)
    found = filled(made, **values)
    assert counted(slots) == found
    assert told.slots == sum(found.values())
    for resource in told.resources.values():
        stranded = sum(each.amount for each in resource.stranded)
        assert resource.free == resource.usable + stranded
    return told


def test_flat(made_of):
    made = made_of(
        [
            Host('h1', zone='az1'),
            Host('h2', vcpus=7, zone='az1'),
            Host('h3', memory_mb=1200, cell='cell2'),
            Host('off', disabled=True),
            Host('down', down=True),
        ]
    )
    told = check(made, **SMALL)
    assert (told.slots, told.hosts) == (9, 3)
    assert told.largest == LargestHost('h1', 4)
    stranded = [Stranded('exhausted MEMORY_MB', 1, 4), Stranded('remainder', 1, 1)]
    assert told.resources == {'VCPU': Amounts(23, 18, stranded)}


def test_by_zone_cell_and_host(made_of):
    made = made_of([Host('h1', zone='az1'), Host('h2', cell='cell2'), Host('h3')])
    capacity = opened(made)
    slots = capacity.slots('f', made.request(**SMALL))

    def by(what):
        groups = capacity.grouped(slots.hosts, what)
        return {n: row(slots, n, at, False).slots for n, at in groups.items()}

    assert by(None) == {None: 12}
    assert by('zone') == {'az1': 4, 'nova': 8}
    assert by('aggregate') == {'-': 8, 'az1': 4}
    assert by('cell') == {'cell1': 8, 'cell2': 4}
    assert by('host') == {'h1': 4, 'h2': 4, 'h3': 4}


def test_console_keeps_slots_of_a_bounded_number_of_flavors(made_of):
    def reads_once(reader, read):
        copy = read(())
        return CachedCapacity(reader, lambda aggregates: copy)

    made = made_of([Host('h1')])
    capacity, request = opened(made, reads_once), made.request(**SMALL)
    first = capacity.slots('f', request)
    for other in range(1, MOST_FLAVORS):
        capacity.slots(f'f{other}', request)
    assert capacity.slots('f', request) is first
    capacity.slots('one more', request)
    assert capacity.slots('f', request) is not first


def test_why_hosts_have_no_more_slots_is_asked_once(made_of, monkeypatch):
    made = made_of([Host(f'h{n}', memory_mb=1024) for n in range(4)])
    slots = opened(made).slots('f', made.request(**SMALL))
    asked = []
    known = type(slots).reasons

    def reasons(self, places):
        asked.append(places)
        return known(self, places)

    monkeypatch.setattr(type(slots), 'reasons', reasons)
    rows = [row(slots, f'h{n}', [n], True) for n in range(4)]
    assert asked == [[0, 1, 2, 3]]
    assert all(each.resources['VCPU'].stranded for each in rows)


@pytest.mark.parametrize('others', [[], [Host('h2')]])
def test_a_host_that_placement_does_not_know(made_of, others):
    made = made_of([Host('new'), *others])
    made.placement.request('DELETE', f'/resource_providers/{made.hosts["new"].uuid}')
    slots = opened(made).slots('f', made.request(**SMALL))
    assert counted(slots) == {each.name: 4 for each in others}
    new = slots.hosts.host.tolist().index('new')
    assert slots.reasons([new]) == ['exhausted VCPU']


@cases(
    'name, options, code',
    ('RAM', 'RamFilter', {}, 'not-enough-ram'),
    more=(
        ('CPUs', 'CoreFilter', {}, 'not-enough-cpus'),
        ('disk', 'DiskFilter', {}, 'not-enough-disk'),
        (
            'instances',
            'NumInstancesFilter',
            {'max_instances_per_host': 3},
            'too-many-instances',
        ),
    ),
)
def test_limit_filters(made_of, name, options, code):
    """Placement has more than the filters allow."""
    hosts = [Host('h1'), Host('h2', vcpus=4)]
    made = made_of(hosts, ['ComputeFilter', name], **options)
    for host in made.hosts.values():
        more = {'VCPU': Inventory(64), 'MEMORY_MB': Inventory(65536)}
        more['DISK_GB'] = Inventory(1000)
        made.adapter.delete(f'/resource_providers/{host.uuid}')
        provide(made.adapter, [Provider(host.uuid, host.name, more)])
    values = {'vcpus': 1, 'memory_mb': 1500, 'root_gb': 15}
    told = check(made, **values)
    assert 0 < told.slots < 64
    whys = [each.why for each in told.resources['VCPU'].stranded]
    assert whys == [code]


def test_numa_nodes(made_of):
    """Two nodes with three free CPUs each take two servers of two, not three."""
    cells = [
        factories.numa_cell(n, range(4 * n, 4 * n + 4), pinned=[4 * n])
        for n in range(2)
    ]
    made = made_of([numa_host('h1', *cells), numa_host('h2', factories.numa_cell())])
    guest = factories.guest_topology(
        factories.guest_cell(0, range(2), 'dedicated', 512)
    )
    told = check(made, numa_topology=guest, **SMALL)
    assert told.slots == 4
    assert told.resources['VCPU'].stranded == [Stranded('split over NUMA nodes', 2, 8)]


def test_memory_pages(made_of):
    cell = factories.numa_cell(0, range(8), pages={4: 1048576, 2048: 700})
    made = made_of([numa_host('h1', cell)])
    guest = factories.guest_topology(
        factories.guest_cell(0, range(2), None, 512, pagesize=2048)
    )
    told = check(made, numa_topology=guest, **SMALL)
    assert told.slots == 2
    stranded = told.resources['VCPU'].stranded
    assert [each.why for each in stranded] == ['not-enough-pages']


def test_devices(made_of):
    made = made_of([Host('h1', pci_stats=factories.pools(3, 2)), Host('h2')])
    asked = factories.devices(2, alias=None)
    told = check(made, pci_requests=asked, **SMALL)
    assert (told.slots, told.hosts) == (2, 1)


def test_devices_in_placement(made_of):
    """Each server takes one of the providers of its host, as its candidate says."""
    pools = factories.pools(
        {'rp_uuid': named_uuid('near'), 'numa_node': 0},
        {'rp_uuid': named_uuid('far'), 'numa_node': 1, 'count': 2},
    )
    made = made_of([Host('h1', pci_stats=pools), Host('h2')])
    children = [
        Provider(
            named_uuid(name),
            f'h1_{name}',
            {'SRIOV_NET_VF': Inventory(count)},
            parent=made.hosts['h1'].uuid,
        )
        for name, count in (('near', 1), ('far', 2))
    ]
    provide(made.adapter, children)
    request_id = named_uuid('request')
    asked = factories.devices(1, request_id=request_id)
    told = check(
        made,
        pci_requests=asked,
        requested_resources=[
            RequestGroup(
                requester_id=f'{request_id}-0',
                resources={'SRIOV_NET_VF': 1},
                use_same_provider=True,
            )
        ],
        **SMALL,
    )
    assert told.slots == 3


def test_shared_disks(made_of):
    """Servers of all hosts take from one provider: it is filled once."""
    made = made_of([Host('h1'), Host('h2')])
    uuids = [made.hosts[name].uuid for name in ('h1', 'h2')]
    aggregates = frozenset([named_uuid('pool')])
    for uuid, name in zip(uuids, made.hosts, strict=True):
        made.adapter.delete(f'/resource_providers/{uuid}')
        own = {'VCPU': Inventory(8), 'MEMORY_MB': Inventory(8192)}
        provide(made.adapter, [Provider(uuid, name, own, aggregates=aggregates)])
    shared = Provider(
        named_uuid('disks'),
        'disks',
        {'DISK_GB': Inventory(50)},
        aggregates=aggregates,
        traits=frozenset(['MISC_SHARES_VIA_AGGREGATE']),
    )
    provide(made.adapter, [shared])
    capacity = opened(made)
    values = {**SMALL, 'root_gb': 10}
    slots = capacity.slots('f', made.request(**values))
    assert int(slots.counts.sum()) == 5
    assert sum(filled(made, **values).values()) == 5


class TestCommand:
    def test_json(self, made_of):
        made = made_of([Host('h1', zone='az1'), Host('h2', disabled=True)])
        flavor = 'vcpus=3,ram=512,disk=1'
        code, answer, said = run(
            made, CountCapacity, '--flavor', flavor, '--by', 'zone', '--stranded'
        )
        assert (code, said) == (0, '')
        assert answer.pop('as_of').endswith('Z')
        assert answer.pop('placement_age_s') >= 0
        assert answer == {
            'v': 1,
            'cells_left_out': {},
            'hosts': 1,
            'cells': 1,
            'not_counted': {'disabled': 1, 'down': 0},
            'rows': [
                {
                    'flavor': 'inline',
                    'by': 'az1',
                    'slots': 2,
                    'hosts': 1,
                    'resources': {
                        'VCPU': {
                            'free': 8,
                            'usable': 6,
                            'stranded': [{'why': 'remainder', 'hosts': 1, 'amount': 2}],
                        }
                    },
                    'largest': {'host': 'h1', 'slots': 2},
                }
            ],
        }

    def test_text(self, made_of):
        made = made_of([Host('h1'), Host('h2', disabled=True, memory_mb=600)])
        words = ('--flavor', 'vcpus=2,ram=512,disk=1', '--flavor', SMALL_FLAVOR)
        code, text, _ = run(made, CountCapacity, *words, '--stranded', form='text')
        assert code == 0
        assert text.splitlines()[:3] == [
            'Flavor                     Slots   Hosts     Free   Usable   Stranded   '
            'Main reason',
            'vcpus=2,ram=512,disk=1         4       1   8 VCPU   8 VCPU        0 %   -',
            'vcpus=1,ram=2048,disk=20       4       1   8 VCPU   4 VCPU       50 %   '
            'exhausted MEMORY_MB: 1 host, 4 VCPU',
        ]
        assert text.splitlines()[3].startswith('1 host of 1 cell, read now; placement ')
        assert text.endswith('Not counted: 1 disabled.\n')

    def test_slots_follow_hypothetical_changes(self, made_of):
        made = made_of([Host('h1'), Host('h2')])
        words = ('--flavor', SMALL_FLAVOR, '--what-if', 'remove h2')
        _, answer, _ = run(made, CountCapacity, *words, '--what-if', 'add 2 like h1')
        assert (answer['hosts'], answer['rows'][0]['slots']) == (3, 12)

    def test_an_empty_cloud(self, made_of):
        code, answer, _ = run(
            made_of([]), CountCapacity, '--flavor', SMALL_FLAVOR, '--by', 'zone'
        )
        assert code == 0
        (row,) = answer['rows']
        assert (row['slots'], row['by'], row['largest']) == (0, None, None)

    def test_flavors_of_servers(self, made_of):
        made = made_of([Host('h1')])
        for number, name in enumerate(('rare', 'often', 'unused'), 1):
            sizes = {'memory_mb': 512, 'vcpus': number, 'swap': 0, 'root_gb': 1}
            sizes |= {'disabled': False, 'is_public': True}
            row = {'id': number, 'name': name, 'flavorid': name, **sizes}
            made.add('api', server_tables.flavors, **row)
        for number, uuid in enumerate(new_uuids(3)):
            instance = {'uuid': uuid, 'host': 'h1', 'deleted': 0}
            of = 1 if number == 0 else 2
            made.add('cell1', tables.instances, instance_type_id=of, **instance)
        _, answer, _ = run(made, CountCapacity)
        assert [each['flavor'] for each in answer['rows']] == ['often', 'rare']

    def test_a_cell_that_is_away(self, made_of, tmp_path):
        made = made_of([Host('h1'), Host('h2', cell='cell2')])
        path = tmp_path / 'cell2'
        path.rename(path.with_suffix('.away'))
        code, answer, said = run(made, CountCapacity, '--flavor', SMALL_FLAVOR)
        assert code == 4
        assert answer['cells_left_out'] == {'cell2': 1}
        assert answer['rows'][0]['slots'] == 4
        assert said == 'warning: cell2 does not answer; its 1 host is not in this\n'

    def test_a_cell_that_stops_answering(self, made_of, tmp_path):
        """Its hosts are counted, but not the flavors of its servers."""
        made = made_of([Host('h1'), Host('h2', cell='cell2')])
        words = ('--flavor', SMALL_FLAVOR)
        assert run(made, CountCapacity, *words, stops=tmp_path / 'cell2')[0] == 0
        code, answer, said = run(made, CountCapacity, stops=tmp_path / 'cell2')
        assert (code, answer['cells_left_out']) == (4, {'cell2': 1})
        assert said.startswith('warning: cell2 stopped answering; its servers')

    @cases(
        'demand, words',
        ('nonsense', 'hw:numa_nodes=2', 'cannot be evenly distributed'),
        ('trait', 'trait:CUSTOM_NONE=required', 'no such trait'),
        ('class', 'resources:CUSTOM_NONE=1', 'no such resource'),
        ('no policy', GROUPS, 'need a group_policy'),
        ('filter', 'fails=yes', 'Failing failed: ZeroDivisionError'),
    )
    def test_a_flavor_that_cannot_be_counted(self, made_of, demand, words):
        """It is refused alone: the others are counted."""
        plugins = {'available_filters': [f'{__name__}.Failing']}
        made = made_of([Host('h1')], ['Failing'], **plugins)
        flavors = (f'vcpus=3,ram=512,disk=1,{demand}', SMALL_FLAVOR)
        code, answer, _ = run(
            made, CountCapacity, *(w for f in flavors for w in ('--flavor', f))
        )
        assert code == 0
        refused, counted = answer['rows']
        assert (refused['slots'], counted['slots']) == (0, 4)
        assert words in refused['refused']


class Failing(BaseHostFilter):
    """Fails for flavors that say so."""

    def host_passes(self, host_state, spec_obj):
        return 1 // ('fails' not in spec_obj.flavor.extra_specs)
