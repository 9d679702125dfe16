# SPDX-License-Identifier: Apache-2.0
"""Recovery of claims without an answer: of killed workers, and of requests that could
not undo them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from oslo_config import cfg

from novasched import errors
from novasched.journal.store import (
    OPEN,
    SETTLED,
    File,
    FileJournal,
    Moment,
    Record,
    abandoned,
    directory_from_conf,
)
from novasched.ports import UndoOutcome, UndoUnanswered
from novasched.runtime.log_once import LogOnce

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.IntOpt(
            'journal_undo_within',
            default=86400,
            min=0,
            help="""
Seconds after which a claim in the journal is not undone any more.

The journal has the claims of killed workers. It also has claims that a request could
not undo in time, as placement did not answer or was busy. Each is undone as soon as
placement does it, if the server holds exactly what was claimed, and since the time of
the claim. The claim of a killed worker must be from the time when its caller certainly
waited for the answer. With the default of ``[DEFAULT] rpc_response_timeout`` that is 25
seconds. Allocations since another time were claimed by another request. The log names
them, with the command that removes them, and also a claim that still stands after these
seconds. A claim that was made before the machine was started is never undone. 0: none
is.
""",
        )
    ]
}

INTERVAL_S = 5.0
MARGIN_S = 5.0
"""So long before its caller may give up the claim of a killed worker was made."""
ARRIVES_WITHIN_S = 25.0
"""How long a lost claim is looked for after placement has said that it does not stand.

While placement is unavailable, requests that were sent to it wait, too.
"""
PATIENCE_S = 30.0
"""A caller waits for so long at least where the line does not say: half of nova's
default rpc_response_timeout."""


class ClaimUndo(Protocol):
    """Claims as placement has them: what the consumer ``holds`` once it is claimed, and
    the ``generation`` that it had before.

    Both raise errors.AllocationDeleteFailed, and UndoUnanswered if placement is
    unavailable.
    """

    def stands(
        self,
        consumer_uuid: str,
        holds: Mapping[str, Mapping[str, int]],
        generation: int | None,
    ) -> bool:
        """Return whether the consumer holds exactly this."""

    def undo(
        self,
        consumer_uuid: str,
        holds: Mapping[str, Mapping[str, int]],
        before: Mapping[str, Any] | None,
        generation: int | None,
        ages_s: tuple[float, float],
    ) -> UndoOutcome:
        """Bring it back to what it held before, if it holds exactly this, and got it
        within these two numbers of seconds ago."""


class Recovery:
    """Undoes claims that were made and not answered.

    They are left by workers that are gone, or by requests of this process that could
    not undo them. A caller that has given up may repeat a claim, so it is undone only
    if placement got it while its request was under way. Older claims than ``at_most_s``
    are only logged.
    """

    def __init__(
        self, own: FileJournal, claims: ClaimUndo, at_most_s: float = 300.0
    ) -> None:
        self._own = own
        self._claims = claims
        self._at_most_s = at_most_s
        self._unreadable = LogOnce()
        self._keeping = LogOnce()
        self._absent: dict[ClaimKey, float] = {}

    def undo_left_claims(self) -> None:
        """Go through what this process has left, and all files of workers that are no
        more."""
        look = Look(self._own.now, self._claims, self._at_most_s, self._absent)
        for entry in self._own.to_undo():
            if look.is_done(entry.record):
                entry.settle()
        for file in abandoned(self._own.directory, look.unreadable.__setitem__):
            try:
                look.take_over(file)
            except OSError as problem:
                look.unreadable[file.path] = problem
        self._absent = look.absent
        for path in self._unreadable.new(look.unreadable):
            reason = look.unreadable[path]
            LOG.warning('The journal of claims cannot be used, %s: %s', path, reason)
        if not look.kept:
            self._keeping.ends()
        elif self._keeping.begins():
            LOG.warning('Claims in the journal are kept for later: %s', look.kept[0])


ClaimKey = tuple[str, Moment]
"""The consumer of a claim, and when that was written down."""


@dataclass
class Look:
    """One look at all claims that are to be undone."""

    now: Callable[[], Moment]
    claims: ClaimUndo
    at_most_s: float
    absent_before: Mapping[ClaimKey, float]
    """Since which uptime claims do not stand, as the look before has seen it."""
    absent: dict[ClaimKey, float] = field(default_factory=dict)
    """The same, as this look sees it."""
    unreadable: dict[str, OSError] = field(default_factory=dict)
    """Files that cannot be read or written, by path."""
    kept: list[errors.AllocationDeleteFailed] = field(default_factory=list)
    """Why claims are kept for the next look."""
    is_unavailable: bool = False

    def take_over(self, file: File) -> None:
        """Do what can be done for each line; remove the file if nothing is kept.

        A file with lines that cannot be read is set aside, as they may be claims.
        """
        content = file.content()
        is_done = True
        for record in content.records:
            if record.state == SETTLED:
                continue
            if not self.is_done(record):
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

    def is_done(self, record: Record) -> bool:
        """Undo a claim, or name it; not as long as it may arrive, and be undone."""
        age_s = self.now().since(record.written)
        made_within_s = _made_within_s(record)
        why = 'it is too late to undo it'
        if record.state != OPEN:
            why = 'its worker ended while it answered'
        elif age_s is not None and age_s < self.at_most_s and made_within_s >= 0:
            outcome = self._undo(record, (age_s - made_within_s, age_s))
            if outcome in (None, UndoOutcome.CONFLICT):
                return False
            if outcome is UndoOutcome.ABSENT and self._may_arrive(record):
                return False
            if outcome is not UndoOutcome.OTHER:
                return True
            why = 'unless another request has made the same claim since'
        if self._may_stand(record):
            _name(record, why)
        return True

    def _may_arrive(self, record: Record) -> bool:
        """Return whether a claim that does not stand may arrive yet."""
        key, now_s = (record.intent.consumer_uuid, record.written), self.now().uptime_s
        self.absent[key] = since_s = self.absent_before.get(key, now_s)
        return now_s - since_s < ARRIVES_WITHIN_S

    def _undo(self, record: Record, ages_s: tuple[float, float]) -> UndoOutcome | None:
        """Try to undo a claim; None if it is kept for the next look."""
        intent = record.intent
        if self.is_unavailable:
            return None
        try:
            outcome = self.claims.undo(
                intent.consumer_uuid,
                record.holds(),
                intent.before,
                intent.generation,
                ages_s,
            )
        except errors.AllocationDeleteFailed as problem:
            self.is_unavailable = isinstance(problem, UndoUnanswered)
            self.kept.append(problem)
            return None
        if outcome is UndoOutcome.UNDONE:
            LOG.warning(
                'The claim of request %s for %s is undone: it was never answered',
                intent.request_id,
                intent.consumer_uuid,
            )
        elif outcome is UndoOutcome.ABSENT:
            LOG.debug('The claim of request %s does not stand', intent.request_id)
        return outcome

    def _may_stand(self, record: Record) -> bool:
        """Return whether the consumer holds what was claimed; yes if placement is
        unavailable."""
        if not record.added():
            return False
        if self.is_unavailable:
            return True
        intent = record.intent
        try:
            return self.claims.stands(
                intent.consumer_uuid, record.holds(), intent.generation
            )
        except errors.AllocationDeleteFailed as problem:
            self.is_unavailable = isinstance(problem, UndoUnanswered)
            return True


def _made_within_s(record: Record) -> float:
    """Return for how long after it was written a claim can have been made that is
    not of a later request; negative: not at all."""
    intent = record.intent
    if intent.made_within_s is not None:
        return intent.made_within_s
    patience_s = intent.undo_within_s
    return (PATIENCE_S if patience_s is None else patience_s) - MARGIN_S


def _name(record: Record, why: str) -> None:
    """Log a claim that may stand, and the command that removes it alone."""
    intent, options = record.intent, ['delete']
    if intent.before:
        providers = [f'--provider {one}' for one in record.added()]
        options = ['unset', '--os-placement-api-version 1.28', *providers]
    LOG.warning(
        'The claim of request %s for %s may be left behind, %s. If it is unknown, '
        'remove it with: openstack resource provider allocation %s %s',
        intent.request_id,
        intent.consumer_uuid,
        why,
        ' '.join(options),
        intent.consumer_uuid,
    )


class JournalSetup(NamedTuple):
    """What a scheduler has of the journal."""

    journal: FileJournal | None = None  # None if there is none
    on_held: Callable[[str, Mapping[str, Any] | None, int | None], None] = (
        lambda consumer_uuid, before, generation: None
    )
    periodic_tasks: Sequence[tuple[float, Callable[[], None]]] = ()
    close: Callable[[], None] = lambda: None


def from_conf(conf: cfg.ConfigOpts, claims: ClaimUndo) -> JournalSetup:
    """Make the journal, if there is to be one, and its periodic task."""
    at_most_s = conf.novasched.journal_undo_within
    return kept_in(directory_from_conf(conf).path, claims, at_most_s)


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
    return directory_from_conf(conf, makes=True).warning
