# SPDX-License-Identifier: Apache-2.0
"""What is undone of the claims in the journal, and what is only named."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from novasched import errors, journal
from novasched.journal.recovery import IN_FLIGHT_S, Recovery, from_conf, problem
from novasched.ports import UndoUnanswered

BEFORE = {'allocations': {'old': {'resources': {'VCPU': 4}}}, 'project_id': 'p'}
LONG_S = 600.0


class Consumers:
    """What consumers hold, and the errors that placement makes, by consumer."""

    def __init__(self, **held):
        self.held = held
        self.errors = {}
        self.asked = []
        self.generations = []

    def take_back(self, consumer, holds, before, generation):
        self.asked.append(consumer)
        self.generations.append(generation)
        if consumer in self.errors:
            raise self.errors[consumer]
        if self.held.get(consumer) != holds:
            return False
        self.held[consumer] = before
        return True


@pytest.fixture
def consumers():
    return Consumers(a={'p': {'VCPU': 1}})


@pytest.fixture
def look(worker, consumers):
    """Have another worker look for claims."""
    recovery = Recovery(worker(), consumers.take_back, LONG_S)
    return recovery.undo_left_claims


@pytest.fixture
def killed(worker):
    """Make a worker that is killed after it has done something with an entry."""

    def kill(intent, do=lambda entry: None, held=None):
        dead = worker()
        (entry,) = dead.intend([intent])
        if held:
            dead.held(intent.consumer_uuid, held, 7)
        do(entry)
        entry.file.close()

    return kill


def said(caplog):
    return [r.getMessage() for r in caplog.records if r.name.startswith('novasched')]


def files(directory):
    return [path.name for path in directory.iterdir()]


def test_a_claim_without_an_answer_is_undone(
    killed, look, intent, consumers, directory, caplog
):
    killed(intent())
    look()
    assert consumers.held == {'a': None}
    assert files(directory) == []
    (line,) = said(caplog)
    assert line == 'The claim of request req-1 for a is undone: it was never answered'


def test_what_was_held_before_comes_back(killed, look, intent, consumers):
    consumers.held['a']['old'] = {'VCPU': 4}
    killed(intent(), held=BEFORE)
    look()
    assert consumers.held == {'a': BEFORE}
    assert consumers.generations == [7]


def test_a_claim_that_may_be_answered_is_only_named(
    killed, look, intent, consumers, directory, caplog
):
    killed(intent(), lambda entry: entry.answering())
    look()
    assert consumers.asked == []
    assert files(directory) == []
    (line,) = said(caplog)
    assert 'openstack resource provider allocation delete a' in line


def test_what_is_settled_is_no_matter(
    killed, look, intent, consumers, directory, caplog
):
    killed(intent(), lambda entry: entry.settle())
    look()
    assert consumers.asked == []
    assert files(directory) == []
    assert said(caplog) == []


def test_a_worker_that_lives_keeps_its_claims(worker, look, intent, consumers):
    worker().intend([intent()])
    look()
    assert consumers.asked == []


def test_a_claim_that_may_still_arrive_is_looked_for_again(
    killed, look, intent, consumers, directory, uptime, caplog
):
    claimed = consumers.held.pop('a')
    killed(intent())
    look()
    assert len(files(directory)) == 1
    consumers.held['a'] = claimed
    look()
    assert consumers.held == {'a': None}
    assert files(directory) == []


def test_a_claim_that_never_arrived_is_forgotten(
    killed, look, intent, consumers, directory, uptime, caplog
):
    consumers.held.clear()
    killed(intent())
    uptime.seconds += IN_FLIGHT_S
    look()
    assert files(directory) == []
    assert said(caplog) == []


@pytest.mark.parametrize(
    'change',
    [
        pytest.param({'seconds': 1000.0 + LONG_S}, id='too much time has passed'),
        pytest.param({'boot_id': 'next'}, id='the machine was started anew'),
        pytest.param({'boot_id': None}, id='nobody knows the time'),
        pytest.param({'seconds': 5.0}, id='a container counts from its own start'),
    ],
)
def test_a_claim_of_long_ago_is_only_named(
    killed, look, intent, consumers, directory, uptime, caplog, change
):
    killed(intent())
    vars(uptime).update(change)
    look()
    assert consumers.asked == []
    assert files(directory) == []
    (line,) = said(caplog)
    assert 'too long ago' in line


@pytest.mark.parametrize(
    'error',
    [
        pytest.param(UndoUnanswered('a', 'away'), id='placement is away'),
        pytest.param(errors.AllocationDeleteFailed('a', 'oops'), id='placement fails'),
    ],
)
def test_what_cannot_be_undone_now_is_kept(
    killed, look, intent, consumers, directory, caplog, error
):
    killed(intent())
    consumers.errors = {'a': error}
    look()
    assert consumers.held == {'a': {'p': {'VCPU': 1}}}
    assert len(said(caplog)) == 1
    consumers.errors = {}
    look()
    assert consumers.held == {'a': None}
    assert files(directory) == []


@pytest.mark.parametrize(
    ('error', 'expected'),
    [
        pytest.param(errors.AllocationDeleteFailed('', 'oops'), 'abc', id='fails'),
        pytest.param(UndoUnanswered('', 'away'), 'a', id='is away'),
    ],
)
def test_others_are_tried_unless_placement_is_away(
    worker, killed, look, intent, consumers, directory, error, expected
):
    consumers.errors = dict.fromkeys('abc', error)
    dead = worker()
    entries = dead.intend([intent(consumer) for consumer in 'abc'])
    entries[0].file.close()
    look()
    assert ''.join(consumers.asked) == expected
    assert len(files(directory)) == 1


def test_a_directory_that_cannot_be_read_is_a_warning(
    worker, consumers, tmp_path, caplog
):
    (tmp_path / 'file').touch()
    own = worker(tmp_path / 'file')
    Recovery(own, consumers.take_back).undo_left_claims()
    (line,) = said(caplog)
    assert 'cannot be read' in line


def test_the_next_start_finds_what_a_worker_left_in_the_middle_of_anything(
    killed, look, intent, consumers, directory
):
    killed(intent('a'))
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
    made = cfg.ConfigOpts()
    for group, listed in journal.OPTS.items():
        made.register_opts(listed, None if group == 'DEFAULT' else group)
    made([], default_config_files=[])
    return made


def test_without_a_place_there_is_no_journal_but_a_warning(conf, consumers):
    kept = from_conf(conf, consumers.take_back)
    kept.on_held('a', None, None)
    kept.close()
    assert (kept.journal, list(kept.chores)) == (None, [])
    assert 'There is no journal of claims' in problem(conf)


def test_the_chore_goes_with_the_journal(conf, consumers, tmp_path, intent, caplog):
    conf.set_override('state_path', str(tmp_path))
    assert problem(conf) is None
    kept = from_conf(conf, consumers.take_back)
    kept.journal.intend([intent()])
    kept.on_held('a', BEFORE, 7)
    ((interval_s, chore),) = kept.chores
    assert interval_s == 60.0
    chore()
    assert said(caplog) == []
    kept.close()
