# SPDX-License-Identifier: Apache-2.0
"""The last seconds of all schedulers, added up, and as text."""

import json
from dataclasses import replace

import pytest

from novasched.decisions.overview import summarize
from novasched.inspection.questions.overview import merged as merged_overviews
from novasched.inspection.questions.reports import (
    BlockerCount,
    CellState,
    LostClaims,
    OutageSummary,
)
from novasched.inspection.texts import top
from novasched.inspection.texts.lines import Style
from novasched.runtime.typed_json import to_json
from tests.support.records.stored_records import NOON, make_record
from tests.unit.inspection.machines import log_of, merged

VIEW = {'left_out': ['cell3'], 'ages_s': {'cell1': 1.0, 'cell2': 1.2, 'cell3': 74.0}}


def record(at_s, host='cmp-044', took_ms=20, query_ms=16, **more):
    body = {'stages_ms': {'query': query_ms}, 'view': VIEW, **more.pop('body', {})}
    return make_record(NOON + at_s, host, took_us=took_ms * 1000, body=body, **more)


STEPS = {
    'decisions': [
        {
            'index': 0,
            'steps': [
                {
                    'name': 'RAMFilter',
                    'in': 30,
                    'out': 0,
                    'reasons': [
                        ['not-enough-ram', '', 27, 'cmp-1'],
                        ['rejected', '', 3, 'cmp-2'],
                    ],
                }
            ],
        }
    ]
}
LOST = {'claims': [{'outcome': 'yielded'}, {'outcome': 'yielded'}]}
DIAGNOSED = {'placement': {'reasons': [{'code': 'exhausted', 'hosts': 240}]}}
HERE = [
    record(50, took_ms=20, uuid='5b1c8e42-0c9e-4f0e', request_id='r'),
    record(96, None, took_ms=19, uuid='9e07c2d1-0c9e-4f0e', body=STEPS),
]
THERE = [
    record(97, took_ms=180, uuid='77ad0000-0000-4000', servers=3, body=LOST),
    record(
        98,
        None,
        took_ms=30,
        uuid='88ad0000-0000-4000',
        blocker='no-candidates',
        plugin='',
        code='exhausted',
        body=DIAGNOSED,
    ),
    record(20, 'old'),
]

DRAWN = [
    ('  14:14:58    88ad0000     m1.large     NO VALID HOST  exhausted 240', 30),
    ('  14:14:57    77ad0000 +2  m1.large     scheduled      cmp-044', 180),
    ('  14:14:56    9e07c2d1     m1.large     NO VALID HOST  not-enough-ram 27', 19),
    ('  14:14:10    5b1c8e42     m1.large     scheduled      cmp-044', 20),
]
"""Rows, and how long each took."""


@pytest.fixture
def overview():
    """Of the minute up to NOON + 100 s."""
    there = log_of(THERE)
    there.write_encoded([], lost=3)
    decisions, _ = merged(log_of(HERE), there=there, yonder='does not answer', old=None)
    return decisions.overview(60)


def test_sums(overview):
    assert overview.schedulers == ['here', 'there']
    assert overview.results == {'scheduled': 2, 'unschedulable': 2}
    assert overview.records_lost == 3
    assert overview.lost_claims == {'yielded': LostClaims(2, 3.0)}
    assert overview.requests_per_s == pytest.approx(4 / 60)
    assert overview.in_flight == pytest.approx(0.249 / 60)
    assert overview.took_ms == {'p50': 30.0, 'p99': 180.0}
    assert overview.placement_ms == {'p50': 16}
    assert overview.blockers == [
        BlockerCount('RAMFilter', 1, 'not-enough-ram'),
        BlockerCount('exhausted', 1, ''),
    ]
    assert sum(minute['scheduled'] for minute in overview.minutes) == 2
    json.dumps(to_json(overview))


def test_cells_are_as_the_last_decision_saw_them(overview):
    assert overview.cells == [
        CellState('cell1', 1.0, False),
        CellState('cell2', 1.2, False),
        CellState('cell3', 74.0, True),
    ]


def test_the_newest_of_all_come_first(overview):
    rows = [(row.scheduler, row.server, row.rejected) for row in overview.newest]
    assert rows == [
        ('there', '88ad0000-0000-4000', 240),
        ('there', '77ad0000-0000-4000', 0),
        ('here', '9e07c2d1-0c9e-4f0e', 27),
        ('here', '5b1c8e42-0c9e-4f0e', 0),
    ]


def test_outages_of_all_workers_are_added_up():
    def worker(since_s, waiting):
        away = {'service': 'placement', 'problem': '503', 'in_vain': 1}
        return [{**away, 'since_s': since_s, 'waiting': waiting}]

    old = summarize(log_of(), 60)
    here, there = (replace(old, outages=worker(*each)) for each in ((9.94, 2), (2, 1)))
    overview = merged_overviews({'here': here, 'there': there, 'old': old}, 60)
    assert overview.outages == [OutageSummary('placement', '503', 9.9, 3, 2)]
    line = '  Away        placement since 10 s, 3 requests waiting: 503'
    assert line in top.frame(overview, Style(100)).splitlines()


def test_picks_of_all_workers_are_counted():
    old = summarize(log_of(), 60)
    first = {'assumed': 3, 'oldest_s': 4.2, 'sent': 2, 'received': 1}
    second = {'assumed': 2, 'oldest_s': 9.6, 'sent': 1, 'received': 2, 'lost': 1}
    both = {'here': replace(old, picks=[first, second]), 'old': old}
    overview = merged_overviews(both, 60)
    line = '  Picks       3 assumed, the oldest for 10 s   sent 3   received 3   lost 1'
    assert line in top.frame(overview, Style(100)).splitlines()


def test_nothing_at_all():
    overview = merged(log_of())[0].overview(60)
    assert overview.took_ms == {'p50': None, 'p99': None}
    assert overview.newest == overview.cells == []
    assert top.frame(overview, Style(100)).splitlines() == [
        'novasched top   1 scheduler   14:15:00Z   requests/s 0   in flight, mean 0',
        '  last 60 s   scheduled 0   no valid host 0   error 0   records lost 0',
    ]


def test_it_is_drawn(overview):
    lines = top.frame(overview, Style(100)).splitlines()
    assert lines == [
        'novasched top   2 schedulers   14:15:00Z   requests/s 0.067   '
        'in flight, mean <0.01   p50 30 ms',
        '                p99 180 ms   placement p50 16 ms',
        '  last 60 s   scheduled 2   no valid host 2   error 0   yielded 2, 3 s ago   '
        'records lost 3',
        '  Blockers    RAMFilter 1   exhausted 1',
        '  Cells       cell1 (1 s)   cell2 (1 s)   unavailable cell3 (74 s)',
        '  Not seen    yonder did not answer; decisions that it made are not seen',
        '              old runs nova-scheduler, which keeps no decisions',
        *(f'{start:<91}{took:>6} ms' for start, took in DRAWN),
    ]


@pytest.mark.parametrize('width', [80, 100, 200])
def test_it_fits_into_the_width(overview, width):
    assert all(len(li) <= width for li in top.frame(overview, Style(width)).split('\n'))


def test_only_so_many_rows(overview):
    assert len(top.frame(overview, Style(100), rows=2).splitlines()) == 9


def test_colours_need_a_terminal(overview):
    assert '\033[' not in top.frame(overview, Style(100))
    assert '\033[' in top.frame(overview, Style(100, has_colour=True))
