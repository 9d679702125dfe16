# SPDX-License-Identifier: Apache-2.0
"""What is done for each call, in which order, and what comes back."""

import contextlib
import logging

import pytest

from novasched import errors, releases
from novasched.claiming.request import RequestAttempt
from novasched.decisions.fault import Level
from novasched.drivers import ClaimedRequest
from novasched.manager.candidate_query import QueryPolicy
from novasched.manager.manager import SchedulerManager
from novasched.objects.context import RequestContext
from novasched.objects.image_meta import ImageMeta, ImageMetaProps
from novasched.objects.instance import KnownInstance
from novasched.objects.request_spec import Destination, RequestGroup
from novasched.ports import ALL_HOSTS, Cell
from novasched.resources.requirements import Requirements
from novasched.scheduler.aggregates import Aggregate
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    LAST,
    Choosy,
    Cutting,
    FakeDriver,
    FakeNotifier,
    FakePlacement,
    FakeView,
)
from tests.support.clouds.managers import make_manager
from tests.support.records.recordings import Recordings
from tests.support.tables.cases import cases

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
        looks_further=True,
        log=None,
        after=None,
    ):
        policy = QueryPolicy(prefilters, limit, looks_further=looks_further)
        manager = make_manager(driver, view, placement, notifier, policy, network, log)
        return manager.select_destinations(
            RequestContext(overwrite=False),
            request or factories.request(),
            None if uuids is None else list(uuids),
            objects,
            alternates,
            after=after,
        )

    return run


def test_request_is_claimed_and_notified(select):
    placement, notifier = FakePlacement('uuid-h1'), FakeNotifier()
    request = factories.request()
    ((selection,), _) = select(request, [A, B], placement=placement, notifier=notifier)
    assert selection.service_host == 'h1'
    assert list(placement.held) == [A, B]
    assert notifier.phases == ['start', 'end']
    assert notifier.told[0][1] is request
    assert notifier.told[1][1].instance_uuid == B


def test_handed_over_request_is_not_announced_again(select):
    notifier, log = FakeNotifier(), Recordings()
    after = RequestAttempt(was_announced=True, waited_s=3.21)
    after.note_unavailable('placement', 'gone', 503)
    select(notifier=notifier, log=log, after=after)
    assert notifier.phases == ['end']
    (request,) = log.requests
    assert request.notes == ['Waited 3.2 s for placement: 503 Service Unavailable']


@pytest.mark.parametrize('phase', ['start', 'end'])
@pytest.mark.parametrize('problem', [RuntimeError(), KeyboardInterrupt()])
def test_a_notifier_that_raises_leaves_nothing_claimed(select, phase, problem):
    placement = FakePlacement('uuid-h1')
    with pytest.raises(type(problem)):
        select(uuids=[A, B], placement=placement, notifier=FakeNotifier(phase, problem))
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
    assert [consumer for consumer, _ in placement.undone] == [B, A]
    assert notifier.phases == ['start']


@pytest.mark.parametrize(
    ('objects', 'alternates', 'expected'),
    [(True, True, True), (True, False, False), (False, True, False)],
)
def test_alternates_are_made_only_with_objects(select, objects, alternates, expected):
    driver = FakeDriver()
    select(objects=objects, alternates=alternates, driver=driver)
    assert driver.request.return_alternates is expected


def test_without_objects_a_dict_per_instance_comes_back(select):
    one = {'host': 'h1', 'nodename': 'n1', 'limits': {}}
    assert select(uuids=[A, B], objects=False) == [one, one]


def test_a_rebuild_does_not_ask_placement(select):
    driver, placement = FakeDriver(), FakePlacement('uuid-h1')
    notifier = FakeNotifier()
    request = factories.request(**REBUILD)
    select(request, driver=driver, placement=placement, notifier=notifier)
    assert placement.queries == []
    assert driver.request.candidates is ALL_HOSTS
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
    assert driver.request.candidates is ALL_HOSTS
    assert driver.request.spec is request


def test_where_no_instances_are_named_nothing_is_claimed(select):
    driver, placement = FakeDriver(), FakePlacement('uuid-h1')
    select(factories.request(num_instances=3), None, driver=driver, placement=placement)
    assert len(placement.queries) == 1
    assert not isinstance(driver.request, ClaimedRequest)
    assert driver.request.required == 3
    assert placement.held == {}


@pytest.mark.parametrize('answer', ['an error', 'nothing'])
def test_request_without_candidates_is_not_notified(select, answer, caplog):
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


def test_failing_prefilter_queries_and_notifies_nothing(select):
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
        wanted = driver.request.spec.requested_destination
        assert (wanted.host, wanted.node) == ('h1', 'n1')
        assert 'in_tree=uuid-1' in placement.queries[0]
        assert request.requested_destination.node is None

    def test_a_forced_host_makes_no_destination(self, select):
        driver = FakeDriver()
        select(factories.request(force_hosts=['h1']), driver=driver, view=self.view())
        assert driver.request.spec.requested_destination is None

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
        return super().refresh()


@cases(
    'values, offered, queries_before',
    ('after placement has answered', {}, ['uuid-1'], [1]),
    ('for a named host', {'force_hosts': ['h1']}, ['uuid-1'], [0]),
    ('for a rebuild', REBUILD, [], [0]),
    ('not where there are no candidates', {}, [], []),
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


CELLS = {
    uuid: Cell(uuid, name, None, None, False)
    for uuid, name in (('a', 'east'), ('b', None), ('c', 'west'))
}


def silent_view(*uuids, **options):
    view = FakeView(factories.hosts(), CELLS, **options)
    view.silent = set(uuids)
    return view


@cases(
    'silent, said',
    ('all cells answer', '', []),
    ('two cells do not', 'ab', ['east, b']),
)
def test_a_request_that_finds_no_host_names_the_cells_left_out(
    select, caplog, silent, said
):
    caplog.set_level(logging.INFO, 'novasched.manager')
    with pytest.raises(errors.NoValidHost):
        select(driver=FakeDriver(errors.NoValidHost('')), view=silent_view(*silent))
    text = 'The hosts of cells that do not answer are left out: '
    lines = [line for line in caplog.messages if 'cells' in line]
    assert lines == [f'{text}{names}' for names in said]


def test_a_request_that_finds_a_host_names_no_cell(select, caplog):
    caplog.set_level(logging.INFO, 'novasched.manager')
    select(view=silent_view('a'))
    assert caplog.messages == []


@pytest.mark.parametrize(
    ('level', 'text'),
    [
        (Level.NONE, r'host: gone node: None $'),
        (Level.USER, r'that is not known\. Cells left out: 1\. \(d-\w{13}\)$'),
        (Level.ADMIN, r'that is not known\. Cells left out: east\. \(d-\w{13}\)$'),
    ],
)
def test_a_host_that_is_not_found_may_be_in_a_cell_left_out(select, level, text):
    request = factories.request(
        requested_destination=Destination(host='gone', node=None)
    )
    view = silent_view('a')
    log = Recordings(level, left_out=view.unavailable_cells)
    with pytest.raises(errors.NoValidHost, match=text):
        select(request, view=view, log=log)


def test_the_caller_may_learn_that_placement_has_nothing(select):
    with pytest.raises(errors.NoValidHost, match='Placement has no host with'):
        select(placement=FakePlacement(), log=Recordings(Level.USER))


def test_casts_reach_the_view():
    view = FakeView(factories.hosts())
    manager = make_manager(view=view)
    one, two = (Aggregate(n, f'uuid-{n}', f'agg{n}', frozenset(), {}) for n in (1, 2))
    manager.update_aggregates([one, two])
    manager.delete_aggregate(1)
    assert view.aggregates.all() == [two]
    manager.update_instance_info('h1', {A: None})
    manager.delete_instance_info('h1', A)
    manager.sync_instance_info('h1', [B])
    assert view.instances.reported == [
        ('update', 'h1', {A: None}),
        ('delete', 'h1', A),
        ('sync', 'h1', [B]),
    ]


def test_instances_that_come_and_go_reach_the_decision_log():
    log = Recordings()
    manager = make_manager(view=FakeView(factories.hosts()), log=log)
    instance = KnownInstance(A, 'h1', 7)
    manager.update_instance_info('h1', {A: instance})
    manager.delete_instance_info('h1', A)
    assert log.seen == [('h1', A, instance), ('h1', A, None)]


def test_the_request_is_left_as_it_came(select):
    request = factories.request(instance_group=factories.group())
    with contextlib.suppress(errors.NoValidHost):
        select(request, [A, B])
    assert request.obj_what_changed() == set()
    assert request.instance_uuid == factories.INSTANCE
    assert request.instance_group.hosts == []


def test_assumed_group_policy_is_logged(select, caplog):
    caplog.set_level(logging.INFO, 'novasched.manager')
    groups = [RequestGroup(requester_id=uuid, resources={'VGPU': 1}) for uuid in (A, B)]
    select(factories.request(requested_resources=groups))
    assert [record.levelname for record in caplog.records] == ['WARNING', 'INFO']


def test_invalid_demand_is_refused_before_any_query(select):
    request = factories.request(
        extra_specs={'hw:cpu_policy': 'odd'}, force_hosts=['gone']
    )
    with pytest.raises(errors.InvalidCPUAllocationPolicy):
        select(request)


class Attempts:
    """Says by which release it answers."""

    view = copy = None

    def __init__(self, release):
        self.release = release

    def select(self, request):
        return [], self.release.number


def of(manager, request):
    """The release that decides a request."""
    return manager.select_destinations(None, request, [A], True, True)


def wire_request(version):
    """A request whose image properties came over the wire in a version."""
    properties = ImageMetaProps().obj_to_primitive()
    properties['nova_object.version'] = version
    read = ImageMetaProps.obj_from_primitive(properties)
    return factories.request().replaced(image=ImageMeta(properties=read))


def test_the_first_request_of_a_newer_api_is_decided_by_its_rules():
    of_29, learned = releases.named('29'), []
    manager = SchedulerManager(
        Attempts(of_29), None, of_29, Attempts, True, learned.append
    )
    assert of(manager, factories.request()) == 29
    assert of(manager, wire_request('1.37')) == 29
    assert of(manager, wire_request('1.38')) == 30
    assert of(manager, wire_request('1.37')) == 30
    assert [each.number for each in learned] == [30]


def test_a_pinned_release_learns_nothing():
    of_29 = releases.named('29')
    manager = SchedulerManager(Attempts(of_29), None, of_29, Attempts)
    assert of(manager, wire_request('1.38')) == 29
    manager.follow(releases.named('31'))
    assert of(manager, wire_request('1.38')) == 31
