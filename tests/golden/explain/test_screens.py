# SPDX-License-Identifier: Apache-2.0
"""Screens of ``novasched explain``, as they were read and accepted.

``pytest --regold`` writes ours into the files that differ, to be read in review.
"""

import pathlib
from dataclasses import replace

import pytest

from novasched.decisions.comparison import Cause, Verdict
from novasched.decisions.decided import ServerDecision
from novasched.decisions.record import DecisionRecord
from novasched.inspection.questions.explain import explanation
from novasched.inspection.texts import advice
from novasched.inspection.texts.lines import Style
from novasched.inspection.texts.render import as_text, host_as_text
from novasched.runtime.typed_json import to_json
from tests.support.records import decision_records as records
from tests.support.records.compared_records import comparison

HERE = pathlib.Path(__file__).parent


def whole_decision():
    """The decision of a server that got a host, as it is stored."""
    return to_json(records.scheduled().body)['decisions'][0]


def several(result='scheduled', **head):
    """Three servers of one request; the record keeps the first decision whole."""
    decision = whole_decision()
    hosts = ['cmp-044', 'cmp-044', 'cmp-051']
    uuids = [f'c0000000-0000-4000-8000-00000000000{n}' for n in range(3)]
    return records.scheduled(
        head={'servers': 3, 'result': result, **head},
        servers=[
            records.server(uuid, host) for uuid, host in zip(uuids, hosts, strict=True)
        ],
        claims=[{**records.claim(None), 'servers': 3}],
        decisions=[
            decision,
            {'index': 1, 'attempt': 1, 'host': 'cmp-044'},
            {**decision, 'index': 2, 'host': 'cmp-051'},
        ],
    )


def claims_refused():
    """Two hosts passed, and placement granted neither."""
    whole = whole_decision()
    return records.scheduled(
        head={'result': 'unschedulable', 'blocker': 'claims'},
        decisions=[{**whole, 'host': None}],
        servers=[records.server(records.SERVER)],
        claims=[
            records.claim('cmp-044', 'conflict', 'Inventory changed', 12),
            records.claim('cmp-051', 'refused', 'Unable to allocate VCPU', 18),
        ],
        claims_total=4,
    )


def second_try():
    """The best host was refused, and the second was taken; a cell was away."""
    whole = whole_decision()
    return records.scheduled(
        decisions=[{**whole, 'host': 'cmp-051'}],
        servers=[records.server(records.SERVER, 'cmp-051', ['cmp-003'])],
        claims=[
            records.claim('cmp-044', 'conflict', '', 12),
            records.claim('cmp-051', ms=18),
        ],
        claims_total=2,
        view={'left_out': ['cell3'], 'ages_s': {'cell1': 1.0, 'cell3': 74.2}},
        notes=['The trait CUSTOM_X of the image is not known to placement.'],
    )


def decided_again():
    """A host had changed twice, and claims that raced had put another over capacity."""
    record = second_try()
    claims = [records.claim('cmp-044', 'overfull', '', 12), records.claim('cmp-051')]
    rounds = {'host changed': 2, 'overfull': 1, 'a reason of later': 1}
    return records.scheduled(
        **{**to_json(record.body), 'claims': claims, 'rounds': rounds}
    )


def shadowed(verdict, cause, detail, *weighers, **more):
    """A server that nova put on another host, as a shadow saw."""
    compared = comparison(
        verdict,
        cause,
        detail,
        *weighers,
        server=records.SERVER,
        ours='cmp-044',
        nova='cmp-051',
    )
    compared['nova'] |= more
    return records.scheduled(shadow=[compared])


def several_shadowed():
    """Seven servers of a request that nova decided, too."""
    compared = [
        comparison(verdict, cause, server=f'c{n:07}-0000-4000-8000-000000000000')
        for n, (verdict, cause) in enumerate(
            [
                (Verdict.EQUAL, ''),
                (Verdict.OURS_ONLY, Cause.UNKNOWN),
                (Verdict.UNKNOWN, ''),
                *[(Verdict.ALIKE, Cause.CHANCE)] * 4,
            ]
        )
    ]
    body = {**to_json(several().body), 'shadow': compared}
    return records.scheduled(head={'servers': 7}, **body)


def unknown_hosts(code='', left_out=()):
    return records.record(
        {
            'result': 'unschedulable',
            'blocker': 'unknown-hosts',
            'code': code,
            'hosts': 10,
            'candidates': 0,
        },
        asked=[records.asked(candidates=4)],
        decisions=[records.decision(10, 0, [])],
        view={'left_out': list(left_out), 'ages_s': {'cell3': 74.0}},
    )


def of_a_zone():
    """Most hosts are of other zones; two of those would do, as one disabled one."""
    aggregate = '6a4d4f7e-8a9b-4123-8567-89abcdef0000'
    reasons = [
        records.reason('aggregate-missing', 290, aggregate, 2, example='cmp-007',
                       named='az1'),
        records.reason('amount-not-allowed', 19, 'VCPU', 15, 64, 48, 'cmp-310'),
        records.reason('disabled', 1, only=1, example='cmp-300'),
        records.reason('trait-missing', 1, 'HW_CPU_X86_AVX2', 1, example='cmp-301'),
        records.reason('not-together', 1, example='cmp-302'),
    ]  # fmt: skip
    return records.failed(
        'no-candidates',
        head=NO_CANDIDATES,
        asked=[records.asked(candidates=0)],
        placement={**NONE_OFFERED, 'reasons': reasons},
    )


def rebuild():
    request = records.request(is_rebuild=True, image=None, flavor=None)
    decision = records.decision(
        312, 1, [records.step('ComputeFilter', 1, 1)], host='cmp-001'
    )
    return records.record(
        {'candidates': 1},
        request=request,
        asked=[],
        decisions=[decision],
        servers=[records.server(records.SERVER, 'cmp-001')],
    )


def named_host():
    request = records.request(named={'host': 'cmp-x', 'node': None}, zone='')
    error = {'class': 'NoValidHost', 'text': 'No such host - host: cmp-x node: None '}
    return records.failed('named-host', request=request, error=error)


NO_CANDIDATES = {'candidates': 0, 'diagnosis': '', 'plugin': 'placement'}
NONE_OFFERED = {**records.DIAGNOSIS, 'offered': 0}
NONE_OFFERED['reasons'] = [
    records.reason('exhausted', 274, 'PCPU', 231, 8, 6, 'cmp-118'),
    records.reason('disabled', 38, example='cmp-300'),
]
STORE = {'class': 'StoreFailed', 'text': 'Cell c1(cell1): database is locked'}
PLUGIN = {'class': 'ExtensionFailed', 'text': 'Filter MyFilter raised KeyError: 1'}
DISAGREE = {
    'class': 'FlavorImageConflict',
    'text': "Image property 'hw_mem_page_size' conflicts with the flavor.",
}
NO_TRAIT = [
    {
        'query': 'required=CUSTOM_X',
        'pcpu_fallback': False,
        'limit': 1000,
        'status': 400,
        'text': 'No such trait(s): CUSTOM_X.',
        'candidates': 0,
    }
]
SILENCE = [{**NO_TRAIT[0], 'status': 0, 'text': 'timed out'}]

SCREENS = {
    'scheduled': (records.scheduled(), Style(80)),
    'scheduled-wide': (records.scheduled(), Style(120)),
    'scheduled-long': (records.scheduled(), Style(100, is_long=True)),
    'scheduled-colour': (records.scheduled(), Style(80, has_colour=True)),
    'second-try': (second_try(), Style(100)),
    'decided-again': (decided_again(), Style(100)),
    'several': (several(), Style(80)),
    'shadow': (shadowed(Verdict.BETTER, Cause.UNKNOWN, '', 'RAMWeigher', took_s=0.31,
                        refused=['cmp-003']), Style(80)),
    'shadow-rejected': (shadowed(Verdict.REJECTED, Cause.FILTER, 'ComputeFilter'),
                        Style(100)),
    'shadow-several': (several_shadowed(), Style(80)),
    'rebuild': (rebuild(), Style(80)),
    'head-only': (DecisionRecord(records.head_of()), Style(80)),
    'filters': (records.unschedulable(), Style(80)),
    'filters-wide': (records.unschedulable(), Style(120)),
    'filters-narrow': (records.unschedulable(), Style(40)),
    'no-candidates': (records.failed('no-candidates', head=NO_CANDIDATES,
                      asked=[records.asked(candidates=0)], placement=NONE_OFFERED),
                      Style(80)),
    'no-candidates-waiting': (records.failed('no-candidates',
                              asked=[records.asked(candidates=0)],
                              head={**NO_CANDIDATES, 'diagnosis': 'waiting'}),
                              Style(80)),
    'no-candidates-unknown': (records.failed('no-candidates', head=NO_CANDIDATES,
                              asked=[records.asked(candidates=0)]), Style(80)),
    'no-candidates-zone': (of_a_zone(), Style(80)),
    'unknown-hosts': (unknown_hosts(), Style(80)),
    'cell-left-out': (unknown_hosts('cell-left-out', ['cell3']), Style(80)),
    'claims': (claims_refused(), Style(100)),
    'named-host': (named_host(), Style(80)),
    'prefilter': (records.failed('prefilter', 'numa', error=DISAGREE), Style(80)),
    'placement-failed': (records.failed('placement-failed', asked=NO_TRAIT), Style(80)),
    'placement-silent': (records.failed('placement-failed', asked=SILENCE), Style(80)),
    'caller-gone': (records.failed('caller-gone'), Style(80)),
    'plugin': (records.failed('plugin', 'MyFilter', error=PLUGIN), Style(80)),
    'store': (records.failed('store', error=STORE), Style(80)),
    'error': (records.failed('error', error={'class': 'KeyError', 'text': "'x'"}),
              Style(80)),
}  # fmt: skip
HOSTS = {
    'host-filter': (records.unschedulable(), 'cmp-010'),
    'host-one-of': (records.unschedulable(), 'cmp-011'),
    'host-not-offered': (records.unschedulable(), 'cmp-118'),
    'host-not-asked': (records.scheduled(), 'cmp-300'),
    'host-selected': (records.scheduled(), 'cmp-044'),
    'host-alternate': (records.scheduled(), 'cmp-051'),
    'host-passed': (records.scheduled(), 'cmp-100'),
    'host-not-named': (rebuild(), 'cmp-300'),
    'host-of-a-head': (DecisionRecord(records.head_of()), 'cmp-300'),
}


def compare(name, made, regold):
    path = HERE / f'{name}.txt'
    if regold:
        path.write_text(made)
    assert made == path.read_text()


@pytest.fixture
def regold(request):
    return request.config.getoption('--regold')


@pytest.mark.parametrize('name', SCREENS)
def test_screens(name, regold):
    record, style = SCREENS[name]
    made = explanation(record, long=style.is_long)
    compare(name, as_text(made, style), regold)


@pytest.mark.parametrize('name', HOSTS)
def test_hosts(name, regold):
    record, host = HOSTS[name]
    made = replace(explanation(record), of_host=ServerDecision(record).of_host(host))
    compare(name, host_as_text(made, Style(80)), regold)


def test_current_verdict_comes_after_the_recorded_one():
    record = records.unschedulable()
    of_host = ServerDecision(record).of_host('cmp-010')
    now = {'text': 'passes all filters.'}
    made = replace(explanation(record), of_host=of_host, now=now)
    assert host_as_text(made, Style()).splitlines()[-1] == 'Now     passes all filters.'


def test_every_blocker_has_a_screen():
    shown = {record.head.blocker for record, _ in SCREENS.values()}
    assert shown - {''} == set(advice.BLOCKERS)


def test_every_file_is_a_screen():
    assert {path.stem for path in HERE.glob('*.txt')} == {*SCREENS, *HOSTS}
