# SPDX-License-Identifier: Apache-2.0
"""The explanation of a record: stages that add up, margins, outcomes of hosts."""

import collections
import dataclasses
import json

import pytest

from novasched import errors
from novasched.decisions.body import RecordBody, RecordedServer, body_of
from novasched.decisions.decided import PASSED_ALL, PLACEMENT, ServerDecision, index_of
from novasched.decisions.record import DecisionRecord, decode, encode
from novasched.inspection.questions.explain import explanation
from novasched.inspection.texts import causes
from novasched.inspection.texts.lines import Style
from novasched.inspection.texts.render import as_text, host_as_text
from novasched.runtime.typed_json import to_json
from tests.support.records import decision_records as records
from tests.support.tables.cases import cases

UUIDS = [f'c0000000-0000-4000-8000-00000000000{n}' for n in range(3)]


def funnel(explained):
    return [(s.name, s.before, s.after) for s in explained.stages]


def reasons(explained, name):
    (stage,) = [s for s in explained.stages if s.name == name]
    return [(r.code, r.count) for r in stage.reasons]


def several(*hosts, decisions=(), **changes):
    """A request for several servers, with the decisions that are kept."""
    servers = [records.server(u, h) for u, h in zip(UUIDS, hosts, strict=False)]
    head = {'servers': len(hosts), **changes.pop('head', {})}
    return records.record(head, servers=servers, decisions=list(decisions), **changes)


def test_unchecked_demand_is_a_note():
    specs = {'pci_passthrough:alias': 'gpu:1'}
    flavor = {**records.FLAVOR, 'extra_specs': specs}
    request = records.request(flavor=flavor, group=records.GROUP)
    record = records.scheduled(notes=['a prefilter ran'], request=request)
    record.profiles['p1'] = {
        'driver': 'filter_scheduler',
        'filters': ['ComputeFilter'],
        'weighers': {},
    }
    assert explanation(record).notes == [
        'a prefilter ran',
        'Flavor m1.large asks for pci_passthrough:alias=gpu:1, which no enabled filter '
        'checks: add PciPassthroughFilter to [filter_scheduler] enabled_filters',
        'The server group asks for anti-affinity, which no enabled filter checks: add '
        'ServerGroupAntiAffinityFilter to [filter_scheduler] enabled_filters',
    ]


def test_a_scheduled_server():
    explained = explanation(records.scheduled())
    assert explained.result == 'scheduled'
    assert explained.picked == 'cmp-044'
    assert explained.at == '2026-11-22T12:00:03Z'
    assert explained.took_ms == 24
    assert funnel(explained) == [
        ('placement', 312, 187),
        ('AllHostsFilter', 187, 187),
        ('ComputeFilter', 187, 185),
        ('ServerGroupAntiAffinityFilter', 185, 182),
    ]
    assert reasons(explained, 'placement') == [('not-asked', 125)]
    assert to_json(explained.margin) == {
        'over': 'cmp-051',
        'by': 0.0314,
        'weighers': {'RAMWeigher': 0.0218, 'CPUWeigher': 0.0096, 'IoOpsWeigher': 0},
        'decisive': {'CPUWeigher': 'cmp-003'},
    }
    assert to_json(explained.top[0].weights['IoOpsWeigher']) == {
        'raw': 100,
        'normalised': 0.1,
        'multiplier': -1,
        'adds': -0.1,
    }
    assert explained.policy['version'] == '0.1.0'
    assert explained.hosts is None


def test_a_record_survives_the_store():
    record = records.unschedulable()
    stored = dataclasses.replace(record, body=body_of(decode(encode(record.body))))
    assert explanation(stored, long=True) == explanation(record, long=True)


def test_reasons_of_placement_come_from_the_diagnosis():
    explained = explanation(records.unschedulable())
    assert reasons(explained, 'placement') == [
        ('exhausted', 240),
        ('disabled', 38),
        ('trait-missing', 3),
    ]
    first = explained.stages[0].reasons[0]
    assert first.what == 'PCPU'
    assert first.text == '8 wanted, at most 6 free, the only obstacle for 200'


def test_a_decision_on_hosts_that_placement_no_longer_offered_counts_them_once():
    filtered = records.unschedulable()
    record = records.failed(
        'no-candidates',
        head={'hosts': 312, 'candidates': 31, 'diagnosis': 'made'},
        decisions=filtered.body.decisions,
        placement={
            **records.DIAGNOSIS,
            'offered': 0,
            'reasons': [records.reason('disabled', 312, example='cmp-300')],
        },
    )
    assert funnel(explanation(record)) == [('placement', 312, 0)]


@cases(
    'age_s, words',
    ('while the record waits', 60, causes.WHILE_WAITING),
    ('after it was given up', 3600, causes.UNKNOWN),
    ('long after', 86400, causes.UNKNOWN),
)
def test_a_diagnosis_is_promised_while_one_may_be_made(age_s, words):
    waiting = {'diagnosis': 'waiting', 'candidates': 0}
    record = records.failed('no-candidates', head=waiting)
    explained = explanation(record, now_s=record.head.at / 1e6 + age_s)
    assert words in causes.blocked(explained)
    assert words in ' '.join(as_text(explained, Style(200)).split())


def test_hosts_that_the_diagnosis_did_not_count_are_not_asked():
    diagnosis = {**records.DIAGNOSIS, 'reasons': records.DIAGNOSIS['reasons'][:1]}
    explained = explanation(records.unschedulable(placement=diagnosis))
    assert reasons(explained, 'placement') == [('not-asked', 243), ('disabled', 38)]


def test_hosts_that_only_placement_knows_count():
    more = records.reason('disabled', 50)
    diagnosis = {**records.DIAGNOSIS, 'reasons': [more] * 6}
    explained = explanation(records.unschedulable(placement=diagnosis))
    assert funnel(explained)[0] == ('placement', 331, 31)


def test_hosts_without_row_or_service_are_a_stage():
    head = {
        'result': 'unschedulable',
        'blocker': 'unknown-hosts',
        'candidates': 0,
        'hosts': 10,
    }
    decision = records.decision(10, 0, [], host_list='none')
    asked = [records.asked(candidates=4)]
    record = records.record(head, asked=asked, decisions=[decision])
    explained = explanation(record)
    assert funnel(explained) == [('placement', 14, 4), ('known hosts', 4, 0)]
    assert reasons(explained, 'known hosts') == [('unknown-host', 4)]


def test_hosts_that_are_not_named_are_a_stage():
    steps = [records.step('ComputeFilter', 1, 1)]
    decision = records.decision(10, 5, steps, host='cmp-001')
    explained = explanation(records.record(hosts=10, decisions=[decision]), long=True)
    assert ('named hosts', 5, 1) in funnel(explained)
    assert collections.Counter(explained.hosts.values()) == {
        'passed': 1,
        'not named': 4,
        'placement': 5,
    }


def test_where_placement_was_not_asked_the_request_names_its_hosts():
    decision = records.decision(10, 1, [], host='cmp-001', host_list='abc')
    record = records.record({'candidates': 1}, hosts=10, asked=[], decisions=[decision])
    explained = explanation(record, long=True)
    assert funnel(explained) == [('named hosts', 10, 1)]
    assert collections.Counter(explained.hosts.values()) == {
        'passed': 1,
        'not named': 9,
    }


def test_the_hosts_of_later_servers_are_what_earlier_ones_left():
    first = records.decision(
        10,
        6,
        [records.step('A', 6, 4, ('rejected', 'rejected', 2, 'cmp-005'))],
        host='cmp-001',
    )
    second = records.decision(
        10,
        4,
        [records.step('A', 4, 3, ('rejected', 'rejected', 1, 'cmp-004'))],
        index=1,
        host='cmp-002',
    )
    record = several(
        'cmp-001',
        'cmp-002',
        decisions=[first, second],
        head={'candidates': 6},
        hosts=10,
    )
    explained = explanation(record, 1, long=True)
    assert funnel(explained) == [
        ('placement', 10, 6),
        ('earlier servers', 6, 4),
        ('A', 4, 3),
    ]
    assert collections.Counter(explained.hosts.values()) == {
        'placement': 4,
        'earlier servers': 2,
        'A': 1,
        'passed': 3,
    }


@cases(
    'index, picked, attempt',
    ('the first one, in its last attempt', None, 'a', 2),
    ('the first', 0, 'a', 2),
    ('one that is kept by its host only', 1, 'b', 2),
    ('the last, not what came after for the alternates', 2, 'c', 2),
)
def test_the_decision_for_a_server(index, picked, attempt):
    def whole(index, attempt, host):
        return records.decision(10, 10, [], index=index, attempt=attempt, host=host)

    record = several(
        'a',
        'b',
        'c',
        decisions=[
            whole(0, 1, 'z'),
            whole(0, 2, 'a'),
            {'index': 1, 'attempt': 2, 'host': 'b'},
            whole(2, 2, 'c'),
            whole(2, 2, None),
        ],
        hosts=10,
    )
    explained = explanation(record, index)
    assert (explained.picked, explained.attempt) == (picked, attempt)
    assert len(explained.decisions) == 5


def test_of_a_failed_request_the_decision_without_host_counts():
    record = several(
        None,
        None,
        decisions=[
            records.decision(10, 5, [], host='a'),
            records.decision(
                10, 4, [records.step('A', 4, 0, ('rejected', '', 4, 'b'))], index=1
            ),
        ],
        head={'result': 'unschedulable', 'blocker': 'filters', 'plugin': 'A'},
        hosts=10,
    )
    assert explanation(record).index == 1


@pytest.mark.parametrize('index', [-1, 1])
def test_an_index_beyond_the_request_is_refused(index):
    with pytest.raises(errors.OptionError, match='for 1 server'):
        explanation(records.scheduled(), index)


def test_the_index_of_a_server():
    two, one = (made.body.servers for made in (several('a', 'b'), records.scheduled()))
    assert (index_of(two, UUIDS[1]), index_of(two, UUIDS[1][:8])) == (1, 0)
    assert index_of(two, records.SERVER) is index_of(two, '') is None
    assert index_of(one, records.SERVER) is None


def test_numbers_that_json_lacks_are_null():
    decision = records.decision(
        2,
        2,
        [],
        host='a',
        top=['a', 'b'],
        totals=[float('inf'), 1.0],
        weighers=[
            records.weigher('RAMWeigher', [1.0, 0.5], raw=[float('nan'), 1.0]),
            records.weigher('CPUWeigher', [1.0, 0.5], float('inf')),
        ],
    )
    explained = explanation(records.record(decisions=[decision], hosts=2))
    json.dumps(to_json(explained), allow_nan=False)
    assert explained.top[0].total is None
    assert explained.top[0].weights['RAMWeigher'].raw is None
    assert explained.margin.by is None


@cases(
    'changes',
    ('one host', {'top': ['a'], 'totals': [1.0], 'host': 'a'}),
    ('none was picked', {'top': ['a', 'b'], 'totals': [1.0, 0.5]}),
    (
        'the picked one is not among the best',
        {'top': ['a', 'b'], 'totals': [1.0, 0.5], 'host': 'z'},
    ),
)
def test_without_a_second_there_is_no_margin(changes):
    decision = records.decision(2, 2, [], **changes)
    assert explanation(records.record(decisions=[decision])).margin is None


def test_a_head_alone_can_be_explained():
    record = DecisionRecord(records.head_of())
    explained = explanation(record, long=True)
    assert explained.kept == 'head'
    assert explained.stages == []
    assert explained.hosts is None


def test_outcomes_need_the_list_of_hosts():
    record = records.scheduled()
    without = dataclasses.replace(record, host_lists={})
    assert explanation(without, long=True).hosts is None
    assert ServerDecision(without).of_host('cmp-001').outcome is None


def test_filters_beyond_the_last_code_share_it():
    steps = [records.step(f'F{n}', 10, 10) for n in range(300)]
    steps.append(records.step('Last', 10, 9, ('rejected', '', 1, 'cmp-010')))
    decision = records.decision(10, 10, steps)
    record = records.record(hosts=10, decisions=[decision])
    assert explanation(record, long=True).hosts['cmp-010'] == 'F252'


class TestOfHost:
    """What became of one host."""

    def of(self, host, record=None):
        return ServerDecision(record or records.unschedulable()).of_host(host)

    def test_the_host_of_the_example_has_its_own_reason(self):
        found = self.of('cmp-010')
        assert found.outcome == 'NUMATopologyFilter'
        assert found.is_exact
        assert [r.code for r in found.reasons] == ['not-enough-dedicated-cpus']

    def test_others_have_one_of_several(self):
        found = self.of('cmp-011')
        assert not found.is_exact
        assert len(found.reasons) == 2

    def test_single_reason_applies_to_every_host(self):
        found = self.of('cmp-001')
        assert found.outcome == 'ComputeFilter'
        assert found.is_exact

    def test_hosts_of_placement_have_the_reasons_of_the_diagnosis(self):
        found = self.of('cmp-118')
        assert found.outcome == PLACEMENT
        assert [r.code for r in found.reasons] == ['exhausted']

    def test_a_picked_host(self):
        found = self.of('cmp-044', records.scheduled())
        assert found.outcome == PASSED_ALL
        assert (found.rank, found.passed) == (1, 182)
        assert found.servers == [records.SERVER]
        assert [c.outcome for c in found.claims] == ['claimed']

    def test_an_alternate(self):
        assert self.of('cmp-051', records.scheduled()).is_alternate

    def test_without_candidates_placement_took_it(self):
        record = records.failed('no-candidates', head={'candidates': 0})
        assert self.of('cmp-001', record).outcome == PLACEMENT

    def test_an_unknown_host_is_refused_with_one_that_is_alike(self):
        with pytest.raises(errors.OptionError, match='mean cmp-044'):
            self.of('cmp-0444')
        with pytest.raises(errors.OptionError, match='--long'):
            self.of('elsewhere')


@pytest.mark.parametrize('made', [records.scheduled(), records.failed('no-candidates')])
def test_of_a_head_with_servers_every_text_can_be_made(made):
    """The scheduler keeps so much of a record where it is told to, or has too many."""
    servers = [RecordedServer(UUIDS[0], made.body.servers[0].host)]
    body = RecordBody(servers=servers)
    head = dataclasses.replace(made, body=body, host_lists={})
    style = Style(80)
    explained = explanation(head)
    assert made.head.id in as_text(explained, style)
    of_host = ServerDecision(head).of_host('cmp-044')
    of_one = dataclasses.replace(explained, of_host=of_host)
    assert 'cmp-044' in host_as_text(of_one, style)
    assert not of_host.is_alternate


@pytest.mark.parametrize(
    ('servers', 'named'), [([records.server(UUIDS[0])], UUIDS[0]), ([], 'UUID')]
)
def test_a_server_that_holds_allocations_already_has_a_remedy_of_its_own(
    servers, named
):
    error = {'class': 'AlreadyClaimed', 'text': 'it holds allocations already'}
    made = records.failed('claims', error=error, servers=servers)
    (said,) = causes.remedies(explanation(made))
    assert f'allocation show {named}.' in said
    assert f'allocation delete {named}.' in said
    (other,) = causes.remedies(explanation(records.failed('claims')))
    assert 'other requests took them' in other
