# SPDX-License-Identifier: Apache-2.0
"""Where the journal is: what is set, else the first default that can be written."""

import errno
import os
import stat

import pytest

from novasched.journal.store import (
    DIRECTORY_OPTION,
    MESSAGES,
    make_directory,
)
from novasched.runtime import state_directory
from novasched.runtime.state_directory import Candidate, Directory
from tests.support.tables.cases import cases

SYSTEMD = {'STATE_DIRECTORY': '/one:/two', 'HOME': '/home/nova'}


def choose(found, make=make_directory, makes=False):
    return state_directory.choose(found, make, MESSAGES, makes)


def candidates(conf, environ, is_root):
    return state_directory.candidates(conf, DIRECTORY_OPTION, environ, is_root)


@cases(
    ('options', 'expected'),
    ('a default', {}, ['/h/.local/state/novasched']),
    (
        'beside what nova keeps',
        {'state_path': '/s'},
        ['/s/novasched', '/h/.local/state/novasched'],
    ),
    ('of its own', {'journal_dir': '/j'}, ['/j', '/h/.local/state/novasched']),
    (
        'of both',
        {'state_path': '/s', 'journal_dir': '$state_path/j'},
        ['/s/j', '/s/novasched', '/h/.local/state/novasched'],
    ),
)
def test_set_directories_come_first(conf, options, expected):
    for name, value in options.items():
        conf.set_override(name, value, 'novasched' if name == 'journal_dir' else None)
    found = candidates(conf, {'HOME': '/h'}, False)
    assert [one.path for one in found] == expected
    assert [bool(one.option) for one in found][:-1] == [True] * len(options)
    assert found[-1].option is None


@cases(
    ('environ', 'is_root', 'expected'),
    (
        'a service of systemd',
        SYSTEMD,
        False,
        ['/one', '/two', '/home/nova/.local/state/novasched'],
    ),
    (
        'a service of systemd as root',
        {'STATE_DIRECTORY': '/var/lib/novasched', 'HOME': '/root'},
        True,
        ['/var/lib/novasched', '/root/.local/state/novasched'],
    ),
    (
        'a user who keeps state elsewhere',
        {'HOME': '/h', 'XDG_STATE_HOME': '/x'},
        False,
        ['/x/novasched'],
    ),
    (
        'root',
        {'HOME': '/root'},
        True,
        ['/var/lib/novasched', '/root/.local/state/novasched'],
    ),
    ('a user without a home', {}, False, []),
    (
        'relative paths',
        {'STATE_DIRECTORY': 'one::two', 'XDG_STATE_HOME': 'x'},
        False,
        [],
    ),
)
def test_the_defaults(conf, environ, is_root, expected):
    found = candidates(conf, environ, is_root)
    assert [one.path for one in found] == expected


def test_a_default_that_is_set_too_counts_as_set(conf):
    conf.set_override('journal_dir', '/one', 'novasched')
    found = candidates(conf, SYSTEMD, False)
    assert found[:2] == [
        Candidate('/one', '[novasched] journal_dir'),
        Candidate('/two'),
    ]


def test_a_directory_is_made_for_its_user_alone(tmp_path):
    path = tmp_path / 'a' / 'b'
    assert choose([Candidate(str(path))], makes=True) == Directory(str(path))
    for made in (path, path.parent):
        assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert list(path.iterdir()) == []


@pytest.mark.parametrize('makes', [False, True])
def test_the_first_that_can_be_written_is_chosen(tmp_path, makes):
    (tmp_path / 'file').touch()
    names = ('file/a', 'b', 'c')
    found = choose([Candidate(str(tmp_path / name)) for name in names], makes=makes)
    assert found.path == str(tmp_path / 'b')
    assert found.warning is None
    assert not (tmp_path / 'c').exists()


def test_unusable_option_is_a_warning(tmp_path):
    (tmp_path / 'file').touch()
    set_ = Candidate(str(tmp_path / 'file' / 'a'), '[novasched] journal_dir')
    found = choose([set_, Candidate(str(tmp_path / 'b'))])
    assert found.path == str(tmp_path / 'b')
    assert f'is in {tmp_path}/b' in found.warning
    assert f'{tmp_path}/file/a ([novasched] journal_dir): ' in found.warning


def test_nothing_that_can_be_written_is_a_warning(tmp_path):
    (tmp_path / 'file').touch()
    found = choose(
        [Candidate(str(tmp_path / 'file' / name)) for name in 'ab'], makes=True
    )
    assert found.path is None
    warning = found.warning
    assert 'There is no journal of claims' in warning
    assert 'Set [DEFAULT] state_path or [novasched] journal_dir' in warning
    assert f'{tmp_path}/file/a (a default): Not a directory; ' in warning
    assert 'Tried: nothing' in choose([]).warning


def test_a_relative_path_that_is_set_is_looked_at(tmp_path):
    found = os.path.relpath(tmp_path / 'a' / 'b')
    assert choose([Candidate(found)]).path == found


def test_a_look_makes_nothing(tmp_path):
    path = tmp_path / 'a' / 'b'
    assert choose([Candidate(str(path))]).path == str(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize('makes', [False, True])
@pytest.mark.parametrize('name', ['here', 'here/below'])
def test_directory_of_another_user_is_not_chosen(tmp_path, makes, name):
    # Nobody may write below /proc, not even root.
    (tmp_path / 'here').symlink_to('/proc/self/fd')
    found = [Candidate(str(tmp_path / name)), Candidate(str(tmp_path / 'mine'))]
    assert choose(found, makes=makes).path == str(tmp_path / 'mine')


@cases(
    'number, stays',
    ('a full disk', errno.ENOSPC, True),
    ('a full quota', errno.EDQUOT, True),
    ('too many files of ours', errno.EMFILE, True),
    ('too many files of all', errno.ENFILE, True),
    ('no memory', errno.ENOMEM, True),
    ('another user', errno.EACCES, False),
    ('a disk that is not to be written', errno.EROFS, False),
)
def test_all_workers_agree_while_the_disk_is_full(number, stays):
    problem = OSError(number, os.strerror(number))

    def write(path):
        if path == '/first':
            raise problem

    found = choose([Candidate('/first'), Candidate('/second')], write, makes=True)
    assert found.path == ('/first' if stays else '/second')
    assert ('cannot be written now' in (found.warning or '')) == stays
