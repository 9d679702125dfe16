# SPDX-License-Identifier: Apache-2.0
"""Lines and files that cannot be read: they are named, and stop no others."""

import errno

import pytest

from novasched.journal.recovery import Look, Recovery
from novasched.journal.store import Content, Record
from tests.unit.journal.conftest import UNDO_WITHIN_S


@pytest.fixture
def spoil(directory):
    """Add a line to the file of a killed worker."""

    def add(line):
        (path,) = directory.iterdir()
        path.write_bytes(path.read_bytes() + line + b'\n')
        return path

    return add


def test_an_odd_line_is_named_and_kept_and_stops_no_other(
    killed, look, consumers, caplog, spoil, files, said
):
    killed('a')
    path = spoil(b'\xff')
    consumers.held['b'] = consumers.held['a']
    killed('b')
    look()
    assert consumers.held == {'a': None, 'b': None}
    assert files() == [f'{path.name}.odd']
    assert sum(f'{path}.odd' in line for line in said()) == 1
    caplog.clear()
    look()
    assert said() == []


def test_a_file_with_an_odd_line_is_kept_as_long_as_any_other(
    killed, look, consumers, spoil, files, said
):
    claimed = consumers.held.pop('a')
    killed('a')
    path = spoil(b'o[]')
    look()
    assert files() == [path.name]
    assert said() == []
    consumers.held['a'] = claimed
    look()
    assert consumers.held['a'] is None
    assert files() == [f'{path.name}.odd']


def test_a_file_that_cannot_be_read_stops_no_other(
    killed, look, consumers, directory, said
):
    killed('b')
    (path,) = directory.iterdir()
    path.unlink()
    path.mkdir()
    killed('a')
    look()
    look()
    assert consumers.held == {'a': None}
    assert sum(str(path) in line for line in said()) == 1


def test_a_file_that_cannot_be_removed_stops_no_other(
    worker, killed, consumers, directory, said
):
    killed('a')
    killed('b')
    first, _ = sorted(directory.iterdir())
    consumers.held['b'] = consumers.held['a']

    def replace():
        """A directory takes the place of the first file while it is looked at."""
        if first.is_file():
            first.unlink()
            first.mkdir()

    consumers.slow = replace
    Recovery(worker(), consumers, UNDO_WITHIN_S).undo_left_claims()
    assert consumers.held == {'a': None, 'b': None}
    assert sum(str(first) in line for line in said()) == 1


def test_a_line_that_cannot_be_settled_stops_no_other(intent, consumers, uptime):
    class Readonly:
        path = 'x'
        gone = False

        def content(self):
            lines = [Record(intent(one), uptime()) for one in 'ab']
            return Content(lines, 0)

        def mark(self, offset, state):
            raise OSError(errno.ENOSPC, 'full')

        def remove(self):
            self.gone = True

    file = Readonly()
    consumers.held['b'] = consumers.held['a']
    look = Look(uptime, consumers, UNDO_WITHIN_S, {})
    look.take_over(file)
    assert consumers.held == {'a': None, 'b': None}
    assert list(look.unreadable) == ['x']
    assert file.gone
