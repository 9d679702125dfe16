# SPDX-License-Identifier: Apache-2.0
"""Pages in states that a cloud in order does not have, for everybody, too."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from novasched import errors
from novasched.decisions.comparison import Cause, Verdict
from novasched.decisions.record import DecisionRecord
from novasched.inspection.questions import explain, overview
from tests.browser import console, contrast
from tests.browser.browser import COLOURS, DARK, LIGHT
from tests.support.records import console_answers, decision_records
from tests.support.records.compared_records import comparison
from tests.support.records.console_answers import SCHEDULED, GivenReader, part


class State(NamedTuple):
    """A page, what the reader answers for it, and a text that it has then."""

    path: str
    said: str
    answers: dict = {}


def decision_of(record):
    return {'decision': explain.explanation(record, None, long=True)}


def head_only():
    record = decision_records.changed(console_answers.RECORDS[SCHEDULED])
    return DecisionRecord(record.head)


def compared():
    """A decision that nova made otherwise."""
    found = comparison(Verdict.ALIKE, Cause.CHANCE, server=decision_records.SERVER)
    return decision_records.scheduled(shadow=[found])


def failing():
    said = 'the database does not answer: connection refused'
    checks = {
        'api_database': {'status': 'fail', 'time': '2026-11-22T12:10:07Z'},
        'cell cell1': {'status': 'warn', 'time': '2026-11-22T12:10:07Z'},
        'placement': {'status': 'pass', 'time': '2026-11-22T12:10:07Z'},
    }
    checks['api_database']['output'] = said
    checks['cell cell1']['output'] = 'it did not answer within 3 s'
    free = [['m1.large', 'az1', 12], ['m1.small', None, 0]]
    return {'health': {'status': 'fail', 'checks': checks, 'free_slots': free}}


NOTHING = part(results={}, minutes=[], newest=[], reasons=[], took_us={})
ROW_OF_TWO_CELLS = {
    **console_answers.HOSTS,
    'total': 1,
    'pages': 1,
    'cells': ['cell1', 'cell2'],
    'cells_left_out': ['cell2'],
    'problem': 'Placement could not be asked: HTTP 503',
}
STATES = {
    'overview in part': State(
        '/',
        'ctl2 did not answer',
        {'overview': overview.merged({'ctl1': part()}, 3600.0, ['ctl2'], ['ctl3'])},
    ),
    'overview without decisions': State(
        '/',
        'No decision in the last hour',
        {'overview': overview.merged({'ctl1': NOTHING}, 3600.0)},
    ),
    'decision that failed': State(
        '/decisions/d-06f3kd1r0vb4n',
        'Failed',
        decision_of(decision_records.failed('error')),
    ),
    'decision of which the head is kept': State(
        f'/decisions/{SCHEDULED}', 'Only the head', decision_of(head_only())
    ),
    'decision of a shadow': State(
        f'/decisions/{SCHEDULED}', 'hosts of one weight', decision_of(compared())
    ),
    'report of a shadow': State('/shadow', 'Systematically different'),
    'run of the lab': State('/lab', 'Not the same load'),
    'no decision': State('/decisions/d-123456', 'No record is kept'),
    'hosts in part': State(
        '/hosts', 'cell2 does not answer', {'hosts': ROW_OF_TWO_CELLS}
    ),
    'health that fails': State('/health', 'connection refused', failing()),
    'too much at once': State(
        '/hosts', 'Load the page again', {'hosts': errors.Busy('questions')}
    ),
    'database away': State(
        '/', 'Scheduling goes on', {'overview': errors.StoreFailed('api', 'it is away')}
    ),
}


class StateReader(GivenReader):
    """A reader whose answers are those of one state after the other."""

    def show(self, state):
        self._answers = state.answers


@pytest.fixture(scope='module')
def reader():
    return StateReader()


@pytest.fixture(scope='module')
def stated(reader):
    """Where a console of that reader is."""
    with console.served(reader) as address:
        yield f'http://127.0.0.1:{address.port}'


@pytest.mark.parametrize('name', STATES)
def test_each_state_keeps_contrast_and_names(browser_at, reader, stated, name):
    state = STATES[name]
    reader.show(state)
    browser = browser_at(stated)
    browser.open(state.path)
    assert state.said in browser.text('main')
    assert browser.one('h1').is_displayed()
    for theme in (LIGHT, DARK):
        browser.prefer(theme)
        assert contrast.faint(browser) == []
        assert browser.violations(*COLOURS if theme == DARK else ()) == []
    for width in (320, 1280):
        browser.size(width)
        assert browser.run('return document.documentElement.scrollWidth') == width
