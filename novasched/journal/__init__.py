# SPDX-License-Identifier: Apache-2.0
"""The journal of claims: where it is, and how long it may be acted upon."""

from __future__ import annotations

import os

from oslo_config import cfg

DEFAULT_DIRECTORY = 'novasched'

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

What a worker that was killed had claimed, and told nobody, is found there by the
next start or within a minute by another worker of this machine, and undone. The
directory must be on this machine; all workers may share it with those of other
schedulers on it. Unset, it is ``novasched`` in ``[DEFAULT] state_path``; where that
is unset, too, or where nothing can be written, there is no journal.
""",
        ),
        cfg.IntOpt(
            'journal_undo_within',
            default=300,
            min=0,
            help="""
Seconds after which a claim in the journal of a killed worker is not undone.

By then its caller has long given up, and may have had the same claim made for the
same server again. The log names the claim in its place. A claim that was made
before the machine was started is never undone. 0: none is.
""",
        ),
    ],
}


def directory_of(conf: cfg.ConfigOpts) -> str | None:
    """Return where the journal is to be, or None for nowhere."""
    if conf.novasched.journal_dir:
        return str(conf.novasched.journal_dir)
    if conf.state_path:
        return os.path.join(conf.state_path, DEFAULT_DIRECTORY)
    return None
