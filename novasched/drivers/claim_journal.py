# SPDX-License-Identifier: Apache-2.0
"""Journal entries of the claims of one request."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from novasched.ports import Caller, ClaimRequest, Entry, Intent, Journal


class ClaimJournal:
    """Keeps the open entries of a request by consumer; without a journal, nothing.

    Without a ``caller`` the request counts as answered as soon as the claims stand.
    """

    def __init__(
        self, journal: Journal | None = None, caller: Caller | None = None
    ) -> None:
        self._journal = journal
        self._caller = caller
        self._open: dict[str, Entry] = {}

    def intend(
        self,
        request_id: str | None,
        project_id: str | None,
        wanted: Sequence[ClaimRequest],
    ) -> None:
        """Write down claims that are about to be made."""
        if self._journal is None:
            return
        within_s = self._caller.patience_left_s() if self._caller else None
        intents = [_intent(request_id, project_id, one, within_s) for one in wanted]
        entries = self._journal.intend(intents)
        for intent, entry in zip(intents, entries, strict=True):
            self._open[intent.consumer_uuid] = entry

    def settle(self, *consumers: str) -> None:
        """Settle the entries of consumers: recovery leaves their claims alone."""
        for consumer in consumers:
            if entry := self._open.pop(consumer, None):
                entry.settle()

    def end(self, error: BaseException) -> None:
        """Leave the entries open for recovery if ``error`` ends the process.

        An Exception settles them: the caller gets an error, and may claim again.
        """
        if isinstance(error, Exception):
            self.settle(*list(self._open))
        while self._open:
            self._open.popitem()[1].leave()

    def check_caller(self) -> None:
        """Raise CallerGone when the caller waits no more for the answer."""
        if self._caller is not None:
            self._caller.check()

    def answer(self, undo: Callable[[], None] | None = None) -> None:
        """Settle the entries once the answer is delivered.

        ``undo`` is called if the answer cannot be delivered.
        """
        entries = list(self._open.values())
        self._open.clear()

        def settle() -> None:
            for entry in entries:
                entry.settle()

        def take_back() -> None:
            try:
                if undo is not None:
                    undo()
            finally:
                settle()

        if self._caller is None:
            settle()
            return
        for entry in entries:
            entry.answering()
        self._caller.when_answered(settle)
        self._caller.if_undeliverable(take_back)


def _intent(
    request_id: str | None,
    project_id: str | None,
    wanted: ClaimRequest,
    undo_within_s: float | None,
) -> Intent:
    allocations = wanted.candidate['allocations']
    amounts = {name: part['resources'] for name, part in allocations.items()}
    return Intent(
        request_id,
        wanted.consumer_uuid,
        project_id,
        amounts,
        undo_within_s=undo_within_s,
    )
