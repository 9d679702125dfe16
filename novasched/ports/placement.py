# SPDX-License-Identifier: Apache-2.0
"""What passes between placement and those who ask and claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from novasched import errors

Candidate = Mapping[str, Any]
"""One allocation request of placement: ``allocations`` and ``mappings``."""


@dataclass(frozen=True)
class Candidates:
    """The answer to an allocation candidates query.

    ``requests`` keep placement's order and must not be modified. ``summaries`` are
    placement's words on the providers, by uuid: their roots, what they have and
    what is used of it; who first looks at them may wait while they are parsed.
    ``cut``: there may be more, which the limit of the query kept back.
    ``further``: these were asked for because those under a limit would not do.
    """

    requests: Sequence[Candidate]
    version: str
    summaries: Mapping[str, Any] = field(
        default_factory=dict[str, Any], compare=False, repr=False
    )
    cut: bool = False
    further: bool = False


@dataclass(frozen=True)
class QueryFailed:
    """Placement answered a query with an error, or not at all.

    ``status`` is 0 when there was no answer.
    """

    status: int
    text: str


@dataclass(frozen=True)
class Claimed:
    """The consumer holds the candidate.

    ``undo`` is the body of the PUT that takes the claim back: what the consumer held
    before, with the generation that it has since the claim. Placement refuses it once
    anybody else wrote the consumer's allocations.
    """

    consumer_uuid: str
    undo: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)


@dataclass(frozen=True)
class Wanted:
    """A candidate that is to be claimed for a consumer that holds nothing."""

    consumer_uuid: str
    candidate: Candidate


@dataclass(frozen=True)
class Refused:
    """Placement did not take the claim; the consumer holds what it held.

    ``status`` is 0 when placement could not be reached, whatever the candidate.
    ``exhausted`` is the provider, by uuid, and the resource class of which it has
    not as much as was asked for; None when the reason is another one. Where it is
    ``conflicted``, others were claiming at the same moment: it may do when tried again.
    """

    status: int
    text: str
    exhausted: tuple[str, str] | None = None
    conflicted: bool = False


@dataclass(frozen=True)
class Unknown:
    """It is not known whether placement took the claim: it must be undone.

    ``holds`` is what the consumer holds if it did, amounts by class by provider, and
    ``undo`` is as in Claimed then.
    """

    consumer_uuid: str
    text: str
    holds: Mapping[str, Mapping[str, int]] = field(
        default_factory=dict[str, Mapping[str, int]], compare=False
    )
    undo: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False)

    def as_claimed(self) -> Claimed:
        """Return the claim as one that placement took."""
        return Claimed(self.consumer_uuid, self.undo)


class UndoUnanswered(errors.AllocationDeleteFailed):
    """Placement does not answer: it is no use to ask it to undo more now."""
