# SPDX-License-Identifier: Apache-2.0
"""Recovery of the claims that killed workers left unanswered."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from oslo_config import cfg

from novasched import errors
from novasched.journal import directory
from novasched.journal.store import (
    OPEN,
    SETTLED,
    File,
    FileJournal,
    Moment,
    Record,
    abandoned,
)
from novasched.log_once import LogOnce
from novasched.ports import UndoUnanswered

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.IntOpt(
            'journal_undo_within',
            default=300,
            min=0,
            help="""
Seconds after which a claim in the journal of a killed worker is not undone in any case.

A claim is undone only while its caller certainly waits for the answer, less 5 seconds:
later, it may have had the same claim made again for the same server, which cannot be
told from the first. Nova's callers want a sign of life within ``[DEFAULT]
rpc_response_timeout``; with its default of 60 that is 25 seconds after the claim. This
option can make it less. After that the claim is named in the log if it still stands,
with the command that removes it. A claim that was made before the machine was started
is never undone. 0: none is.
""",
        )
    ]
}

INTERVAL_S = 5.0
MARGIN_S = 5.0
"""So long before its caller may give up a claim is not undone any more."""
PATIENCE_S = 30.0
"""A caller waits for so long at least where the line does not say: half of nova's
default rpc_response_timeout."""


class ClaimUndo(Protocol):
    """Claims as placement has them: what the consumer ``holds`` once it is claimed, and
    the ``generation`` that it had before.

    For a consumer that was claimed for again, both say no. Both raise
    errors.AllocationDeleteFailed, and UndoUnanswered where placement is away.
    """

    def stands(
        self,
        consumer_uuid: str,
        holds: Mapping[str, Mapping[str, int]],
        generation: int | None,
    ) -> bool:
        """Say whether the consumer holds exactly this."""

    def undo(
        self,
        consumer_uuid: str,
        holds: Mapping[str, Mapping[str, int]],
        before: Mapping[str, Any] | None,
        generation: int | None,
        left_s: Callable[[], float],
    ) -> bool:
        """Bring it back to what it held before, and say whether that was done; not
        when nothing is left of the time in which it may be."""


class Recovery:
    """Undoes what stands in the journals of workers that are no more as claimed and
    not answered.

    A caller that has given up may have the same claim made again, and that cannot be
    told from the first. So a claim is undone only while its caller certainly waits, and
    for ``at_most_s``; after that it is named in the log, if it stands.
    """

    def __init__(
        self, own: FileJournal, claims: ClaimUndo, at_most_s: float = 300.0
    ) -> None:
        self._own = own
        self._claims = claims
        self._at_most_s = at_most_s
        self._unreadable = LogOnce()

    def undo_left_claims(self) -> None:
        """Go through all files of workers that are no more."""
        look = Look(self._own.now, self._claims, self._at_most_s)
        for file in abandoned(self._own.directory, look.unreadable.__setitem__):
            try:
                look.take_over(file)
            except OSError as problem:
                look.unreadable[file.path] = problem
        for path in self._unreadable.new(look.unreadable):
            reason = look.unreadable[path]
            LOG.warning('The journal of claims cannot be used, %s: %s', path, reason)
        if look.kept:
            LOG.warning('Claims in the journal are kept for later: %s', look.kept[0])


@dataclass
class Look:
    """One look at all files of workers that are no more.

    ``unreadable`` are the files that cannot be read or written, by path, ``kept`` the
    reasons why claims are kept for the next look.
    """

    now: Callable[[], Moment]
    claims: ClaimUndo
    at_most_s: float
    unreadable: dict[str, OSError] = field(default_factory=dict)
    kept: list[errors.AllocationDeleteFailed] = field(default_factory=list)
    is_away: bool = False

    def take_over(self, file: File) -> None:
        """Do what can be done for each line; remove the file if nothing is kept.

        A file with lines that cannot be read is set aside, as they may be claims.
        """
        content = file.content()
        is_done = True
        # Those that may be undone come first: their time runs out.
        for record in sorted(content.records, key=lambda one: self._left_s(one) <= 0):
            if record.state == SETTLED:
                continue
            if not self._is_done(record):
                is_done = False
                continue
            try:
                file.mark(record.offset, SETTLED)
            except OSError as problem:  # the end of the file may do
                self.unreadable[file.path] = problem
        if is_done and content.odd:
            LOG.warning(
                'The journal of a killed worker has lines that cannot be read, %d; it '
                'is kept as %s. Claims in it are not undone.',
                content.odd,
                file.set_aside(),
            )
        elif is_done:
            file.remove()

    def _left_s(self, record: Record) -> float:
        """Return for how many seconds the claim may still be undone."""
        age_s = self.now().since(record.written)
        if age_s is None:
            return 0.0
        patience_s = record.intent.undo_within_s
        certain_s = (PATIENCE_S if patience_s is None else patience_s) - MARGIN_S
        return min(certain_s, self.at_most_s) - age_s

    def _is_done(self, record: Record) -> bool:
        """Undo a claim, or name it; not as long as it may arrive, and be undone."""
        why = 'its worker ended while it answered'
        if record.state == OPEN:
            if self._left_s(record) > 0 and self._is_undone(record):
                return True
            if self._left_s(record) > 0:
                return False
            why = 'it is too late to undo it'
        if self._may_stand(record):
            _name(record, why)
        else:
            LOG.debug('The claim of request %s is no more', record.intent.request_id)
        return True

    def _is_undone(self, record: Record) -> bool:
        intent = record.intent
        if self.is_away:
            return False
        try:
            undone = self.claims.undo(
                intent.consumer_uuid,
                record.holds(),
                intent.before,
                intent.generation,
                lambda: self._left_s(record),
            )
        except errors.AllocationDeleteFailed as problem:
            self.is_away = isinstance(problem, UndoUnanswered)
            self.kept.append(problem)
            return False
        if undone:
            LOG.warning(
                'The claim of request %s for %s is undone: it was never answered',
                intent.request_id,
                intent.consumer_uuid,
            )
        return undone

    def _may_stand(self, record: Record) -> bool:
        """Say whether the consumer holds what was claimed; yes where placement is
        away."""
        if not record.added():
            return False
        if self.is_away:
            return True
        intent = record.intent
        try:
            return self.claims.stands(
                intent.consumer_uuid, record.holds(), intent.generation
            )
        except errors.AllocationDeleteFailed as problem:
            self.is_away = isinstance(problem, UndoUnanswered)
            return True


def _name(record: Record, why: str) -> None:
    """Log a claim that may stand, and the command that removes it alone."""
    intent, options = record.intent, ['delete']
    if intent.before:
        providers = [f'--provider {one}' for one in record.added()]
        options = ['unset', '--os-placement-api-version 1.28', *providers]
    LOG.warning(
        'The claim of request %s for %s may be left behind, %s. If nobody knows of it, '
        'remove it with: openstack resource provider allocation %s %s',
        intent.request_id,
        intent.consumer_uuid,
        why,
        ' '.join(options),
        intent.consumer_uuid,
    )


class JournalSetup(NamedTuple):
    """What a scheduler has of the journal; ``journal`` None: there is none."""

    journal: FileJournal | None = None
    on_held: Callable[[str, Mapping[str, Any] | None, int | None], None] = (
        lambda consumer_uuid, before, generation: None
    )
    periodic_tasks: Sequence[tuple[float, Callable[[], None]]] = ()
    close: Callable[[], None] = lambda: None


def from_conf(conf: cfg.ConfigOpts, claims: ClaimUndo) -> JournalSetup:
    """Make the journal, if there is to be one, and its periodic task."""
    at_most_s = conf.novasched.journal_undo_within
    return kept_in(directory.from_conf(conf).path, claims, at_most_s)


def kept_in(path: str | None, claims: ClaimUndo, at_most_s: float) -> JournalSetup:
    """Make the journal in a directory, if there is one."""
    if path is None:
        return JournalSetup()
    own = FileJournal(path)
    recovery = Recovery(own, claims, at_most_s)
    task = INTERVAL_S, recovery.undo_left_claims
    return JournalSetup(own, own.held, [task], own.close)


def prepare(conf: cfg.ConfigOpts) -> str | None:
    """Make the directory of the journal; return what an operator must know of it."""
    return directory.from_conf(conf, directory.make).warning
