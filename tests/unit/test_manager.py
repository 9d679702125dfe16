# SPDX-License-Identifier: Apache-2.0
"""What is done for each call, in which order, and what comes back."""

from __future__ import annotations

import contextlib
import logging

import pytest

from novasched import errors
from novasched.manager import Asking, SchedulerManager
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import Destination, RequestGroup
from novasched.ports import Candidates, QueryFailed
from novasched.resources.prefilters.requirements import Requirements
from novasched.scheduler.aggregates import Aggregate
from tests import factories
from tests.unit.fakes import (
    LAST,
    Choosy,
    Cutting,
    FakeDriver,
    FakeNetwork,
    FakeNotifier,
    FakePlacement,
    FakeView,
    candidate,
)

A, B = 'c0000000-0000-4000-8000-00000000000a', LAST
REBUILD = {'scheduler_hints': {'_nova_check_type': ['rebuild']}}


@pytest.fixture
def select():
    """Call select_destinations: `select(request, uuids, objects, alternates, ...)`."""

    def run(
        request=None,
        uuids=(A,),
        objects=True,
        alternates=True,
        *,
        driver=None,
        placement=None,
        notifier=None,
        view=None,
        prefilters=(),
        network=None,
        limit=1000,
        falls_back=True,
        looks_further=True,
    ):
        manager = SchedulerManager(
            driver or FakeDriver(),
            view or FakeView(factories.hosts()),
            placement or FakePlacement('uuid-h1'),
            notifier or FakeNotifier(),
            Asking(prefilters, limit, falls_back, looks_further),
            network or FakeNetwork(),
        )
        return manager.select_destinations(
            RequestContext(overwrite=False),
            request or factories.request(),
            None if uuids is None else list(uuids),
            objects,
            alternates,
        )

    return run


def test_a_request_is_claimed_and_told(select):
    placement, notifier = FakePlacement('uuid-h1'), FakeNotifier()
    request = factories.request()
    ((selection,), _) = select(request, [A, B], placement=placement, notifier=notifier)
    assert selection.service_host == 'h1'
    assert list(placement.held) == [A, B]
    assert notifier.phases == ['start', 'end']
    assert notifier.told[0][1] is request
    assert notifier.told[1][1].instance_uuid == B


@pytest.mark.parametrize('phase', ['start', 'end'])
@pytest.mark.parametrize('problem', [RuntimeError(), KeyboardInterrupt()])
def test_a_notifier_that_raises_leaves_nothing_claimed(select, phase, problem):
    placement = FakePlacement('uuid-h1')
    with pytest.raises(type(problem)):
        select(
            uuids=[A, B],
            placement=placement,
            notifier=FakeNotifier(phase, problem),
        )
    assert placement.held == {}


@pytest.mark.parametrize(
    'problem',
    [
        errors.NoValidHost('none'),
        errors.ExtensionFailed('OurFilter', ValueError()),
        ZeroDivisionError(),
        KeyboardInterrupt(),
    ],
)
def test_a_driver_that_raises_leaves_nothing_claimed_and_no_end(select, problem):
    placement, notifier = FakePlacement('uuid-h1'), FakeNotifier()
    with pytest.raises(type(problem)):
        select(
            uuids=[A, B],
            driver=FakeDriver(problem),
            placement=placement,
            notifier=notifier,
        )
    assert placement.held == {}
    assert placement.undone == [(B, None), (A, None)]
    assert notifier.phases == ['start']


@pytest.mark.parametrize(
    ('objects', 'alternates', 'expected'),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_alternates_are_made_only_with_objects(select, objects, alternates, expected):
    driver = FakeDriver()
    select(objects=objects, alternates=alternates, driver=driver)
    assert driver.work.return_alternates is expected


def test_without_objects_a_dict_per_instance_comes_back(select):
    one = {'host': 'h1', 'nodename': 'n1', 'limits': {}}
    assert select(uuids=[A, B], objects=False) == [one, one]


def test_a_rebuild_does_not_ask_placement(select):
    driver, placement = FakeDriver(), FakePlacement('uuid-h1')
    notifier = FakeNotifier()
    request = factories.request(**REBUILD)
    select(request, driver=driver, placement=placement, notifier=notifier)
    assert placement.queries == []
    assert (driver.work.candidates, driver.work.claims) == (None, None)
    assert notifier.phases == ['start', 'end']


def test_a_driver_that_does_without_placement_does_not_ask_it(select):
    class WithoutPlacement(FakeDriver):
        USES_ALLOCATION_CANDIDATES = False

    driver, placement = WithoutPlacement(), FakePlacement('uuid-h1')
    request = factories.request(requested_destination=Destination(host='h9'))
    ran = []

    def prefilter(*args):
        ran.append(args)
        return Requirements()

    select(request, driver=driver, placement=placement, prefilters=[prefilter])
    assert (placement.queries, ran) == ([], [])
    assert (driver.work.candidates, driver.work.claims) == (None, None)
    assert driver.work.request is request


def test_where_no_instances_are_named_nothing_is_claimed(select):
    driver, placement = FakeDriver(), FakePlacement('uuid-h1')
    select(factories.request(num_instances=3), None, driver=driver, placement=placement)
    assert len(placement.queries) == 1
    assert driver.work.claims is None
    assert driver.work.required == 3
    assert placement.held == {}


@pytest.mark.parametrize('answer', ['an error', 'nothing'])
def test_no_candidates_end_the_request_before_it_is_told(select, answer, caplog):
    placement, notifier = FakePlacement(), FakeNotifier()
    if answer == 'an error':
        placement.fail()
    caplog.set_level(logging.INFO)
    with pytest.raises(errors.NoValidHost) as raised:
        select(placement=placement, notifier=notifier)
    assert str(raised.value) == 'No valid host was found. '
    assert notifier.phases == []
    (line,) = caplog.messages
    assert line.startswith('Got no allocation candidates from the Placement API.')


def test_prefilters_come_first_and_are_logged(select, caplog):
    def prefilter(request, facts):
        assert facts.minimum_compute_version == 74
        return Requirements(notes=('added it',), warnings=('beware',))

    caplog.set_level(logging.DEBUG, 'novasched.manager')
    select(prefilters=[prefilter])
    found = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert found[:3] == [
        ('DEBUG', f"Starting to schedule for instances: ['{A}']"),
        ('DEBUG', 'added it'),
        ('WARNING', 'beware'),
    ]


def test_a_prefilter_that_refuses_is_logged_and_ends_the_request(select, caplog):
    refusal = Requirements(
        warnings=('wait',), failures=('wrong',), refused='No hosts for you'
    )
    placement = FakePlacement('uuid-h1')
    with pytest.raises(errors.NoValidHost) as raised:
        select(prefilters=[lambda request, facts: refusal], placement=placement)
    assert str(raised.value) == (
        'No valid host was found. Scheduling failed: No hosts for you'
    )
    assert placement.queries == []
    levels = [(r.levelname, r.message) for r in caplog.records]
    assert ('WARNING', 'wait') in levels
    assert ('ERROR', 'wrong') in levels


def test_a_failing_prefilter_asks_and_tells_nobody(select):
    def prefilter(request, facts):
        raise errors.NoValidHost('Scheduling failed: no')

    placement, notifier = FakePlacement('uuid-h1'), FakeNotifier()
    with pytest.raises(errors.NoValidHost, match='Scheduling failed'):
        select(prefilters=[prefilter], placement=placement, notifier=notifier)
    assert (placement.queries, notifier.phases) == ([], [])


class TestNamedHost:
    NODES = (('h1', 'n1', 'uuid-1'), ('two', 'n2', 'uuid-2'), ('two', 'n3', 'uuid-3'))

    def view(self):
        return FakeView(factories.hosts(), nodes=self.NODES)

    def test_the_only_node_of_a_destination_is_filled_in(self, select):
        driver, placement = FakeDriver(), FakePlacement('uuid-1')
        request = factories.request(
            requested_destination=Destination(host='h1', node=None)
        )
        select(request, driver=driver, placement=placement, view=self.view())
        wanted = driver.work.request.requested_destination
        assert (wanted.host, wanted.node) == ('h1', 'n1')
        assert 'in_tree=uuid-1' in placement.queries[0]
        assert request.requested_destination.node is None

    def test_a_forced_host_makes_no_destination(self, select):
        driver = FakeDriver()
        select(factories.request(force_hosts=['h1']), driver=driver, view=self.view())
        assert driver.work.request.requested_destination is None

    def test_a_host_of_several_nodes_is_not_narrowed(self, select):
        placement = FakePlacement('uuid-2')
        request = factories.request(force_hosts=['two'])
        select(request, placement=placement, view=self.view())
        assert 'in_tree' not in placement.queries[0]

    def test_an_unknown_one_is_named(self, select):
        with pytest.raises(errors.NoValidHost) as raised:
            select(factories.request(force_nodes=['n9']), view=self.view())
        assert str(raised.value) == (
            'No valid host was found. No such host - host: None node: n9 '
        )


class Watched(FakeView):
    """Keeps how many queries placement had got at each refresh."""

    def __init__(self, placement):
        super().__init__(factories.hosts(), nodes=TestNamedHost.NODES)
        self.queries_before = []
        self._placement = placement

    def refresh(self):
        self.queries_before.append(len(self._placement.queries))


@pytest.mark.parametrize(
    ('values', 'offered', 'queries_before'),
    [
        pytest.param({}, ['uuid-1'], [1], id='after placement has answered'),
        pytest.param({'force_hosts': ['h1']}, ['uuid-1'], [0], id='for a named host'),
        pytest.param(REBUILD, [], [0], id='for a rebuild'),
        pytest.param({}, [], [], id='not where there are no candidates'),
    ],
)
def test_the_view_is_refreshed_once(select, values, offered, queries_before):
    placement = FakePlacement(*offered)
    view = Watched(placement)
    with contextlib.suppress(errors.NoValidHost):
        select(factories.request(**values), view=view, placement=placement)
    assert view.queries_before == queries_before


def test_the_view_is_refreshed_for_a_second_look(select):
    placement = Cutting(*'abc')
    view = Watched(placement)
    select(driver=Choosy('c'), placement=placement, view=view, limit=2)
    assert view.queries_before == [1, 2]


def test_casts_reach_the_view():
    view = FakeView(factories.hosts())
    manager = SchedulerManager(
        FakeDriver(),
        view,
        FakePlacement(),
        FakeNotifier(),
        Asking(()),
        FakeNetwork(),
    )
    one, two = (Aggregate(n, f'uuid-{n}', f'agg{n}', frozenset(), {}) for n in (1, 2))
    manager.update_aggregates([one, two])
    manager.delete_aggregate(1)
    assert view.aggregates.all() == [two]
    manager.update_instance_info('h1', {A: None})
    manager.delete_instance_info('h1', A)
    manager.sync_instance_info('h1', [B])
    assert view.instances.told == [
        ('update', 'h1', {A: None}),
        ('delete', 'h1', A),
        ('sync', 'h1', [B]),
    ]


def test_the_request_is_left_as_it_came(select):
    request = factories.request(instance_group=factories.group())
    with contextlib.suppress(errors.NoValidHost):
        select(request, [A, B])
    assert request.obj_what_changed() == set()
    assert request.instance_uuid == factories.INSTANCE
    assert request.instance_group.hosts == []


class Twofold(FakePlacement):
    """Has an answer of its own for dedicated CPUs, and one for shared ones."""

    def __init__(self, dedicated, shared):
        super().__init__()
        self._answers = {'PCPU': dedicated, 'VCPU': shared}

    def candidates(self, context, query):
        self.queries.append(query)
        return self._answers['PCPU' if 'PCPU' in query else 'VCPU']


def offered(*uuids, version='1.36', cut=False):
    summaries = {uuid: {'first': uuids[0]} for uuid in uuids}
    return Candidates([candidate(uuid) for uuid in uuids], version, summaries, cut)


AWAY = QueryFailed(503, 'away')


class TestFallback:
    @pytest.fixture
    def ask(self, select):
        """Return what the driver gets to choose from."""

        def run(dedicated, shared, **options):
            placement, driver = Twofold(dedicated, shared), FakeDriver()
            pinned = {'hw:cpu_policy': 'dedicated'}
            request = factories.request(extra_specs=pinned)
            select(request, driver=driver, placement=placement, **options)
            return driver.work.candidates, placement.queries

        return run

    def test_shared_cpus_come_after_dedicated_ones(self, ask):
        found, queries = ask(offered('a', 'b'), offered('c', 'b', version='1.0'))
        assert [next(iter(each['allocations'])) for each in found.requests] == [*'abcb']
        assert {uuid: each['first'] for uuid, each in found.summaries.items()} == {
            'a': 'a',
            'b': 'c',
            'c': 'c',
        }
        assert found.version == '1.36'
        assert [('PCPU' in query, 'VCPU' in query) for query in queries] == [
            (True, False),
            (False, True),
        ]

    @pytest.mark.parametrize(
        ('dedicated', 'shared'),
        [
            pytest.param(offered('a'), AWAY, id='the fallback fails'),
            pytest.param(AWAY, offered('a'), id='the first query fails'),
            pytest.param(offered('a'), Candidates([], '1.36'), id='no shared ones'),
            pytest.param(Candidates([], '1.36'), offered('a'), id='no dedicated ones'),
        ],
    )
    def test_one_answer_will_do(self, ask, dedicated, shared):
        found, _ = ask(dedicated, shared)
        assert [*found.requests] == [candidate('a')]
        assert found.version == '1.36'

    def test_two_failures_are_one(self, ask):
        with pytest.raises(errors.NoValidHost):
            ask(AWAY, AWAY)

    def test_it_can_be_turned_off(self, ask):
        _, queries = ask(offered('a'), offered('b'), falls_back=False)
        assert len(queries) == 1

    def test_what_is_asked_for_is_told(self, ask, caplog):
        caplog.set_level(logging.DEBUG, 'novasched.manager')
        ask(offered('a'), offered('b'))
        assert (
            'Requesting fallback allocation candidates with VCPU instead of PCPU'
            in caplog.messages
        )


def test_a_policy_that_was_made_up_is_told(select, caplog):
    caplog.set_level(logging.INFO, 'novasched.manager')
    groups = [RequestGroup(requester_id=uuid, resources={'VGPU': 1}) for uuid in (A, B)]
    select(factories.request(requested_resources=groups))
    assert [record.levelname for record in caplog.records] == ['WARNING', 'INFO']


def test_nonsense_is_told_before_a_host_is_looked_for(select):
    request = factories.request(
        extra_specs={'hw:cpu_policy': 'odd'}, force_hosts=['gone']
    )
    with pytest.raises(errors.InvalidCPUAllocationPolicy):
        select(request)
