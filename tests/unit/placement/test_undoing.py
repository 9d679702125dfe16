# SPDX-License-Identifier: Apache-2.0
"""Claims that are taken back, answer by answer."""

from __future__ import annotations

import pytest

from novasched import errors, http
from novasched.placement.client import PlacementClient
from novasched.ports import Claimed, UndoUnanswered, Unknown
from tests.unit.placement.answers import (
    CHANGED,
    CONSUMER,
    LOST,
    NOTHING,
    OLD,
    SAVED,
    URL,
    held,
)


@pytest.fixture
def undoing(scripted, context):
    """Return a function that undoes with prepared answers, all of which it needs."""

    def run(claim, *answers):
        adapter, script = scripted(*answers)
        PlacementClient(adapter).undo(context, claim)
        assert not script.answers
        return script

    return run


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([SAVED], id='removed'),
        pytest.param([(404, '')], id='there is none'),
        pytest.param([(500, ''), SAVED], id='at the second time'),
        pytest.param([LOST, (404, '')], id='already at the first time'),
    ],
)
def test_undo(undoing, answers):
    script = undoing(Claimed(CONSUMER), *answers)
    assert set(script.asked) == {f'DELETE {URL}'}
    assert 'OpenStack-API-Version' not in script.requests[0].headers


def test_undo_restores(undoing):
    script = undoing(Claimed(CONSUMER, OLD), held(4, old=1, new=2), SAVED)
    assert script.asked == [f'GET {URL}', f'PUT {URL}']
    assert script.body(1) == {**OLD, 'consumer_generation': 4}


@pytest.mark.parametrize(
    'answers',
    [
        pytest.param([held(4, new=2), CHANGED, held(5, new=2), SAVED], id='changed'),
        pytest.param([(500, ''), held(5, new=2), SAVED], id='unreadable at first'),
        pytest.param([NOTHING], id='the instance is gone meanwhile'),
    ],
)
def test_undo_restores_in_the_end(undoing, answers):
    undoing(Claimed(CONSUMER, OLD), *answers)


@pytest.mark.parametrize(
    ('claim', 'answers'),
    [
        pytest.param(Claimed(CONSUMER), [(500, 'no'), (500, 'no')], id='removing'),
        pytest.param(Claimed(CONSUMER), [(403, 'no')], id='no use in trying again'),
        pytest.param(
            Claimed(CONSUMER, OLD), [LOST, (500, 'no')], id='reading what is held'
        ),
    ],
)
def test_undo_fails(undoing, caplog, claim, answers):
    with pytest.raises(errors.AllocationDeleteFailed, match='Error: no') as raised:
        undoing(claim, *answers)
    assert not isinstance(raised.value, UndoUnanswered)
    status = answers[-1][0]
    assert caplog.records[-1].message == (
        f'Unable to delete allocation for instance {CONSUMER}: ({status} no)'
    )


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([NOTHING], ['GET'], id='not claimed'),
        pytest.param([held(1, new=2), SAVED], ['GET', 'DELETE'], id='claimed'),
        pytest.param([held(1, old=1)], ['GET'], id='what was held all along stays'),
        pytest.param(
            [(500, ''), held(1, new=2), SAVED],
            ['GET', 'GET', 'DELETE'],
            id='unreadable',
        ),
    ],
)
def test_undo_what_nobody_knows(claiming, undoing, answers, asked):
    unknown, _ = claiming(LOST, (500, ''))
    script = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


def test_undo_gets_no_answer(undoing):
    with pytest.raises(UndoUnanswered):
        undoing(Claimed(CONSUMER), LOST, LOST)


def test_undo_has_an_end(scripted, context):
    adapter, script = scripted(LOST, LOST)
    client = PlacementClient(adapter)
    with pytest.raises(UndoUnanswered):
        client.undo(context, Claimed(CONSUMER, OLD), 0.0)
    assert script.asked == [f'GET {URL}']
    assert script.options[0]['timeout'] < 1


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(4, old=1, new=2), SAVED], ['GET', 'PUT'], id='claimed'),
        pytest.param([held(3, old=1), SAVED], ['GET', 'PUT'], id='bar a late one'),
        pytest.param([held(5, newer=3)], ['GET'], id='claimed anew by somebody else'),
    ],
)
def test_restore_after_what_nobody_knows(claiming, undoing, answers, asked):
    unknown, _ = claiming(CHANGED, held(3, old=1), LOST, (500, ''))
    assert isinstance(unknown, Unknown)
    script = undoing(unknown, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


def test_undo_what_was_claimed_by_the_word_of_a_journal(undoing):
    script = undoing(Unknown(CONSUMER, 'found in the journal'), SAVED)
    assert script.asked == [f'DELETE {URL}']


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(1, new=2), SAVED], ['GET', 'DELETE'], id='ours'),
        pytest.param([held(5, new=1)], ['GET'], id='claimed anew by somebody else'),
        pytest.param([NOTHING], ['GET'], id='removed already'),
        pytest.param([(500, ''), SAVED], ['GET', 'DELETE'], id='unreadable'),
    ],
)
def test_undo_only_what_we_claimed(claiming, undoing, answers, asked):
    claimed, _ = claiming(SAVED)
    script = undoing(claimed, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


@pytest.mark.parametrize(
    ('answers', 'asked'),
    [
        pytest.param([held(4, old=1, new=2), SAVED], ['GET', 'PUT'], id='ours'),
        pytest.param([held(5, newer=2)], ['GET'], id='moved on by somebody else'),
    ],
)
def test_restore_only_after_what_we_claimed(claiming, undoing, answers, asked):
    claimed, _ = claiming(CHANGED, held(3, old=1), SAVED)
    script = undoing(claimed, *answers)
    assert script.asked == [f'{method} {URL}' for method in asked]


def test_of_a_page_only_the_begin_is_told(undoing):
    with pytest.raises(errors.AllocationDeleteFailed) as raised:
        undoing(Claimed(CONSUMER), (400, 10_000 * 'x'))
    assert len(raised.value.error) == http.LONGEST_EXCERPT
