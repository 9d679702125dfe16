# SPDX-License-Identifier: Apache-2.0
"""A journal in a directory of its own, at a time that stands still."""

import collections
import errno
import logging
import os

import pytest

from novasched.journal.recovery import Recovery
from novasched.journal.store import FileJournal, Moment
from novasched.ports import Intent, UndoOutcome

UNDO_WITHIN_S = 600.0


class Uptime:
    """The time since a start of the machine; tests let it pass."""

    def __init__(self):
        self.boot_id = 'boot'
        self.seconds = 1000.0

    def __call__(self):
        return Moment(self.boot_id, self.seconds)


@pytest.fixture
def uptime():
    return Uptime()


@pytest.fixture
def directory(tmp_path):
    return tmp_path / 'journal'


@pytest.fixture
def worker(directory, uptime):
    """Make journals, as workers of one machine have them; each ends at last."""
    made = []

    def make(where=directory):
        made.append(FileJournal(str(where), uptime))
        return made[-1]

    yield make
    for each in made:
        each.close()
        if each._file is not None:
            each._file.close()


@pytest.fixture
def intent():
    """Make intents: one CPU of a provider for a consumer."""

    def make(consumer='a', provider='p', **values):
        given = {'request_id': 'req-1', 'project_id': 'project', **values}
        amounts = {provider: {'VCPU': 1}}
        return Intent(consumer_uuid=consumer, allocations=amounts, **given)

    return make


class Consumers:
    """What consumers hold, since which uptime, and the errors that placement makes.

    ``conflicts`` are consumers that others write whenever they are to be undone;
    ``slow`` is called when placement is asked.
    """

    def __init__(self, uptime, **held):
        self.held = held
        self.since = collections.defaultdict(lambda began=uptime.seconds: began)
        self.errors = {}
        self.conflicts = set()
        self.asked = []
        self.looked_at = []
        self.generations = []
        self.slow = lambda: None
        self._uptime = uptime

    def stands(self, consumer, holds, generation):
        self.looked_at.append(consumer)
        if consumer in self.errors:
            raise self.errors[consumer]
        return self.held.get(consumer) == holds

    def undo(self, consumer, holds, before, generation, ages_s):
        self.asked.append(consumer)
        self.generations.append(generation)
        self.slow()
        if consumer in self.errors:
            raise self.errors[consumer]
        if self.held.get(consumer) != holds:
            return UndoOutcome.ABSENT
        age_s = self._uptime.seconds - self.since[consumer]
        if not ages_s[0] <= age_s <= ages_s[1]:
            return UndoOutcome.OTHER
        if consumer in self.conflicts:
            return UndoOutcome.CONFLICT
        self.held[consumer] = before
        return UndoOutcome.UNDONE


@pytest.fixture
def consumers(uptime):
    return Consumers(uptime, a={'p': {'VCPU': 1}})


@pytest.fixture
def look(worker, consumers):
    """Have another worker look for claims."""
    recovery = Recovery(worker(), consumers, UNDO_WITHIN_S)
    return recovery.undo_left_claims


@pytest.fixture
def killed(worker, intent):
    """Make a worker that is killed after it has done something with an entry."""

    def kill(consumer='a', do=lambda entry: None, held=None, **values):
        dead = worker()
        (entry,) = dead.intend([intent(consumer, **values)])
        if held:
            dead.held(consumer, held, 7)
        do(entry)
        entry.file.close()

    return kill


@pytest.fixture
def said(caplog):
    """What the log says of the journal, since this was asked for last."""

    def lines():
        found = [
            each.getMessage()
            for each in caplog.records
            if each.name.startswith('novas') and each.levelno >= logging.INFO
        ]
        caplog.clear()
        return found

    return lines


@pytest.fixture
def files(directory):
    """The names of all files of the journal."""
    return lambda: [path.name for path in directory.iterdir()]


class Full:
    """A file on a disk that is full, or that takes nothing at all."""

    def __init__(self, inner, fails):
        self._inner = inner
        self._fails = fails

    def __getattr__(self, name):
        if name in self._fails:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return getattr(self._inner, name)


@pytest.fixture
def full():
    return Full
