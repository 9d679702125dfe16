# SPDX-License-Identifier: Apache-2.0
"""The request that a driver places."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from novasched.claiming.attempt import RequestAttempt
from novasched.claiming.claims import Claims
from novasched.claiming.host_candidates import ALL_HOSTS
from novasched.claiming.retries import RetryBudget
from novasched.cluster.freshness import ViewFreshness
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.ports import NO_CALLER, Caller, Candidates
from novasched.ports.decisions import NO_RECORDER, DecisionRecorder
from novasched.runtime.deadline import Check, never


@dataclass(frozen=True)
class ScheduleRequest:
    """A request whose hosts are chosen, and not claimed.

    It is a rebuild, it names no instances, or the driver does not use placement.
    """

    context: RequestContext
    spec: RequestSpec
    instance_uuids: Sequence[str] = ()
    names_instances: bool = True  # else its hosts are not claimed
    return_alternates: bool = False
    candidates: Candidates = ALL_HOSTS
    caller: Caller = NO_CALLER
    recorder: DecisionRecorder = NO_RECORDER  # gets each decision
    check: Check = never  # called between two instances; raises to end the work
    freshness: ViewFreshness = field(default_factory=lambda: ViewFreshness(is_new=True))
    # notes which services did not answer
    attempt: RequestAttempt = field(default_factory=RequestAttempt)
    # whether placement may offer hosts that the copy of placement does not show yet
    copy_lags: Callable[[], bool] = lambda: False

    @property
    def budget(self) -> RetryBudget:
        """What the request may still decide again."""
        return self.attempt.budget

    @property
    def required(self) -> int:
        """The number of hosts to answer; what the request says may be stale."""
        return len(self.instance_uuids) or self.spec.num_instances

    def claiming(self) -> contextlib.AbstractContextManager[object]:
        """Return the context within which the driver claims, and the answer is sent."""
        return contextlib.nullcontext()

    def check_caller(self) -> None:
        """Raise CallerGone if something is claimed and the caller waits no more."""

    def claimed_by(self, claims: Claims) -> ClaimedRequest:
        """Return the request with what holds its claims together."""
        return ClaimedRequest(**vars(self), claims=claims)


@dataclass(frozen=True, kw_only=True)
class ClaimedRequest(ScheduleRequest):
    """A request whose hosts are claimed."""

    claims: Claims

    @property
    def budget(self) -> RetryBudget:
        """What the request, and its claims, may still decide again."""
        return self.claims.budget

    def claiming(self) -> contextlib.AbstractContextManager[object]:
        return self.claims

    def check_caller(self) -> None:
        self.claims.check_caller()
