# SPDX-License-Identifier: Apache-2.0
"""Files of the journal: whose they are, and what stands in them."""

import errno
import os
import resource
import socket
import tempfile

import pytest

from novasched.journal import store
from novasched.journal.store import SETTLED, File, Moment, Record, abandoned
from tests.support.tables.cases import cases


@pytest.fixture
def line(intent):
    return Record(intent(), Moment('boot', 1.0)).line()


def _never(path, problem):
    raise problem


def taken(directory):
    """The names of the files that can be taken over."""
    found = abandoned(str(directory), _never)
    return [os.path.basename(file.path) for file in found]


def test_a_file_is_its_makers_as_long_as_that_lives(directory):
    made = File.create(str(directory))
    assert taken(directory) == []
    made.close()
    made.close()
    assert taken(directory) == [os.path.basename(made.path)]


def test_new_file_taken_before_its_lock_is_replaced(directory):
    made = []

    def lock(path, descriptor):
        made.append(path)
        if len(made) == 1:
            os.close(descriptor)
            return False
        return store._lock(path, descriptor)

    file = File.create(str(directory), lock)
    assert made == [made[0], file.path]
    file.remove()


def test_a_file_that_cannot_be_locked_does_not_stay(directory):
    def lock(path, descriptor):
        os.close(descriptor)
        raise OSError(errno.ENOLCK, 'no locks here')

    with pytest.raises(OSError, match='no locks here'):
        File.create(str(directory), lock)
    assert list(directory.iterdir()) == []


def test_of_two_takers_one_gets_it(directory):
    File.create(str(directory)).close()
    for _ in abandoned(str(directory), _never):
        assert taken(directory) == []
    assert len(taken(directory)) == 1


def test_removed_file_is_not_locked(directory):
    made = File.create(str(directory))
    descriptor = os.open(made.path, os.O_RDWR)
    made.remove()
    assert not store._lock(made.path, descriptor)
    assert taken(directory) == []


def test_file_removed_by_another_taker_is_passed_over(directory):
    first, second = (File.create(str(directory)) for _ in range(2))
    first.close()
    second.close()
    found = abandoned(str(directory), _never)
    left = {first.path, second.path} - {next(found).path}
    os.unlink(left.pop())
    assert list(found) == []


def test_only_the_files_of_this_machine_count(directory):
    directory.mkdir()
    for name in ('claims-another-host-1.journal', 'another.journal'):
        (directory / name).touch()
    made = File.create(str(directory))
    os.rename(made.path, f'{made.path}.bak')
    made.close()
    assert taken(directory) == []


@cases(
    'host, boot, is_ours',
    ('the machine was started anew', 'here', 'other', True),
    ('a container was made anew', 'other', 'this', True),
    ('another machine', 'other', 'other', False),
    ('one with a name like ours', 'here-1', 'other', False),
    ('nobody knows which start', 'other', 'unknown', False),
)
def test_files_of_this_machine_are_taken_over(directory, host, boot, is_ours):
    made = File.create(str(directory))
    made.close()
    _, this, random = os.path.basename(made.path).rsplit('-', 2)
    host = host.replace('here', socket.gethostname())
    boot = boot.replace('this', this)
    os.rename(made.path, directory / f'claims-{host}-{boot}-{random}')
    assert bool(taken(directory)) == is_ours


def test_without_a_directory_there_are_none(directory):
    assert taken(directory) == []


def test_lines_are_counted_until_they_are_settled(directory, line):
    made = File.create(str(directory))
    offsets = [made.write(line) for _ in range(2)]
    assert (made.open, made.end) == (2, 2 * len(line))
    made.mark(offsets[1], SETTLED)
    assert made.open == 1
    assert [one.state for one in made.content().records] == [b'o', b's']
    made.remove()


def test_a_torn_line_is_written_over(directory, line):
    made = File.create(str(directory))
    made.write(line)
    with open(made.path, 'ab') as file:
        file.write(line[:-5] + b'garbage that is longer than a line' * 20)
    made.write(line)
    assert len(made.content().records) == 2
    made.remove()


def test_a_line_that_is_not_written_in_full_is_an_error(directory, line):
    made = File.create(str(directory))
    made.write(line)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(line) + 9, unlimited[1]))
    try:
        with pytest.raises(OSError, match='only 9 of'):
            made.write(line)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert (made.open, made.end) == (1, len(line))
    made.write(line)
    assert len(made.content().records) == 2
    made.remove()


def test_a_file_is_locked_until_it_is_gone(directory):
    class Watched(File):
        taken = None

        def close(self):
            self.taken = self.taken or os.path.exists(self.path)
            super().close()

    made = Watched.create(str(directory))
    made.remove()
    assert made.taken is False


def test_the_file_of_another_user_is_passed_over():
    problems, is_root = {}, not os.geteuid()
    with tempfile.TemporaryDirectory() as shared:
        made = File.create(shared)
        made.close()
        os.chmod(shared, 0o755)
        os.chmod(made.path, 0o600 if is_root else 0)
        if is_root:
            os.seteuid(65534)
        try:
            assert list(abandoned(shared, problems.__setitem__)) == []
        finally:
            if is_root:
                os.seteuid(0)
    assert problems == {}


def test_a_file_that_is_gone_may_be_removed(directory):
    made = File.create(str(directory))
    os.unlink(made.path)
    made.remove()


@cases(
    'make',
    ('a directory', lambda path: path.mkdir()),
    ('a link', lambda path: path.symlink_to('/dev/null')),
)
def test_unreadable_file_does_not_stop_the_others(directory, make):
    made = File.create(str(directory))
    made.close()
    name = os.path.basename(made.path)
    path = directory / f'{name.rsplit("-", 1)[0]}-!{store.SUFFIX}'
    make(path)
    problems = {}
    found = abandoned(str(directory), problems.__setitem__)
    assert [os.path.basename(file.path) for file in found] == [name]
    assert list(problems) == [str(path)]


def test_a_file_is_read_up_to_a_size(directory, line):
    made = File.create(str(directory))
    made.write(line)
    os.truncate(made.path, 10 * store.READ_AT_MOST)
    with open(made.path, 'ab') as file:
        file.write(b'\n' + line)
    records, odd = made.content()
    assert (len(records), odd) == (1, 1)
    made.remove()


def test_a_file_that_is_set_aside_is_nobodys(directory, line):
    made = File.create(str(directory))
    made.write(line)
    path = made.set_aside()
    assert taken(directory) == []
    assert [str(each) for each in directory.iterdir()] == [path]
