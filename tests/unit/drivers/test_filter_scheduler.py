# SPDX-License-Identifier: Apache-2.0
"""From candidates and hosts to claimed selections with alternates."""

import logging
import random

import pytest

from novasched import errors
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestGroup
from novasched.ports import Cell
from novasched.ports.decisions import NO_RECORDER
from novasched.runtime.deadline import TookTooLong, never
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.affinity import ServerGroupAntiAffinityFilter
from novasched.scheduler.filters.numa_topology import NUMATopologyFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.driving import drive, names
from tests.support.clouds.fakes import (
    DecisionsSeen,
    FakePlacement,
    FakeView,
    schedule_request,
)
from tests.support.tables.cases import cases

A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')
LOGGER = 'novasched'
RIGHT = Fitting()


class Passing(BaseHostFilter):
    """Passes the hosts of a set."""

    def __init__(self, names):
        self.names = names

    def host_passes(self, host_state, spec_obj):
        return host_state.host in self.names


class Trimming(BaseHostFilter):
    """Passes all hosts, and leaves one without candidates."""

    def __init__(self, name):
        self.name = name

    def host_passes(self, host_state, spec_obj):
        if host_state.host == self.name:
            host_state.allocation_candidates = []
        return True


class Broken(BaseHostFilter):
    """Raises for the second instance."""

    def host_passes(self, host_state, spec_obj):
        if spec_obj.instance_uuid == B:
            raise RuntimeError('broken')
        return True


@pytest.fixture
def hosts():
    """Four hosts: h1 has the most free memory; h4 is in another cell."""
    return factories.hosts(
        free_ram_mb=[8000, 7000, 6000, 5000], cell_uuid=['one', 'one', 'one', 'two']
    )


@pytest.fixture
def run(hosts):
    """Schedule: `run(placement, uuids, request, filters=...)` gives the result."""

    def schedule(
        placement,
        uuids,
        request=None,
        *,
        filters=(),
        alternates=False,
        candidates=...,
        table=hosts,
        shuffle_best=False,
        host_subset_size=1,
        fitting=RIGHT,
        silent=None,
        check=never,
        recorder=NO_RECORDER,
        **parts,
    ):
        view = FakeView(table, {silent.uuid: silent} if silent else {})
        view.silent = set(view.cells)
        driver = FilterScheduler(
            DriverContext(
                profile=Profile(
                    factories.adapted(filters),
                    (RAMWeigher(),),
                    host_subset_size,
                    shuffle_best,
                    fitting,
                ),
                view=view,
                placement=placement,
                rng=random.Random(1),
                **parts,
            )
        )
        return drive(
            driver,
            placement,
            uuids,
            request,
            alternates,
            candidates=candidates,
            check=check,
            recorder=recorder,
        )

    return schedule


def placement(*names, **options):
    return FakePlacement(*(f'uuid-{name}' for name in names), **options)


def everywhere(**options):
    return placement('h1', 'h2', 'h3', 'h4', **options)


def test_the_best_host_is_claimed(run):
    offered = everywhere()
    assert names(run(offered, [A])) == [['h1']]
    assert offered.tried == [(A, 'uuid-h1')]


def test_a_refused_claim_goes_on_with_the_next_best_host(run):
    offered = everywhere(script=['refused', 'refused'])
    assert names(run(offered, [A])) == [['h3']]
    assert [host for _, host in offered.tried] == ['uuid-h1', 'uuid-h2', 'uuid-h3']


def test_after_a_claim_of_unknown_outcome_no_other_host_is_tried(run):
    offered = everywhere(script=['unknown'])
    with pytest.raises(errors.AllocationUpdateFailed, match='did not answer'):
        run(offered, [A])
    assert [consumer for consumer, _ in offered.undone] == [A]
    assert [host for _, host in offered.tried] == ['uuid-h1']


def test_requested_groups_get_the_claimed_providers(run):
    offered = everywhere()
    nics = {'uuid-h1': A, 'uuid-h2': B, 'uuid-h3': C, 'uuid-h4': A}
    for each in offered.offered:
        (host,) = each['allocations']
        each['mappings'] = {'': [host], 'port': [nics[host]]}
    groups = [RequestGroup(requester_id=name) for name in ('port', 'unknown')]
    request = factories.request(requested_resources=groups, memory_mb=1500)
    placed = run(offered, [A, B], request)
    assert names(placed) == [['h1'], ['h2']]
    filled = [group.provider_uuids for group in placed.request.requested_resources]
    assert filled == [[nics['uuid-h2']], []]
    assert [group.provider_uuids for group in groups] == [[], []]
    assert request.requested_resources[0].provider_uuids == []


def test_no_claim_is_said_to_have_failed_where_there_was_no_host(run, caplog):
    caplog.set_level(logging.DEBUG, LOGGER)
    with pytest.raises(errors.NoValidHost):
        run(everywhere(), [A], filters=[Passing(())])
    assert 'Unable to successfully claim against any host.' not in caplog.messages


def test_a_decision_can_be_had_again_from_its_seed(run):
    seen = []
    chancy = {'shuffle_best': True, 'host_subset_size': 3}
    request = factories.request(memory_mb=1)
    recorder = DecisionsSeen(seen.append)
    run(everywhere(), [A, B], request, recorder=recorder, **chancy)
    assert len({decision.seed for decision in seen}) == 1
    rng = random.Random(seen[0].seed)
    for index, decision in enumerate(seen):
        profile = Profile((), (RAMWeigher(),), 3, True)
        again = decide(profile, decision.hosts, decision.request, rng, index)
        assert again.ranked.host.tolist() == decision.ranked.host.tolist()


def test_each_request_has_a_seed_of_its_own(hosts):
    seen = []
    parts = DriverContext(
        profile=Profile((), ()),
        view=FakeView(hosts),
        placement=None,
        rng=random.Random(1),
    )
    recorder = DecisionsSeen(seen.append)
    context, request = RequestContext(overwrite=False), factories.request()
    for _ in range(2):
        work = schedule_request(context, request, None, recorder=recorder)
        FilterScheduler(parts).select_destinations(work)
    assert seen[0].seed != seen[1].seed


def test_a_host_without_candidates_is_passed_over(run, caplog):
    with caplog.at_level(logging.DEBUG, LOGGER):
        assert names(run(everywhere(), [A], filters=[Trimming('h1')])) == [['h2']]
    assert any('candidatefor host (h1, h1)' in line for line in caplog.messages)


def test_each_instance_reduces_the_room_for_the_next(run):
    request = factories.request(memory_mb=1500)
    placed = run(everywhere(), [A, B, C], request)
    assert names(placed) == [['h1'], ['h2'], ['h1']]


def test_a_host_dropped_for_one_instance_is_gone_for_the_next(run):
    class OnlyOnce(BaseHostFilter):
        def host_passes(self, host_state, spec_obj):
            return spec_obj.instance_uuid != A or host_state.host == 'h2'

    assert names(run(everywhere(), [A, B], filters=[OnlyOnce()])) == [
        ['h2'],
        ['h2'],
    ]


def test_each_request_works_on_a_copy(hosts):
    request = factories.request()
    parts = DriverContext(Profile((), ()), FakeView(hosts), None, random.Random(1))
    work = schedule_request(RequestContext(overwrite=False), request, None)
    placed = FilterScheduler(parts).select_destinations(work)
    assert placed.request is not request
    assert parts.view.refreshed == 0


@cases(
    'script, filters, error',
    ('no room', ['claimed', *['refused'] * 4], (), errors.NoValidHost),
    (
        'a consumer that changed',
        ['claimed', errors.AllocationUpdateFailed(B, 'changed')],
        (),
        errors.AllocationUpdateFailed,
    ),
    ('a filter that raises', [], [Broken()], errors.ExtensionFailed),
    ('an interrupt', ['claimed', KeyboardInterrupt()], (), KeyboardInterrupt),
)
def test_a_failure_leaves_nothing_claimed(run, script, filters, error):
    offered = everywhere(script=script)
    with pytest.raises(error):
        run(offered, [A, B], filters=filters)
    assert offered.held == {}


def test_hosts_run_out(run, caplog):
    offered = everywhere(script=['claimed', *['refused'] * 4])
    caplog.set_level(logging.DEBUG, LOGGER)
    with pytest.raises(errors.NoValidHost, match='not enough hosts available'):
        run(offered, [A, B])
    assert 'Unable to successfully claim against any host.' in caplog.messages
    assert (
        'There are 1 hosts available but 2 instances requested to build.'
        in caplog.messages
    )


def test_no_instances_named_is_not_enough(run):
    with pytest.raises(errors.NoValidHost, match='not enough'):
        run(everywhere(), [])


def test_members_of_a_group_spread_and_the_group_grows(run):
    request = factories.request(instance_group=factories.group(members=[A, B, C]))
    placed = run(
        everywhere(), [A, B, C], request, filters=[ServerGroupAntiAffinityFilter()]
    )
    assert names(placed) == [['h1'], ['h2'], ['h3']]
    assert placed.request.instance_group.hosts == ['h1', 'h2', 'h3']
    assert placed.request.instance_uuid == C
    assert request.instance_group.hosts == []


class TestUnclaimed:
    def test_a_rebuild_takes_the_best_host_and_says_null(self, run):
        request = factories.request(scheduler_hints={'_nova_check_type': ['rebuild']})
        placed = run(everywhere(), [A], request, candidates=None)
        ((selection,),) = placed.selections
        assert selection.service_host == 'h1'
        assert selection.allocation_request == 'null'
        assert selection.allocation_request_version is None

    def test_callers_that_name_no_instance_get_hosts_and_no_claims(self, run):
        offered = everywhere()
        placed = run(offered, None, factories.request(num_instances=2, memory_mb=1500))
        assert names(placed) == [['h1'], ['h2']]
        assert offered.tried == []

    def test_a_group_grows_without_claims_too(self, run):
        group = factories.group(policy='affinity')
        request = factories.request(num_instances=2, instance_group=group)
        placed = run(everywhere(), None, request)
        assert placed.request.instance_group.hosts == ['h1', 'h1']

    def test_no_host_is_no_valid_host(self, run):
        with pytest.raises(errors.NoValidHost, match='not enough'):
            run(everywhere(), None, filters=[Passing(set())])


@pytest.mark.parametrize('uuids', [None, [A, B]])
def test_between_two_instances_it_is_asked_whether_to_go_on(run, uuids):
    def check():
        raise TookTooLong(1.0)

    offered, request = everywhere(), factories.request(num_instances=3)
    with pytest.raises(TookTooLong):
        run(offered, uuids, request, check=check)
    assert offered.held == {}


class TestAlternates:
    def test_they_are_of_the_same_cell_in_order(self, run):
        placed = run(everywhere(), [A], alternates=True, max_attempts=10)
        assert names(placed) == [['h1', 'h2', 'h3']]

    @pytest.mark.parametrize(('attempts', 'expected'), [(1, ['h1']), (2, ['h1', 'h2'])])
    def test_they_are_one_less_than_attempts(self, run, attempts, expected):
        placed = run(everywhere(), [A], alternates=True, max_attempts=attempts)
        assert names(placed) == [expected]

    def test_no_host_of_another_instance_is_one(self, run):
        request = factories.request(memory_mb=1500)
        placed = run(everywhere(), [A, B], request, alternates=True)
        assert names(placed) == [['h1', 'h3'], ['h2', 'h3']]

    @pytest.mark.parametrize(
        ('policy', 'own', 'expected'),
        [
            ('anti-affinity', True, [['h1', 'h3'], ['h2']]),
            ('anti-affinity', False, [['h1', 'h3'], ['h2', 'h3']]),
            ('soft-anti-affinity', True, [['h1', 'h3'], ['h2', 'h3']]),
            (None, True, [['h1', 'h3'], ['h2', 'h3']]),
        ],
    )
    def test_members_that_are_kept_apart_may_have_their_own(
        self, run, policy, own, expected
    ):
        group = factories.group(policy) if policy else None
        request = factories.request(memory_mb=1500, instance_group=group)
        placed = run(everywhere(), [A, B], request, alternates=True, own_alternates=own)
        assert names(placed) == expected

    def test_filters_run_again_after_the_last_of_several(self, run):
        asked = []

        class Recording(BaseHostFilter):
            def host_passes(self, host_state, spec_obj):
                asked.append(spec_obj.instance_uuid)
                return True

        run(everywhere(), [A, B], filters=[Recording()], alternates=True)
        assert [asked.count(uuid) for uuid in (A, B)] == [4, 8]

    def test_hosts_without_candidates_are_left_out(self, run, caplog):
        with caplog.at_level(logging.DEBUG, LOGGER):
            placed = run(everywhere(), [A], filters=[Trimming('h2')], alternates=True)
        assert names(placed) == [['h1', 'h3']]
        assert any("with uuid = 'uuid-h2'" in line for line in caplog.messages)


def test_every_decision_reaches_the_recorder(run):
    seen = []
    run(everywhere(), [A, B], recorder=DecisionsSeen(seen.append))
    assert [decision.request.instance_uuid for decision in seen] == [A, B]


@pytest.fixture
def nodes():
    """One host with two nodes, and pages of 1 GiB for one instance."""
    first, second = (
        factories.numa_cell(number, range(4), pages={4: 1048576, 1048576: pages})
        for number, pages in enumerate((1, 0))
    )
    return factories.hosts(numa_topology=[factories.numa_topology(first, second)])


def asking_for_pages(pagesize=-3):
    cell = factories.guest_cell(pagesize=pagesize)
    return factories.request(numa_topology=factories.guest_topology(cell))


@cases(
    'as_nova, pagesize',
    ('the next instance starts from the request', False, 4),
    ('for nova it starts from the last instance', True, None),
)
def test_instances_get_nodes_one_after_the_other(run, nodes, as_nova, pagesize):
    fitting = Fitting(as_nova=as_nova)
    filters = [NUMATopologyFilter(fitting)]
    request, parts = asking_for_pages(), {'filters': filters, 'fitting': fitting}
    if pagesize is None:
        with pytest.raises(errors.NoValidHost):
            run(placement('h1'), [A, B], request, table=nodes, **parts)
        return
    placed = run(placement('h1'), [A, B], request, table=nodes, **parts)
    (cell,) = placed.request.numa_topology.cells
    assert cell.pagesize == pagesize
    assert request.numa_topology.cells[0].pagesize == -3
    (selection,) = placed.selections[1]
    assert selection.limits.numa_topology.cpu_allocation_ratio == 4.0


@pytest.mark.parametrize('as_nova', [False, True])
def test_request_ends_with_the_numa_cells_of_the_last_server(run, nodes, as_nova):
    fitting = Fitting(as_nova=as_nova)
    placed = run(placement('h1'), [A], asking_for_pages(), table=nodes, fitting=fitting)
    (cell,) = placed.request.numa_topology.cells
    assert (cell.id, cell.pagesize) == (0, 1048576)


@pytest.mark.parametrize('as_nova', [False, True])
def test_numa_topology_may_not_fit_without_its_filter(run, nodes, as_nova):
    fitting, request = Fitting(as_nova=as_nova), asking_for_pages(2048)
    placed = run(placement('h1'), [A], request, table=nodes, fitting=fitting)
    expected = None if as_nova else request.numa_topology
    assert placed.request.numa_topology is expected


def test_devices_that_cannot_be_booked_are_logged(run, nodes, caplog):
    request = factories.request(pci_requests=factories.devices())
    with caplog.at_level(logging.WARNING, LOGGER):
        assert names(run(placement('h1'), [A], request, table=nodes)) == [['h1']]
    (message,) = [r.getMessage() for r in caplog.records if r.name.startswith(LOGGER)]
    assert message.startswith('Selected host: (h1, h1) ram')
    assert 'failed to consume from instance. Error: ' in message


class Twice(BaseHostFilter):
    """Gives each host twice."""

    def filter_all(self, hosts, spec_obj):
        return [host for host in hosts for _ in range(2)]


def test_misbehaving_filter_is_logged_once_per_request(run, caplog):
    with caplog.at_level(logging.WARNING, LOGGER):
        for _ in range(2):
            run(everywhere(), [A, B, C], filters=[Twice()])
    lines = [line for line in caplog.messages if line.startswith('Twice gave')]
    assert len(lines) == 2


def test_a_decision_names_the_cells_left_out(run):
    told = []
    silent = Cell('c', 'west', None, None, False)
    run(everywhere(), [A], silent=silent, recorder=DecisionsSeen(told.append))
    assert [one.cells_left_out for one in told] == [('west',)]
