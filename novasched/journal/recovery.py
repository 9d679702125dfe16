# SPDX-License-Identifier: Apache-2.0
"""Claims that nobody was told of: those of killed workers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from oslo_config import cfg

from novasched import errors, journal
from novasched.journal.files import File, abandoned
from novasched.journal.records import ANSWERING, OPEN, SETTLED, Record
from novasched.journal.writing import FileJournal
from novasched.ports import UndoUnanswered

LOG = logging.getLogger(__name__)

INTERVAL_S = 60.0
IN_FLIGHT_S = 120.0
"""A claim that is not there may still be on its way to placement for so long."""

TakeBack = Callable[[str, Mapping[str, Mapping[str, int]], Any, int | None], bool]
"""Bring a consumer that holds just these amounts, and was claimed for once since a
generation, back to what it held before; say whether it does. Raises
errors.AllocationDeleteFailed."""


class Line:
    """A record in the file of another worker."""

    def __init__(self, file: File, record: Record) -> None:
        self.record = record
        self._file = file

    def settle(self) -> None:
        self._file.mark(self.record.offset, SETTLED)


class Recovery:
    """Undoes what stands in the journals of workers that are no more as claimed and
    not answered."""

    def __init__(
        self, own: FileJournal, take_back: TakeBack, within_s: float = 300.0
    ) -> None:
        self._own = own
        self._take_back = take_back
        self._within_s = within_s

    def undo_left_claims(self) -> None:
        """Go through all files of workers that are no more.

        Where placement is away, the rest is kept for the next time.
        """
        try:
            for file in abandoned(self._own.directory):
                self._take_over(file)
        except UndoUnanswered as problem:
            LOG.warning('Claims in the journal are kept for later: %s', problem)
        except OSError as problem:
            LOG.warning(
                'The journal of claims in %s cannot be read: %s',
                self._own.directory,
                problem,
            )

    def _take_over(self, file: File) -> None:
        lines = [Line(file, record) for record in file.records()]
        for line in lines:
            if line.record.state == ANSWERING:
                self._name(line.record, 'its worker ended while it answered')
                line.settle()
        if self._undo([line for line in lines if line.record.state == OPEN]):
            file.remove()

    def _undo(self, lines: Iterable[Line]) -> bool:
        """Undo what can be; return whether nothing is kept for later."""
        kept = 0
        for line in lines:
            try:
                kept += not self._is_settled(line)
            except UndoUnanswered:
                raise
            except errors.AllocationDeleteFailed as problem:
                LOG.warning('A claim in the journal is kept for later: %s', problem)
                kept += 1
        return not kept

    def _is_settled(self, line: Line) -> bool:
        record = line.record
        age_s = self._own.now().since(record.written)
        if age_s is None or age_s >= self._within_s:
            self._name(record, 'it is too long ago to be undone')
        elif not self._is_undone(record) and age_s < IN_FLIGHT_S:
            return False
        line.settle()
        return True

    def _is_undone(self, record: Record) -> bool:
        intent = record.intent
        undone = self._take_back(
            intent.consumer_uuid, record.holds(), intent.before, intent.generation
        )
        if undone:
            LOG.warning(
                'The claim of request %s for %s is undone: it was never answered',
                intent.request_id,
                intent.consumer_uuid,
            )
        return undone

    def _name(self, record: Record, why: str) -> None:
        consumer = record.intent.consumer_uuid
        LOG.warning(
            'The claim of request %s for %s may be left behind, %s. If nobody knows '
            'of it, remove it with: openstack resource provider allocation delete %s',
            record.intent.request_id,
            consumer,
            why,
            consumer,
        )


class Kept(NamedTuple):
    """What a scheduler has of the journal; ``journal`` None: there is none."""

    journal: FileJournal | None
    on_held: Callable[[str, Mapping[str, Any] | None, int | None], None]
    chores: Sequence[tuple[float, Callable[[], None]]]
    close: Callable[[], None] = lambda: None


def _untold(
    consumer_uuid: str, before: Mapping[str, Any] | None, generation: int | None
) -> None:
    """Write nothing down."""


def from_conf(conf: cfg.ConfigOpts, take_back: TakeBack) -> Kept:
    """Make the journal, if there is to be one, and the chore that goes with it."""
    directory = journal.directory_of(conf)
    if directory is None:
        return Kept(None, _untold, ())
    own = FileJournal(directory)
    recovery = Recovery(own, take_back, conf.novasched.journal_undo_within)
    chore = INTERVAL_S, recovery.undo_left_claims
    return Kept(own, own.held, [chore], own.close)


def problem(conf: cfg.ConfigOpts) -> str | None:
    """Return why claims cannot be written down, or None."""
    directory = journal.directory_of(conf)
    if directory is None:
        return (
            'There is no journal of claims, as neither [novasched] journal_dir nor '
            '[DEFAULT] state_path is set: what a killed worker has claimed may stay.'
        )
    return FileJournal(directory).problem()
