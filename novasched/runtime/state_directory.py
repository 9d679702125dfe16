# SPDX-License-Identifier: Apache-2.0
"""Directories for what is kept across restarts: the first candidate that can be
written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from oslo_config import cfg

NAME = 'novasched'
ROOTS_DIRECTORY = '/var/lib/novasched'

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            'state_path',
            sample_default='/var/lib/nova',
            help='Directory for what is kept across restarts: the journal of claims '
            'and the records of decisions; see ``[novasched] journal_dir`` and '
            '``[novasched] decisions_dir``.',
        )
    ]
}

_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that pass: a worker that starts while the disk is full must take the directory
that the others have."""


class Candidate(NamedTuple):
    """A directory in question."""

    path: str
    option: str | None = None  # names it; None if it is a default


class Directory(NamedTuple):
    """The directory that was chosen, and what the operator must know of it."""

    path: str | None  # None if no candidate can be written
    warning: str | None = None


class Messages(NamedTuple):
    """Warnings: no candidate can be written; another one than is set was taken; the
    one that was taken cannot be written now."""

    nowhere: str
    instead: str
    not_now: str


def candidates(
    conf: cfg.ConfigOpts,
    option: str,
    environ: Mapping[str, str],
    is_root: bool,
    below: str = '',
) -> list[Candidate]:
    """Return the directories in question, the best first.

    The option of [novasched] names one in full; in all others it is ``below``.
    """
    found = []
    if conf.novasched[option]:
        found.append(Candidate(conf.novasched[option], f'[novasched] {option}'))
    if conf.state_path:
        path = os.path.join(conf.state_path, NAME, below)
        found.append(Candidate(path.rstrip('/'), '[DEFAULT] state_path'))
    defaults = environ.get('STATE_DIRECTORY', '').split(':')
    if is_root:
        defaults.append(ROOTS_DIRECTORY)
    home = os.path.join(environ.get('HOME', ''), '.local', 'state')
    defaults.append(os.path.join(environ.get('XDG_STATE_HOME') or home, NAME))
    # Where there is no home, or a relative path is given, that depends on the caller.
    found += [
        Candidate(os.path.join(path, below).rstrip('/'))
        for path in defaults
        if os.path.isabs(path)
    ]
    first: dict[str, Candidate] = {}
    for one in found:
        first.setdefault(one.path, one)
    return list(first.values())


def make(path: str) -> None:
    """Make a directory, and those above it, for their user alone. Raises OSError."""
    above = os.path.dirname(os.path.abspath(path))
    if not os.path.exists(above):
        make(above)
    # The mode of os.makedirs is that of the last directory only.
    os.makedirs(path, mode=0o700, exist_ok=True)


def existing(path: str) -> str:
    """Return a directory, or the one in which it would have to be made."""
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    return there


def choose(
    found: Sequence[Candidate],
    make: Callable[[str], None],
    messages: Messages,
    makes: bool,
) -> Directory:
    """Return the first in which ``make`` can write; it raises OSError if it cannot.

    Unless it ``makes`` the directory, nothing is made, as this may not be the user of
    the service. Then the existing directory above is tried.
    """
    tried: list[str] = []
    is_option_refused = False
    for path, option in found:
        problem = None
        try:
            make(path if makes else existing(path))
        except OSError as error:
            problem = error
        if problem is None or problem.errno in _PASSING:
            if is_option_refused:
                return Directory(path, messages.instead % (path, '; '.join(tried)))
            warning = messages.not_now % (path, problem) if problem else None
            return Directory(path, warning)
        tried.append(f'{path} ({option or "a default"}): {problem.strerror or problem}')
        is_option_refused |= option is not None
    return Directory(None, messages.nowhere % ('; '.join(tried) or 'nothing'))
