# SPDX-License-Identifier: Apache-2.0
"""The journal entries of one request: open until its claims are answered or undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from novasched.ports import NO_CALLER, Caller, ClaimRequest, Entry, Intent, Journal


class ClaimJournal:
    """Keeps the open journal entries of a request by consumer; without a journal, none.

    Without a ``caller`` the request counts as answered as soon as the claims stand.
    """

    def __init__(
        self, journal: Journal | None = None, caller: Caller = NO_CALLER
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
        within_s = self._caller.patience_left_s()
        intents = []
        for claim in wanted:
            allocations = claim.candidate['allocations']
            amounts = {name: part['resources'] for name, part in allocations.items()}
            intents.append(
                Intent(
                    request_id,
                    claim.consumer_uuid,
                    project_id,
                    amounts,
                    undo_within_s=within_s,
                )
            )
        consumers = [claim.consumer_uuid for claim in wanted]
        self._open.update(zip(consumers, self._journal.intend(intents), strict=True))

    def resume(self, entries: Mapping[str, Entry]) -> None:
        """Take over open entries of an earlier attempt, by consumer."""
        self._open.update(entries)

    def settle(self, *consumers: str) -> None:
        """Settle the entries of consumers: recovery leaves their claims alone."""
        for consumer in consumers:
            if entry := self._open.pop(consumer, None):
                entry.settle()

    def take(self, consumer: str) -> Entry | None:
        """Return the open entry of a consumer, which is another's from now on."""
        return self._open.pop(consumer, None)

    def end(self, error: BaseException) -> None:
        """Leave to recovery what is neither answered nor undone.

        An ``error`` that is no Exception ends the process, and no caller hears of it.
        """
        for entry in self._open.values():
            if isinstance(error, Exception):
                entry.undo_later(0.0)
            else:
                entry.leave()
        self._open = {}

    def check_caller(self) -> None:
        """Raise CallerGone when the caller waits no more for the answer."""
        self._caller.check()

    def answer(self, undo: Callable[[], None] = lambda: None) -> None:
        """Settle the entries once the answer is delivered.

        ``undo`` is called if the answer cannot be delivered.
        """
        answered, self._open = self._open, {}

        def settle() -> None:
            for entry in answered.values():
                entry.settle()

        def take_back() -> None:
            self._open.update(answered)
            try:
                undo()
            except BaseException as defect:
                self.end(defect)
                raise

        for entry in answered.values():
            entry.answering()
        self._caller.when_answered(settle)
        self._caller.if_undeliverable(take_back)
