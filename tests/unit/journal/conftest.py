# SPDX-License-Identifier: Apache-2.0
"""A journal in a directory of its own, at a time that stands still."""

from __future__ import annotations

import pytest

from novasched.journal.records import Moment
from novasched.journal.writing import FileJournal
from novasched.ports import Intent


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
