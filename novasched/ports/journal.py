# SPDX-License-Identifier: Apache-2.0
"""Journal of claims, by which those of a killed process can be undone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class Intent:
    """A claim that is about to be made.

    ``allocations`` are amounts by resource class by provider. ``before`` is what the
    consumer holds already: the body that restores it, or None for nothing.
    ``generation`` is the consumer's before the claim; None: it has none.
    ``undo_within_s`` is for how long from now the caller certainly still waits, and
    makes no second claim; None: unknown.
    """

    request_id: str | None
    consumer_uuid: str
    project_id: str | None
    allocations: Mapping[str, Mapping[str, int]]
    before: Mapping[str, Any] | None = None
    generation: int | None = None
    undo_within_s: float | None = None


class Entry(Protocol):
    """One intent in the journal. It is open until its outcome is recorded."""

    def settle(self) -> None:
        """Nothing is to be undone: it was refused, undone, answered, or given up."""

    def answering(self) -> None:
        """From now on the caller may know of the claim: it must not be undone."""

    def leave(self) -> None:
        """The outcome is unknown: recovery that finds it open may undo it."""


class Journal(Protocol):
    """Keeps intents; what cannot be written down keeps no claim from being made."""

    def intend(self, intents: Sequence[Intent]) -> Sequence[Entry]:
        """Write down claims before they are made; an entry for each, in order."""
