# SPDX-License-Identifier: Apache-2.0
"""Drivers written for nova: what they are given, and how their answers are read."""

import json
import random

import pytest

from novasched import errors
from novasched.claiming.claims import ClaimedRequest
from novasched.compat.legacy_driver import LegacyDriver, Scheduler
from novasched.drivers import DriverContext
from novasched.objects.context import RequestContext
from novasched.objects.selection import Selection
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    VERSION,
    FakePlacement,
    FakeView,
    candidate,
    schedule_request,
)
from tests.support.tables.cases import cases

A, B = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'ab')


class Base:
    """Keeps what it is told and answers as it is told."""

    answer = ()

    def _answer(self, *told):
        type(self).told = told
        return type(self).answer


def driver(name, parameters):
    """A driver whose select_destinations takes these parameters after the context."""
    names = [each.partition('=')[0] for each in parameters.split(', ')]
    source = f'lambda self, context, {parameters}: self._answer({", ".join(names)})'
    return type(name, (Base,), {'select_destinations': eval(source)})


CANDIDATES = (
    'alloc_reqs_by_rp_uuid, provider_summaries, allocation_request_version=None'
)
Juno = driver('Juno', 'request_spec, filter_properties')
Mitaka = driver('Mitaka', 'spec_obj')
PikeAsDeclared = driver('Declared', 'spec_obj, instance_uuids, provider_summaries')
Pike = driver('Pike', 'spec_obj, uuids, alloc_reqs, summaries')
NoAlternates = driver('NoAlternates', 'spec_obj, uuids, alloc, summaries, version=None')
Rocky = driver('Rocky', f'spec_obj, instance_uuids, {CANDIDATES}, return_alternates=0')
Anything = driver('Anything', '*args')
Later = driver('Later', 'spec_obj, a, b, c, d=None, e=0, f=0')
WithOption = driver('WithOption', 'spec_obj, verbose=False')


@pytest.fixture
def hosts():
    return factories.hosts(3, cell_uuid=['one', 'one', 'two'])


@pytest.fixture
def run(hosts):
    """Let a class choose: `run(cls, answer, uuids, placement=..., ...)`."""

    def schedule(
        cls, answer, uuids=(A,), *, placement=None, alternates=False, **values
    ):
        told = type(cls.__name__, (cls,), {'answer': answer})
        parts = DriverContext(
            Profile((), ()), FakeView(hosts), placement, random.Random(1)
        )
        driver = LegacyDriver(told, parts)
        context, request = RequestContext(overwrite=False), factories.request(**values)
        uuids = None if uuids is None else list(uuids)
        if placement is None:
            work = schedule_request(context, request, uuids, None, alternates)
            return driver.select_destinations(work), told
        candidates = placement.candidates(context, '')
        work = schedule_request(context, request, uuids, candidates, alternates)
        work = ClaimedRequest.of(work, placement)
        with work.claims:
            return driver.select_destinations(work), told

    return schedule


def names(placed):
    return [[one.service_host for one in each] for each in placed.selections]


def named(host, node=None):
    return {'host': host, 'nodename': node, 'limits': {}}


class TestGiven:
    @pytest.mark.parametrize(
        ('cls', 'expected'),
        [
            (Mitaka, ()),
            (WithOption, (False,)),
            (PikeAsDeclared, ('uuids', 'summaries')),
            (Pike, ('uuids', 'requests', 'summaries')),
            (NoAlternates, ('uuids', 'requests', 'summaries', VERSION)),
            (Rocky, ('uuids', 'requests', 'summaries', VERSION, True)),
            (Anything, ('uuids', 'requests', 'summaries', VERSION, True)),
            (Later, ('uuids', 'requests', 'summaries', VERSION, True, 0)),
        ],
    )
    def test_it_is_what_the_parameters_ask_for(self, run, cls, expected):
        offered = FakePlacement('uuid-h1', 'uuid-h2')
        offered.summaries = {'uuid-h1': {'resources': {}}, 'uuid-h2': {'resources': {}}}
        _, driver = run(cls, [named('h1')], placement=offered, alternates=True)
        request, *others = driver.told
        assert request.flavor.memory_mb == 512
        values = {
            'uuids': [A],
            'requests': {name: [candidate(name)] for name in ('uuid-h1', 'uuid-h2')},
            'summaries': offered.summaries,
        }
        assert others == [values.get(each, each) for each in expected]

    def test_the_oldest_get_dicts(self, run):
        _, driver = run(
            Juno, [named('h1')] * 2, [A, B], scheduler_hints={'colour': ['red']}
        )
        request_spec, filter_properties = driver.told
        assert request_spec['num_instances'] == 2
        assert request_spec['instance_uuids'] == [A, B]
        assert request_spec['instance_properties']['memory_mb'] == 512
        assert filter_properties['scheduler_hints'] == {'colour': 'red'}

    def test_without_candidates_there_is_nothing_of_placement(self, run):
        _, driver = run(Rocky, [[named('h1')]])
        assert driver.told[2:] == (None, None, None, False)


@cases(
    'parameters, problem',
    ('nothing', (), r'takes \(\), which no release'),
    ('no request', ('context',), r'takes \(context\), which'),
    ('too much', tuple('abcdefgh'), r'takes \(a, b, c, d, '),
)
def test_driver_with_unknown_parameters_is_named(parameters, problem):
    source = f'lambda self, {", ".join(parameters)}: []'
    cls = type('Odd', (), {'select_destinations': eval(source)})
    with pytest.raises(errors.OptionError, match=problem) as raised:
        LegacyDriver(cls, DriverContext(None, None, None, random.Random(1)))
    assert str(raised.value).startswith('[scheduler] driver: Odd: its ')


def test_a_class_that_chooses_nothing_is_named():
    cls = type('Idle', (), {})
    with pytest.raises(errors.OptionError, match='Idle: it has no method'):
        LegacyDriver(cls, DriverContext(None, None, None, random.Random(1)))


@cases(
    ('bases', 'values', 'expected'),
    ('it takes candidates', (Pike,), {}, True),
    ('it takes none', (Mitaka,), {}, False),
    ('its base class says nothing', (Mitaka, Scheduler), {}, False),
    ('it takes some, with a base', (Rocky, Scheduler), {}, True),
    ('it says no', (Rocky,), {'USES_ALLOCATION_CANDIDATES': False}, False),
    ('it says yes', (Mitaka,), {'USES_ALLOCATION_CANDIDATES': True}, True),
)
def test_whether_placement_is_asked(bases, values, expected):
    cls = type('Some', bases, values)
    driver = LegacyDriver(cls, DriverContext(None, None, None, random.Random(1)))
    assert driver.USES_ALLOCATION_CANDIDATES is expected


class TestAnswers:
    def test_dicts_name_a_host_and_its_node(self, run):
        limits = {'vcpu': 16.5, 'memory_mb': 4096}
        answer = [{'host': 'h2', 'nodename': 'h2', 'limits': limits}, named('h3')]
        placed, _ = run(Juno, answer, [A, B])
        first, second = (each[0] for each in placed.selections)
        assert (first.service_host, first.compute_node_uuid) == ('h2', 'uuid-h2')
        assert first.limits.to_dict() == {'vcpu': 16, 'memory_mb': 4096}
        assert (second.nodename, second.cell_uuid) == ('h3', 'two')
        assert second.limits.to_dict() == {}

    def test_limits_may_be_none(self, run):
        placed, _ = run(Juno, [{'host': 'h1', 'nodename': None, 'limits': None}])
        assert placed.selections[0][0].limits.to_dict() == {}

    @pytest.mark.parametrize('nest', [False, True])
    def test_hosts_are_selections_with_their_candidate(self, run, hosts, nest):
        host = hosts.state(1)
        offered = FakePlacement('uuid-h1', 'uuid-h2')
        placed, _ = run(Pike, [[host] if nest else host], placement=offered)
        ((selection,),) = placed.selections
        assert json.loads(selection.allocation_request) == candidate('uuid-h2')
        assert selection.allocation_request_version == VERSION
        assert list(offered.held) == [A]

    def test_candidates_left_by_the_driver_count(self, run, hosts):
        host = hosts.state(0)
        host.allocation_candidates = [candidate('uuid-h1', 'disk')]
        placed, _ = run(Pike, [host], placement=FakePlacement('uuid-h1'))
        request = json.loads(placed.selections[0][0].allocation_request)
        assert request == candidate('uuid-h1', 'disk')

    def test_selections_stay_as_they_are(self, run):
        selections = [Selection(service_host=name) for name in ('h1', 'h2')]
        for each in selections:
            each.allocation_request = json.dumps(candidate(f'of-{each.service_host}'))
        offered = FakePlacement('uuid-h1')
        placed, _ = run(Rocky, [selections], placement=offered, alternates=True)
        assert placed.selections == [selections]
        assert offered.tried == [(A, 'of-h1')]

    def test_unrequested_alternates_are_dropped(self, run):
        placed, _ = run(Rocky, [(named('h1'), named('h2'))])
        assert names(placed) == [['h1']]

    def test_without_candidates_nothing_is_claimed(self, run):
        placed, _ = run(Rocky, [[named('h1')]])
        assert placed.selections[0][0].allocation_request == 'null'

    def test_a_refused_claim_takes_the_first_alternate(self, run):
        offered = FakePlacement('uuid-h1', 'uuid-h2', script=['refused'])
        answer = [[named('h1'), named('h2')]]
        placed, _ = run(Rocky, answer, placement=offered)
        assert names(placed) == [['h2']]

    def test_a_host_without_a_candidate_counts_as_refused(self, run):
        offered = FakePlacement('uuid-h1', 'uuid-h2')
        placed, _ = run(Rocky, [[named('h3'), named('h2')]], placement=offered)
        assert names(placed) == [['h2']]
        assert list(offered.held) == [A]

    @cases(
        'second, script',
        ('a host has no candidate', 'h3', ()),
        ('a claim is refused', 'h2', ['claimed', 'refused']),
    )
    def test_claims_for_some_are_not_enough(self, run, second, script):
        offered = FakePlacement('uuid-h1', 'uuid-h2', script=script)
        answer = [[named('h1')], [named(second)]]
        with pytest.raises(errors.NoValidHost, match='not enough hosts'):
            run(Rocky, answer, [A, B], placement=offered)
        assert offered.held == {}

    @cases(
        'answer',
        ('nothing', None),
        ('too few', [named('h1')]),
        ('none for one', [[named('h1')], []]),
    )
    def test_too_few_hosts_are_not_enough(self, run, answer):
        with pytest.raises(errors.NoValidHost, match='not enough hosts'):
            run(Rocky, answer, [A, B])

    def test_callers_that_name_no_instance_get_hosts(self, run):
        placed, _ = run(Mitaka, [named('h1'), named('h2')], None, num_instances=2)
        assert names(placed) == [['h1'], ['h2']]

    @cases(
        'answer',
        ('a host that is not known', [named('h9')]),
        ('a node that is not known', [named('h1', 'n9')]),
        ('a dict of another kind', [{'hosts': 1}]),
        ('a text', ['h1']),
        (
            'a candidate that is no JSON',
            [Selection(service_host='h1', allocation_request='{nonsense')],
        ),
        (
            'a candidate of another kind',
            [Selection(service_host='h1', allocation_request='[1]')],
        ),
        ('nothing said of a candidate', [Selection(service_host='h1')]),
        ('nothing said of a host', [Selection(allocation_request='null')]),
    )
    def test_invalid_answer_names_the_driver(self, run, answer):
        with pytest.raises(errors.ExtensionFailed, match=r'^Mitaka failed: '):
            run(Mitaka, answer)

    def test_request_ends_with_the_group_and_instance_of_the_last_server(self, run):
        group = factories.group(members=[A, B])
        answer = [named('h1'), named('h2')]
        placed, _ = run(Mitaka, answer, [A, B], instance_group=group)
        assert placed.request.instance_uuid == B
        assert placed.request.instance_group.hosts == ['h1', 'h2']


def test_a_driver_may_find_no_host_in_its_own_words(run):
    class Full(Base):
        def select_destinations(self, context, spec_obj):
            raise errors.NoValidHost('full')

    with pytest.raises(errors.NoValidHost, match='full'):
        run(Full, ())


@cases(
    ('problem', 'raised'),
    ('unset', errors.UnsetField('metadata'), 'Fails failed: Unset'),
    ('setup', errors.FilterNotFound(['X']), 'Fails failed: Filter'),
    (
        'a filter is named already',
        errors.ExtensionFailed('OddHosts', KeyError('x')),
        'OddHosts failed: KeyError',
    ),
    ('a metric', errors.MetricNotFound('load', 'h1', 'n1'), 'Metric load'),
    ('a database', errors.StoreFailed('cell1', 'away'), 'cell1 could not'),
)
def test_error_of_a_driver_names_it(run, problem, raised):
    class Fails(Base):
        def select_destinations(self, context, spec_obj):
            raise problem

    with pytest.raises(errors.RequestError, match=f'^{raised}'):
        run(Fails, ())
