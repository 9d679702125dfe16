# SPDX-License-Identifier: Apache-2.0
"""Records say how a request ended and what ended it, and have a form of their own."""

import pytest

from novasched import errors
from novasched.decisions.body import (
    RecordBody,
    RecordedDiagnosis,
    RecordedServer,
    RecordedView,
    body_of,
)
from novasched.decisions.record import decode, encode
from novasched.decisions.record_builder import profile_summary
from novasched.drivers.chance import ChanceScheduler
from novasched.objects.request_spec import Destination
from novasched.ports import CallerGone, Cell
from novasched.resources.requirements import Requirements
from novasched.runtime.typed_json import to_json
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.outline import ReasonCount, StepOutline
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers.resources import CPUWeigher, RAMWeigher
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeCaller, FakeDriver, FakePlacement, FakeView
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

A, B, C = (f'c0000000-0000-4000-8000-00000000000{n}' for n in 'abc')


class Broken(BaseHostFilter):
    """Raises what it is given."""

    def __init__(self, problem):
        self._problem = problem

    def host_passes(self, host_state, spec_obj):
        raise self._problem


def refusing(context, request):
    """A prefilter that refuses."""
    return Requirements(refused='no such image', refused_by='refusing')


def full(count=5):
    return factories.hosts(num_instances=[9] * count)


def failing(status):
    placement = FakePlacement()
    placement.fail(status)
    return placement


def gone(options):
    """A host that is named, and that nobody knows."""
    return {'requested_destination': Destination(host='gone', node=None), **options}


def elsewhere():
    """A view that knows the host that is named, which is not offered."""
    return FakeView(factories.hosts(count=2), nodes=[('h9', 'h9', 'uuid-h9')])


class Foreign(FakeDriver):
    """A driver of others."""

    def __init__(self, parts):
        super().__init__(errors.NoValidHost('all are busy'))


class Wordy(FakeDriver):
    """A driver with a defect, whose error quotes the request."""

    def __init__(self, parts):
        super().__init__(ZeroDivisionError('secret'))


def no_host(blocker, plugin='', code=''):
    return 'unschedulable', blocker, plugin, code


@cases(
    ('options', 'request_', 'ending'),
    ('scheduled', {}, {}, ('scheduled', '', '', '')),
    ('a prefilter', {'prefilters': [refusing]}, {}, no_host('prefilter', 'refusing')),
    ('a host that is not known', {}, gone({}), no_host('named-host')),
    (
        'a host that is not offered',
        {'view': elsewhere()},
        {'force_hosts': ['h9']},
        no_host('named-host'),
    ),
    (
        'placement answers with an error',
        {'placement': failing(503)},
        {},
        no_host('placement-failed'),
    ),
    (
        'placement does not answer',
        {'placement': failing(0)},
        {},
        no_host('placement-failed'),
    ),
    ('no candidates', {'placement': FakePlacement()}, {}, no_host('no-candidates')),
    (
        'candidates that nobody knows',
        {'placement': FakePlacement('uuid-of-nobody')},
        {},
        no_host('unknown-hosts'),
    ),
    (
        'no service is up',
        {
            'driver': ChanceScheduler,
            'hosts': factories.hosts(service_up=[False, False]),
        },
        {},
        no_host('unknown-hosts'),
    ),
    (
        'filters',
        {'hosts': full(), 'filters': [ComputeFilter(), NumInstancesFilter(3)]},
        {},
        no_host('filters', 'NumInstancesFilter', 'too-many-instances'),
    ),
    (
        'claims that are refused',
        {'placement': FakePlacement('uuid-h1', 'uuid-h2', script=['refused'] * 9)},
        {},
        no_host('claims'),
    ),
    (
        'claims that do not arrive',
        {'placement': FakePlacement('uuid-h1', script=['unreachable'])},
        {},
        no_host('claims'),
    ),
    (
        'a claim of which nothing is known',
        {'placement': FakePlacement('uuid-h1', script=['unknown'])},
        {},
        ('error', 'claims', '', ''),
    ),
    (
        'the caller is gone',
        {'caller': FakeCaller(CallerGone('conductor'))},
        {},
        ('error', 'caller-gone', '', ''),
    ),
    (
        'a plugin',
        {'filters': [Broken(ValueError('x'))]},
        {},
        ('error', 'plugin', 'Broken', ''),
    ),
    ('a driver of others has no host', {'driver': Foreign}, {}, no_host('plugin')),
    (
        'a database',
        {'filters': [Broken(errors.StoreFailed('database', 'away'))]},
        {},
        ('error', 'store', '', ''),
    ),
    ('anything else', {'driver': Wordy}, {}, ('error', 'error', '', '')),
)
def test_record_head_says_what_ended_the_request(options, request_, ending):
    caller = options.pop('caller', None)
    recorded = Recorded(**options)
    raised = None
    try:
        recorded.ask(caller=caller, **request_)
    except Exception as problem:  # noqa: BLE001 each kind is in the record
        raised = type(problem).__name__
    head, error = recorded.record.head, recorded.record.body.error
    assert (error and error.kind) == raised
    assert (head.result, head.blocker, head.plugin, head.code) == ending


class Strict(FakeDriver):
    """A driver that finds fault with a request, and quotes it."""

    def __init__(self, parts):
        super().__init__(errors.InvalidRequest('no such secret'))


BROKEN = Broken(ValueError('secret'))
ALL_BUSY = 'No valid host was found. all are busy'


@cases(
    ('options', 'text'),
    ('of a plugin', {'filters': [BROKEN]}, 'Broken failed: ValueError'),
    ('of a library', {'driver': Wordy}, ''),
    ('on a request that is invalid', {'driver': Strict}, ''),
    ('of ours stay', {'driver': Foreign}, ALL_BUSY),
)
def test_words_of_others_are_not_kept(options, text):
    """They may quote the request."""
    recorded = Recorded(**options)
    with pytest.raises(Exception):  # noqa: B017 each kind is in the record
        recorded.ask()
    assert recorded.record.body.error.text == text
    assert 'secret' not in str(recorded.record)


# -- the form


BODY = {
    'v', 'servers', 'request', 'asked', 'notes', 'view', 'profile', 'claims',
    'claims_total', 'rounds', 'stages_ms', 'error', 'placement', 'decisions',
}  # fmt: skip
REQUEST = {
    'flavor', 'image', 'zone', 'group', 'forced', 'ignored', 'named', 'hints',
    'pci_requests', 'ports', 'requested_resources', 'numa_nodes', 'is_move',
    'is_rebuild',
}  # fmt: skip
ASKED = {
    'query', 'status', 'candidates', 'limit', 'cut', 'fallback', 'further', 'copied',
    'pcpu_fallback',
}  # fmt: skip
FAILED = {'query', 'status', 'text', 'candidates', 'limit', 'pcpu_fallback'}
WHOLE = {
    'index', 'attempt', 'seed', 'cut', 'further', 'host_list', 'hosts', 'candidates',
    'left', 'steps', 'outcomes', 'top', 'totals', 'weighers', 'no_effect', 'decisive',
    'numa', 'host',
}  # fmt: skip
STAGES = {'prefilter', 'query', 'refresh', 'filter', 'score', 'claim', 'notify'}


def typical(**options):
    return Recorded(
        factories.hosts(
            free_ram_mb=[9000, 8000, 7000, 6000], num_instances=[1, 9, 2, 3]
        ),
        filters=[ComputeFilter(), NumInstancesFilter(limit=5)],
        weighers=[RAMWeigher(), CPUWeigher()],
        **options,
    )


def test_a_body_has_exactly_its_fields():
    recorded = typical()
    recorded.ask([A, B, C])
    body = to_json(recorded.record.body)
    assert set(body) == BODY
    assert set(body['request']) == REQUEST
    assert [set(each) for each in body['asked']] == [ASKED]
    assert [set(each) for each in body['servers']] == [
        {'uuid', 'host', 'node', 'cell', 'alternates'}
    ] * 3
    assert [set(each) for each in body['decisions']] == [
        WHOLE,
        {'index', 'attempt', 'host'},
        WHOLE,
    ]
    assert [set(each) for each in body['claims']] == [
        {'host', 'servers', 'outcome', 'text', 'ms'}
    ]
    whole = body['decisions'][0]
    assert [set(each) for each in whole['steps']] == [
        {'name', 'in', 'out', 'reasons'}
    ] * 2
    assert [set(each) for each in whole['weighers']] == [
        {'name', 'raw', 'normalised', 'multipliers'}
    ] * 2
    assert set(body['stages_ms']) <= STAGES
    assert set(body['view']) == {'left_out', 'ages_s'}


def test_a_failed_query_says_so():
    recorded = typical(placement=failing(503))
    recorded.refused()
    (asked,) = to_json(recorded.record.body.asked)
    assert set(asked) == FAILED
    assert (asked['status'], asked['text'], asked['candidates']) == (503, 'away', 0)
    assert recorded.record.body.decisions == []


def test_a_body_is_the_same_once_it_was_encoded():
    recorded = typical()
    recorded.ask([A, B, C])
    body = recorded.record.body
    found = body_of(decode(encode(body)))
    assert found.decisions[0].outcomes == body.decisions[0].outcomes
    assert found.decisions[0].totals == pytest.approx(
        body.decisions[0].totals, rel=1e-6
    )
    assert encode(found) == encode(body)


def test_record_has_hosts_and_weights_of_a_decision():
    recorded = typical()
    ((selected, *alternates),) = recorded.ask([A])
    record = recorded.record
    (decision,) = record.body.decisions
    assert record.host_lists == {decision.host_list: ['h1', 'h2', 'h3', 'h4']}
    assert list(decision.outcomes) == [1, 3, 1, 1]
    assert decision.host == selected.service_host == 'h1'
    assert decision.top == ['h1', 'h3', 'h4']
    assert (decision.hosts, decision.candidates, decision.left) == (4, 4, 3)
    reason = ReasonCount('too-many-instances', '9 instances, limit 5', 1, 'h2')
    assert decision.steps == [
        StepOutline('ComputeFilter', 4, 4, ()),
        StepOutline('NumInstancesFilter', 4, 3, (reason,)),
    ]
    (server,) = record.body.servers
    others = [each.service_host for each in alternates]
    assert server == RecordedServer(A, 'h1', 'h1', 'cell1', others)
    assert (record.head.hosts, record.head.candidates) == (4, 4)


def test_hosts_are_listed_once_while_they_stay():
    recorded = typical()
    recorded.ask()
    recorded.ask()
    first, second = (record.host_lists for record in recorded.log.records)
    assert first.keys() == second.keys()
    ((names,), (same,)) = first.values(), second.values()
    assert names is same


def test_nodes_of_one_host_have_distinct_names():
    hosts = factories.hosts(host=['ironic', 'ironic', 'h3'], nodename=['a', 'b', 'c'])
    recorded = Recorded(hosts)
    recorded.ask()
    (names,) = recorded.record.host_lists.values()
    assert names == ['ironic/a', 'ironic/b', 'h3']


def test_the_head_has_what_lists_show():
    recorded = typical(worker='controller-1:42')
    request = {'project_id': 'p', 'user_id': 'u', 'availability_zone': 'az1'}
    recorded.ask([A, B], **request)
    head = recorded.record.head
    assert (head.project_id, head.user_id, head.zone) == ('p', 'u', 'az1')
    assert (head.servers, head.worker, head.diagnosis) == (2, 'controller-1:42', '')
    assert head.at == int(recorded.log.clock.time() * 1e6)
    assert head.flavor == factories.request().flavor.name


def test_profile_is_stored_once_by_its_hash():
    conf = make_conf(novasched={'no_valid_host_detail': 'user'})
    profile = Profile((ComputeFilter(),), (RAMWeigher(2.0),))
    kept = profile_summary(profile, conf)
    recorded = typical(kept_profile=kept)
    recorded.ask()
    (found,) = recorded.record.profiles.items()
    assert found == (recorded.record.body.profile, kept)
    assert kept['filters'] == ['ComputeFilter']
    assert kept['weighers'] == {'RAMWeigher': 2.0}
    assert kept['options']['no_valid_host_detail'] == 'user'
    assert kept['driver'] == 'filter_scheduler'
    other = typical(kept_profile={**kept, 'driver': 'chance_scheduler'})
    other.ask()
    assert other.record.profiles.keys() != recorded.record.profiles.keys()


# -- cells, and what placement held back


def silent(*names):
    hosts = factories.hosts(count=3)
    view = FakeView(hosts, {n: Cell(n, n, None, None, False) for n in names})
    view.silent = set(names)
    return view


@cases(
    'options',
    ('with a decision', {}),
    ('with no host', {'filters': [NumInstancesFilter(limit=0)]}),
)
def test_record_names_cells_left_out_of_the_decision(options):
    recorded = Recorded(view=silent('east'), **options)
    try:
        recorded.ask([A, B])
    except errors.NoValidHost:
        assert recorded.record.head.result == 'unschedulable'
    assert recorded.record.body.view.left_out == ['east']


def test_a_server_after_the_first_has_the_cells_left_out_too():
    class First(BaseHostFilter):
        def host_passes(self, host_state, spec_obj):
            return spec_obj.instance_uuid == A and host_state.host != 'h2'

    recorded = Recorded(view=silent('east'), filters=[First()])
    recorded.refused([A, B])
    last = recorded.record.body.decisions[-1]
    assert recorded.record.body.view.left_out == ['east']
    assert (last.index, last.candidates, last.left) == (1, 3, 0)


def test_record_without_a_decision_names_current_cells():
    recorded = Recorded(
        placement=FakePlacement(),
        left_out=lambda: ('west',),
        ages_s=lambda: {'east': 1.5},
        known=lambda: 312,
    )
    recorded.refused()
    assert recorded.record.body.view == RecordedView(['west'], {'east': 1.5})
    assert (recorded.record.head.hosts, recorded.record.head.candidates) == (312, 0)


DIAGNOSIS = {'age_s': 1.0, 'source': 'api', 'hosts': 3, 'offered': 0, 'reasons': []}


@cases(
    'diagnose, waits, placement, state',
    ('off', None, False, FakePlacement(), ''),
    ('at once', lambda q: DIAGNOSIS, True, FakePlacement(), 'made'),
    ('later', lambda q: None, True, FakePlacement(), 'waiting'),
    ('never', lambda q: None, False, FakePlacement(), ''),
    ('of an error', lambda q: None, True, failing(503), ''),
)
def test_requests_without_candidates_are_diagnosed(diagnose, waits, placement, state):
    recorded = Recorded(
        placement=placement, diagnose=diagnose, waits_for_diagnosis=waits
    )
    recorded.refused()
    assert recorded.record.head.diagnosis == state
    made = RecordedDiagnosis(**DIAGNOSIS) if state == 'made' else None
    assert recorded.record.body.placement == made


def test_a_diagnosis_that_raises_costs_no_more_than_itself(caplog):
    def diagnose(query):
        raise errors.InconsistentProviders('a row refers to an unknown id')

    recorded = Recorded(placement=FakePlacement(), diagnose=diagnose)
    for _ in range(2):
        recorded.refused()
        record = recorded.record
        assert (record.head.blocker, record.head.diagnosis) == ('no-candidates', '')
        assert record.body.placement is None
        assert len(record.body.asked) == 1
    assert caplog.text.count('Records have no diagnosis') == 1


def test_requests_that_got_a_host_are_not_diagnosed():
    asked = []
    recorded = Recorded(diagnose=asked.append, waits_for_diagnosis=True)
    recorded.ask()
    assert (asked, recorded.record.head.diagnosis) == ([], '')


def test_drivers_of_others_have_records_without_decisions():
    class Mine(FakeDriver):
        def __init__(self, parts):
            super().__init__()

    recorded = Recorded(driver=Mine)
    recorded.ask([A, B])
    head, body = recorded.record.head, recorded.record.body
    assert (head.result, head.servers, head.candidates) == ('scheduled', 2, 5)
    assert body.decisions == []
    assert [each.host for each in body.servers] == ['h1', 'h1']
    assert len(body.claims) == 2


def test_refused_claims_have_the_hosts_of_their_nodes():
    offered = FakePlacement('uuid-h4', 'uuid-h2', script=['refused'] * 2)
    for one in offered.offered:  # as with shared storage
        one['allocations']['shared'] = {'resources': {'DISK_GB': 1}}
    recorded = Recorded(factories.hosts(count=5), offered)
    recorded.refused()
    claims = recorded.record.body.claims
    assert sorted(claim.host for claim in claims) == ['h2', 'h4']


def test_an_outcome_has_no_more_than_the_servers():
    recorded = typical()
    recorded.ask([A])
    recorder = recorded.log.requests[-1]
    found = recorded.log.builder.outcome(recorder)
    assert found.head == recorded.record.head
    assert found.body == RecordBody(servers=recorded.record.body.servers)
