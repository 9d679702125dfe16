# SPDX-License-Identifier: Apache-2.0
"""The decision log, and the recorder of each request while it is served."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.ports.placement import Candidates, ClaimRequest, QueryFailed
from novasched.resources import Query, Requirements
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.reasons import Blocker
from novasched.scheduler.trace import Decision

Answer = Sequence[Sequence[Selection]]
"""Per instance the selected host, then its alternates."""
NO_ROUNDS: Mapping[Outcome, int] = MappingProxyType({})


class DecisionRecorder:
    """Takes down one request; this base takes down nothing.

    It keeps references and returns at once; nothing that it is given may be modified
    later. ``id`` is the record's.
    """

    id: str = ''

    def stage(self, name: str) -> contextlib.AbstractContextManager[Any, None]:
        """Return a context manager for a stage: prefilter, query, refresh, verify,
        claim, undo, wait or notify. A stage after the end is measured, not recorded.

        The filters and weighers of a decision say themselves how long.
        """
        return contextlib.nullcontext()

    def prefiltered(self, request: RequestSpec, added: Requirements) -> None:
        """The prefilters have run."""

    def asked(self, query: Query, answer: Candidates | QueryFailed) -> None:
        """Placement, or its copy, has answered a query."""

    def blocked(self, blocker: Blocker, plugin: str = '') -> None:
        """The request is about to fail before there is a decision.

        The cause is a prefilter, the host that it names, or the answer of placement.
        """

    def decided(self, decision: Decision, index: int | None = None) -> None:
        """The filters and weighers have run for instance ``index``.

        Without an index, the decision is measured and not kept: it ranks alternates, or
        is of a driver written for nova.
        """

    def picked(self, host: str, cells: Sequence[int]) -> None:
        """The host of the last decision was picked; ``cells`` are the ids of the NUMA
        cells of the instance, if it has any."""

    def claimed(
        self, wanted: Sequence[ClaimRequest], outcome: Outcome, text: str
    ) -> None:
        """Claims of some instances ended, in the claim stage that ended last."""

    def waited(
        self, unavailable: Mapping[str, str], seconds: float, *, again: bool
    ) -> None:
        """It has waited for services, each with its problem; if ``again``, all is
        decided from the start."""

    def explained(self, error: errors.NoValidHost) -> errors.NoValidHost:
        """Return the error with the reasons that the caller may read."""
        return error

    def ended(
        self,
        answer: Answer | None,
        error: Exception | None,
        rounds: Mapping[Outcome, int] = NO_ROUNDS,
    ) -> None:
        """The request is over; one of answer and error is None. Nothing more follows.

        ``rounds`` says how often it decided again, by reason.
        """


NO_RECORDER = DecisionRecorder()


class DecisionLog:
    """The log of all requests of this process; this base keeps no records."""

    def recorder(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str] | None,
    ) -> DecisionRecorder:
        """Return a recorder for a request that has just arrived."""
        return NO_RECORDER

    def saw(self, host: str, uuid: str, instance: Any | None) -> None:
        """A compute says that an instance is on its host, or is there no more: None."""

    def close(self) -> None:
        """Write what was recorded, if that can be done soon."""
