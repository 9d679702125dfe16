# SPDX-License-Identifier: Apache-2.0
"""What is undone of the claims in the journal, and what is only named."""

import pytest

from novasched import errors
from novasched.journal import recovery
from novasched.journal.recovery import ARRIVES_WITHIN_S, INTERVAL_S, Recovery, from_conf
from novasched.ports import UndoUnanswered
from tests.support.clouds.configuration import make_conf
from tests.support.tables.cases import cases
from tests.unit.journal.conftest import UNDO_WITHIN_S

BEFORE = {'allocations': {'old': {'resources': {'VCPU': 4}}}, 'project_id': 'p'}
PATIENCE_S = 30.0
WINDOW_S = PATIENCE_S - 5.0
"""A claim that was made within this time is not of a later request of its caller."""
LATER_S = 400.0


def test_a_claim_without_an_answer_is_undone(killed, look, consumers, files, said):
    killed()
    look()
    assert consumers.held == {'a': None}
    assert files() == []
    (line,) = said()
    assert line == 'The claim of request req-1 for a is undone: it was never answered'


def test_recovery_restores_the_earlier_allocation(killed, look, consumers):
    consumers.held['a']['old'] = {'VCPU': 4}
    killed(held=BEFORE)
    look()
    assert consumers.held == {'a': BEFORE}
    assert consumers.generations == [7]


def test_a_claim_that_may_be_answered_is_only_named(
    killed, look, consumers, files, said
):
    killed(do=lambda entry: entry.answering())
    look()
    assert consumers.asked == []
    assert files() == []
    (line,) = said()
    assert 'openstack resource provider allocation delete a' in line


def test_settled_claim_is_not_recovered(killed, look, consumers, files, said):
    killed(do=lambda entry: entry.settle())
    look()
    assert consumers.asked == []
    assert files() == []
    assert said() == []


def test_a_worker_that_lives_keeps_its_claims(worker, look, intent, consumers):
    worker().intend([intent()])
    look()
    assert consumers.asked == []


def test_a_claim_that_may_still_arrive_is_looked_for_again(
    killed, look, consumers, files
):
    claimed = consumers.held.pop('a')
    killed()
    look()
    assert len(files()) == 1
    consumers.held['a'] = claimed
    look()
    assert consumers.held == {'a': None}
    assert files() == []


def test_a_claim_may_arrive_after_an_outage_that_was_longer(
    killed, look, consumers, uptime, files, said
):
    """What was sent while placement was away waited there, too."""
    claimed = consumers.held.pop('a')
    killed()
    uptime.seconds += 2 * ARRIVES_WITHIN_S
    look()
    assert len(files()) == 1
    consumers.held['a'], consumers.since['a'] = claimed, uptime.seconds
    uptime.seconds += INTERVAL_S
    look()
    assert files() == []
    (line,) = said()
    assert 'may be left behind' in line


def test_a_claim_that_never_arrived_is_forgotten(
    killed, look, consumers, uptime, files, said
):
    consumers.held.clear()
    killed()
    for _ in range(int(ARRIVES_WITHIN_S / INTERVAL_S)):
        look()
        assert len(files()) == 1
        uptime.seconds += INTERVAL_S
    look()
    assert files() == []
    assert said() == []


@pytest.mark.parametrize('looks_after_s', [0.0, LATER_S])
@cases(
    'patience_s, window_s',
    ('as long as its caller waits', PATIENCE_S, WINDOW_S),
    ('of a line that does not tell', None, WINDOW_S),
    ('of a caller that is impatient', 12.0, 7.0),
)
def test_a_claim_that_came_while_its_caller_waited_is_undone(
    killed, look, consumers, uptime, patience_s, window_s, looks_after_s
):
    killed(undo_within_s=patience_s)
    consumers.since['a'] = uptime.seconds + window_s - 0.1
    uptime.seconds += window_s + looks_after_s
    look()
    assert consumers.held == {'a': None}


def test_the_same_claim_of_a_later_request_is_only_named(
    killed, look, consumers, uptime, files, said
):
    killed()
    consumers.since['a'] = uptime.seconds + WINDOW_S + 0.1
    uptime.seconds += LATER_S
    look()
    assert consumers.held == {'a': {'p': {'VCPU': 1}}}
    assert files() == []
    (line,) = said()
    assert 'unless another request has made the same claim' in line


def test_a_caller_of_no_patience_is_never_undone(killed, look, consumers):
    killed(undo_within_s=3.0)
    look()
    assert consumers.asked == []


def test_none_is_undone_where_none_is_to_be(worker, killed, consumers):
    killed()
    Recovery(worker(), consumers, 0).undo_left_claims()
    assert consumers.asked == []


@cases(
    ('before', 'command'),
    ('all that it holds', None, 'delete a'),
    (
        'what a move added',
        BEFORE,
        'unset --os-placement-api-version 1.28 --provider p a',
    ),
)
def test_the_command_removes_the_claim_alone(
    killed, look, consumers, uptime, before, command, said
):
    if before:
        consumers.held['a']['old'] = {'VCPU': 4}
    killed(held=before)
    uptime.seconds += UNDO_WITHIN_S
    look()
    (line,) = said()
    assert line.endswith(f'openstack resource provider allocation {command}')


@cases(
    'state',
    ('not answered', lambda entry: None),
    ('answered perhaps', lambda entry: entry.answering()),
)
@cases(
    'held', ('it holds nothing', None), ('it is elsewhere by now', {'q': {'VCPU': 1}})
)
def test_a_claim_that_does_not_stand_is_not_named(
    killed, look, consumers, uptime, held, state, files, said
):
    consumers.held['a'] = held
    killed(do=state)
    uptime.seconds += UNDO_WITHIN_S
    look()
    assert consumers.looked_at == ['a']
    assert files() == []
    assert said() == []


def test_a_move_that_claimed_nothing_more_is_not_named(killed, look, uptime, said):
    before = {'allocations': {'p': {'resources': {'VCPU': 1}}}}
    killed(held=before)
    uptime.seconds += UNDO_WITHIN_S
    look()
    assert said() == []


@cases(
    'change',
    ('too much time has passed', {'seconds': 1000.0 + UNDO_WITHIN_S}),
    ('the machine was started anew', {'boot_id': 'next'}),
    ('nobody knows the time', {'boot_id': None}),
    ('a container counts from its own start', {'seconds': 5.0}),
)
def test_a_claim_of_long_ago_is_only_named(
    killed, look, consumers, uptime, change, files, said
):
    killed()
    vars(uptime).update(change)
    look()
    assert consumers.asked == []
    assert files() == []
    (line,) = said()
    assert 'too late' in line


@cases(
    'error',
    ('placement is away', UndoUnanswered('a', 'away')),
    ('placement fails', errors.AllocationDeleteFailed('a', 'oops')),
)
def test_failed_recovery_is_repeated(killed, look, consumers, error, files, said):
    killed()
    consumers.errors = {'a': error}
    look()
    assert consumers.held == {'a': {'p': {'VCPU': 1}}}
    assert len(said()) == 1
    consumers.errors = {}
    look()
    assert consumers.held == {'a': None}
    assert files() == []


@cases(
    'error, expected',
    ('fails', errors.AllocationDeleteFailed('', 'oops'), 'abc'),
    ('is away', UndoUnanswered('', 'away'), 'a'),
)
def test_others_are_tried_unless_placement_is_away(
    worker, look, intent, consumers, error, expected, files
):
    consumers.errors = dict.fromkeys('abc', error)
    dead = worker()
    entries = dead.intend([intent(consumer) for consumer in 'abc'])
    entries[0].file.close()
    look()
    assert ''.join(consumers.asked) == expected
    assert len(files()) == 1


def test_placement_that_is_away_is_not_asked_what_stands(
    worker, look, intent, consumers, uptime, files, said
):
    consumers.errors = dict.fromkeys('abc', UndoUnanswered('', 'away'))
    dead = worker()
    entries = dead.intend([intent(consumer) for consumer in 'abc'])
    entries[0].file.close()
    uptime.seconds += UNDO_WITHIN_S
    look()
    assert consumers.looked_at == ['a']
    assert files() == []
    assert sum('may be left behind' in line for line in said()) == 3


def test_a_claim_that_others_write_is_undone_when_they_are_done(
    killed, look, consumers, uptime, files, said
):
    killed()
    consumers.conflicts.add('a')
    look()
    uptime.seconds += LATER_S
    look()
    assert (len(files()), said()) == (1, [])
    consumers.conflicts.clear()
    look()
    assert (consumers.held, files()) == ({'a': None}, [])


# -- of requests that have ended without undoing their claim


@pytest.fixture
def left(worker, intent, uptime):
    """Make a claim that its request leaves to recovery after 40 s; return its entry
    and the look of its own worker."""

    def make(consumers, made_s_ago=0.0):
        own = worker()
        (entry,) = own.intend([intent()])
        uptime.seconds += 40.0
        entry.undo_later(made_s_ago)
        recovery = Recovery(own, consumers, UNDO_WITHIN_S)
        return entry, recovery.undo_left_claims

    return make


def test_a_claim_is_undone_when_placement_answers_again(left, consumers, uptime, said):
    _, look = left(consumers)
    consumers.errors = {'a': UndoUnanswered('a', 'away')}
    look()
    look()
    assert consumers.held == {'a': {'p': {'VCPU': 1}}}
    assert len(said()) == 1
    consumers.errors.clear()
    uptime.seconds += LATER_S
    look()
    look()
    assert (consumers.held, len(said())) == ({'a': None}, 1)
    assert consumers.asked == ['a', 'a', 'a']


def test_a_claim_that_is_left_is_undone_by_another_worker_if_need_be(
    left, look, consumers, files
):
    entry, _ = left(consumers)
    look()
    assert consumers.asked == []
    entry.file.close()
    look()
    assert (consumers.held, files()) == ({'a': None}, [])


def test_a_journal_that_is_closed_leaves_its_claims_to_another(
    worker, intent, look, consumers, files
):
    own = worker()
    left, under_way = own.intend([intent('a'), intent('b')])
    left.undo_later(0.0)
    own.close()
    look()
    assert consumers.asked == []  # a request has not ended yet
    under_way.settle()
    look()
    assert (consumers.held, files()) == ({'a': None}, [])
    assert own.to_undo() == []


def test_a_closed_journal_leaves_what_is_to_be_undone_later(
    worker, intent, look, consumers, files
):
    own = worker()
    (entry,) = own.intend([intent()])
    own.close()
    entry.undo_later(0.0)
    look()
    assert (consumers.held, files()) == ({'a': None}, [])


def test_a_disk_that_takes_no_line_keeps_the_one_before(
    worker, intent, look, consumers, full
):
    own = worker()
    (entry,) = own.intend([intent()])
    inner, own._file = own._file, full(own._file, ['write'])
    entry.undo_later(0.0)
    inner.close()
    look()
    assert consumers.held == {'a': None}


@cases(
    'made_s_ago, since_s, is_undone',
    ('of that request', 0.0, 39.0, True),
    ('of a later one', 0.0, 41.0, False),
    ('before it was answered', 30.0, 9.0, True),
    ('after it was answered', 30.0, 11.0, False),
)
def test_a_claim_that_is_left_goes_only_with_its_request(
    left, consumers, uptime, made_s_ago, since_s, is_undone, said
):
    consumers.since['a'] = uptime.seconds + since_s
    _, look = left(consumers, made_s_ago)
    uptime.seconds += LATER_S
    look()
    look()
    assert (consumers.held['a'] is None) == is_undone
    assert len(said()) == 1


def test_a_claim_is_undone_also_while_the_disk_takes_nothing(
    worker, intent, consumers, tmp_path
):
    (tmp_path / 'file').touch()
    own = worker(tmp_path / 'file' / 'journal')
    (entry,) = own.intend([intent()])
    entry.undo_later(0.0)
    Recovery(own, consumers).undo_left_claims()
    assert consumers.held == {'a': None}


# -- of files that cannot be read


def test_a_directory_that_cannot_be_read_is_a_warning(
    worker, consumers, tmp_path, said
):
    (tmp_path / 'file').touch()
    own = worker(tmp_path / 'file')
    look = Recovery(own, consumers)
    for _ in range(2):
        look.undo_left_claims()
    (line,) = said()
    assert 'cannot be used' in line


def test_the_next_start_finds_what_a_worker_left_in_the_middle_of_anything(
    killed, look, consumers, directory
):
    killed('a')
    (path,) = directory.iterdir()
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        look()
        assert consumers.asked == []
        path.write_bytes(whole)
    look()
    assert consumers.held == {'a': None}


# -- from the options


@pytest.fixture
def conf():
    return make_conf()


def test_without_a_directory_there_is_no_journal(consumers):
    kept = recovery.kept_in(None, consumers, 300)
    kept.on_held('a', None, None)
    kept.close()
    assert (kept.journal, list(kept.periodic_tasks)) == (None, [])


def test_the_periodic_task_goes_with_the_journal(
    conf, consumers, tmp_path, intent, said
):
    conf.set_override('state_path', str(tmp_path))
    assert recovery.prepare(conf) is None
    kept = from_conf(conf, consumers)
    kept.journal.intend([intent()])
    kept.on_held('a', BEFORE, 7)
    ((interval_s, chore),) = kept.periodic_tasks
    assert interval_s == 5.0
    chore()
    assert said() == []
    kept.close()
