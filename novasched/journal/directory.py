# SPDX-License-Identifier: Apache-2.0
"""The directory of the journal: the first candidate that can be written."""

from __future__ import annotations

import os
from collections.abc import Callable

from oslo_config import cfg

from novasched.journal.store import File
from novasched.runtime.state_directory import (
    Directory,
    Messages,
    candidates,
    choose,
    existing,
)

OPTION = 'journal_dir'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            OPTION,
            sample_default='$state_path/novasched',
            help="""
Directory in which workers write down their claims until they have answered.

A killed worker leaves its unanswered claims there. They are undone at the next start,
or within seconds by another worker of this machine. The directory must be on this
machine. All workers of all schedulers on it may share the directory. Unset, it is
``novasched`` in ``[DEFAULT] state_path``. If that is unset, too, or cannot be written,
the first writable directory of these is used:

* the directories in ``$STATE_DIRECTORY``, which systemd sets for ``StateDirectory=``
* for root ``/var/lib/novasched``
* ``novasched`` in ``$XDG_STATE_HOME``, or in ``~/.local/state``

A warning is logged at the start if the option could not be followed. So it is if no
directory can be written: then there is no journal.
""",
        ),
    ],
}

MESSAGES = Messages(
    nowhere='There is no journal of claims, so the claims of a killed worker will not '
    'be undone. Set [DEFAULT] state_path or [novasched] journal_dir to a directory '
    'that the user of the service can write. Tried: %s',
    instead='The journal of claims is in %s, as what is set cannot be written by the '
    'user of the service. Tried: %s',
    not_now='The journal of claims in %s cannot be written now, what a killed worker '
    'has claimed may stay: %s',
)


def make(path: str) -> None:
    """Make a directory, unless there is one, and try to write there; raise OSError."""
    File.create(path).remove()


def look(path: str) -> None:
    """Try to write in a directory, or in the one in which it would have to be made.

    Neither is made: this may not be the user of the service. Raises OSError.
    """
    make(existing(path))


def from_conf(conf: cfg.ConfigOpts, attempt: Callable[[str], None] = look) -> Directory:
    """Choose the directory for this process and its user."""
    found = candidates(conf, OPTION, os.environ, os.geteuid() == 0)
    return choose(found, attempt, MESSAGES)
