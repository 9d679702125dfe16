# SPDX-License-Identifier: Apache-2.0
"""Screens of ``novasched shadow report``, as they were read and accepted.

``pytest --regold`` writes ours into the files that differ, to be read in review.
"""

import pathlib
import uuid
from dataclasses import replace

import pytest

from novasched.decisions.memory import MemoryDecisions
from novasched.inspection.questions.shadow import report
from novasched.inspection.texts.lines import Style
from novasched.inspection.texts.shadow import as_text
from tests.support.records.compared_records import one_of_each
from tests.support.records.stored_records import NOON, SetClock, write

HERE = pathlib.Path(__file__).parent
HOUR = 3600
SINCE, UNTIL = NOON - 24 * HOUR, NOON


def named(name):
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def compared():
    store = MemoryDecisions(clock=SetClock(NOON))
    write(
        store,
        one_of_each(NOON - HOUR, named),
    )
    for since, until in ((SINCE - HOUR, SINCE + HOUR), (NOON - 2 * HOUR, NOON - 5)):
        store.write_listened(since, until)
    since = SINCE * 1_000_000
    found = store.compared(since), store.listened(since)
    return report(*found, since, UNTIL * 1_000_000)


def empty():
    return report((), [], SINCE * 1_000_000, UNTIL * 1_000_000)


def same():
    made = compared()
    verdicts = {'equal': 30, 'unknown': 2}
    same = replace(made, verdicts=verdicts, causes={}, filters={}, findings=())
    return replace(same, differences=(), gaps=(), gaps_total=0)


SCREENS = {
    'report': (compared(), Style(100)),
    'report-narrow': (compared(), Style(60)),
    'report-long-colour': (compared(), Style(100, has_colour=True, is_long=True)),
    'report-same': (same(), Style(80)),
    'report-empty': (empty(), Style(80)),
}


@pytest.mark.parametrize('name', SCREENS)
def test_screens(name, request):
    made = as_text(*SCREENS[name]) + '\n'
    path = HERE / f'{name}.txt'
    if request.config.getoption('--regold'):
        path.write_text(made)
    assert made == path.read_text()


def test_every_file_is_a_screen():
    assert {path.stem for path in HERE.glob('*.txt')} == {*SCREENS}
