# SPDX-License-Identifier: Apache-2.0
"""The directory of the journal: the first candidate that can be written."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from oslo_config import cfg

from novasched.journal.store import File

NAME = 'novasched'
ROOTS_DIRECTORY = '/var/lib/novasched'

OPTS: dict[str, list[cfg.Opt]] = {
    'DEFAULT': [
        cfg.StrOpt(
            'state_path',
            sample_default='/var/lib/nova',
            help='Directory for what is kept across restarts. Only the journal of '
            'claims is; see ``[novasched] journal_dir``.',
        )
    ],
    'novasched': [
        cfg.StrOpt(
            'journal_dir',
            sample_default='$state_path/novasched',
            help="""
Directory in which workers write down their claims until they have answered.

What a worker that was killed had claimed, and not answered, is found there by the next
start or within seconds by another worker of this machine, and undone. The directory
must be on this machine; all workers may share it with those of other schedulers on it.
Unset, it is ``novasched`` in ``[DEFAULT] state_path``. Where that is unset, too, or
cannot be written, it is the first of these that can: the directories in the environment
variable ``STATE_DIRECTORY``, which systemd sets for ``StateDirectory=``; for root
``/var/lib/novasched``; ``novasched`` in ``$XDG_STATE_HOME``, or in ``~/.local/state``.
A warning at the start says where an option that is set was not followed, and where
there is no journal, as nothing can be written.
""",
        ),
    ],
}

_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors that pass: a worker that starts while the disk is full must take the directory
that the others have."""

NOWHERE = (
    'There is no journal of claims, so the claims of a killed worker will not be '
    'undone. Set [DEFAULT] state_path or [novasched] journal_dir to a directory that '
    'the user of the service can write. Tried: %s'
)
INSTEAD = (
    'The journal of claims is in %s, as what is set cannot be written by the user of '
    'the service. Tried: %s'
)
NOT_NOW = (
    'The journal of claims in %s cannot be written now, what a killed worker has '
    'claimed may stay: %s'
)


class Candidate(NamedTuple):
    """A directory in question; ``option`` names it, None: it is a default."""

    path: str
    option: str | None = None


class Directory(NamedTuple):
    """The directory that was chosen, None: no candidate can be written, and what the
    operator must know of it."""

    path: str | None
    warning: str | None = None


def candidates(
    conf: cfg.ConfigOpts, environ: Mapping[str, str], is_root: bool
) -> list[Candidate]:
    """Return the directories in question, the best first."""
    found = []
    if conf.novasched.journal_dir:
        found.append(Candidate(conf.novasched.journal_dir, '[novasched] journal_dir'))
    if conf.state_path:
        path = os.path.join(conf.state_path, NAME)
        found.append(Candidate(path, '[DEFAULT] state_path'))
    defaults = environ.get('STATE_DIRECTORY', '').split(':')
    if is_root:
        defaults.append(ROOTS_DIRECTORY)
    home = os.path.join(environ.get('HOME', ''), '.local', 'state')
    defaults.append(os.path.join(environ.get('XDG_STATE_HOME') or home, NAME))
    # Where there is no home, or a relative path is given, that depends on the caller.
    found += [Candidate(path) for path in defaults if os.path.isabs(path)]
    first: dict[str, Candidate] = {}
    for one in found:
        first.setdefault(one.path, one)
    return list(first.values())


def make(path: str) -> None:
    """Make a directory, unless there is one, and try to write there; raise OSError."""
    File.create(path).remove()


def look(path: str) -> None:
    """Try to write in a directory, or in the one in which it would have to be made.

    Neither is made: this may not be the user of the service. Raises OSError.
    """
    there = os.path.abspath(path)
    while not os.path.lexists(there):
        there = os.path.dirname(there)
    make(there)


def choose(found: Sequence[Candidate], attempt: Callable[[str], None]) -> Directory:
    """Return the first that can be written, by what raises OSError if it cannot be."""
    tried: list[str] = []
    is_option_refused = False
    for path, option in found:
        problem = None
        try:
            attempt(path)
        except OSError as error:
            problem = error
        if problem is None or problem.errno in _PASSING:
            if is_option_refused:
                return Directory(path, INSTEAD % (path, '; '.join(tried)))
            return Directory(path, NOT_NOW % (path, problem) if problem else None)
        tried.append(f'{path} ({option or "a default"}): {problem.strerror or problem}')
        is_option_refused |= option is not None
    return Directory(None, NOWHERE % ('; '.join(tried) or 'nothing'))


def from_conf(conf: cfg.ConfigOpts, attempt: Callable[[str], None] = look) -> Directory:
    """Choose the directory for this process and its user."""
    return choose(candidates(conf, os.environ, os.geteuid() == 0), attempt)
