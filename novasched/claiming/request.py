# SPDX-License-Identifier: Apache-2.0
"""The request that a driver places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from novasched.claiming.attempt import RequestAttempt
from novasched.claiming.claims import Claims
from novasched.claiming.retries import RetryBudget
from novasched.cluster.freshness import ViewFreshness
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import Caller, Candidates
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.runtime.deadline import Check, never


@dataclass(frozen=True)
class ScheduleRequest:
    """A request as a driver gets it."""

    context: RequestContext
    request: RequestSpec
    instance_uuids: Sequence[str] | None
    # None for a rebuild and if the driver does not use placement
    candidates: Candidates | None
    claims: Claims | None  # None if nothing is claimed: also if no instances are named
    return_alternates: bool
    caller: Caller | None = None
    recorder: DecisionRecorder = NO_RECORDER  # gets each decision
    check: Check = never  # called between two instances; raises to end the work
    freshness: ViewFreshness = field(default_factory=lambda: ViewFreshness(is_new=True))
    # notes which services did not answer
    attempt: RequestAttempt = field(default_factory=RequestAttempt)
    # whether placement may offer hosts that the copy of placement does not show yet
    copy_lags: Callable[[], bool] = lambda: False

    @property
    def budget(self) -> RetryBudget:
        """The budget of the request, from which its claims spend, too."""
        return self.attempt.budget if self.claims is None else self.claims.budget

    @property
    def required(self) -> int:
        """The number of hosts to answer; what the request says may be stale."""
        return len(self.instance_uuids or ()) or self.request.num_instances
