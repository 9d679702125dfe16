# SPDX-License-Identifier: Apache-2.0
"""Dry runs of the console: plans, and questions about a cloud with changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from novasched import errors
from novasched.console.cached_session import CachedSession
from novasched.decisions.record import DecisionRecord
from novasched.inspection.questions import capacity, plan, why_not
from novasched.inspection.questions.all_decisions import AllDecisions
from novasched.inspection.questions.explain import explanation
from novasched.inspection.questions.reports import (
    AnyPlan,
    CapacityReport,
    WhyNotReport,
)
from novasched.inspection.session.orders import (
    AnyPlanOrder,
    CapacityOrder,
    PlanOrder,
    WhyNotOrder,
)
from novasched.inspection.session.session import Inspection


class DryRuns:
    """Answers what would be, one question at a time; nothing is claimed.

    ``decisions`` returns the decisions of all schedulers.
    """

    def __init__(
        self, session: CachedSession, decisions: Callable[[], AllDecisions]
    ) -> None:
        self._session = session
        self._decisions = decisions

    def plan(self, order: AnyPlanOrder) -> AnyPlan:
        """Answer as ``novasched plan`` does; one of new servers says how the first was
        decided, whatever ended the request."""
        with self._session.dry_run(order.what_if, order.seed) as inspection:
            found = plan.answer(inspection, order, self._record)
            if isinstance(order, PlanOrder) and not order.explain:
                first = inspection.run.log.records[:1]
                explained = [explanation(each, 0) for each in first]
                found = replace(found, explanations=explained)
            return found

    def why_not(self, order: WhyNotOrder) -> WhyNotReport:
        """Answer as ``novasched why-not`` does."""
        with self._session.dry_run(order.what_if, order.seed) as inspection:
            return why_not.answer(inspection, order, self._record)

    def capacity(self, order: CapacityOrder) -> CapacityReport:
        """Return the capacity of a cloud with changes, or as placement is now."""
        with self._session.dry_run(order.what_if) as inspection:
            return capacity_of(inspection, order)

    def _record(self, name: str) -> DecisionRecord:
        """Return the record of a decision. Raises errors.OptionError."""
        try:
            found = self._decisions().read(name)
        except (errors.DecisionNotFound, errors.AmbiguousDecision) as problem:
            raise errors.OptionError(
                'like', str(problem), 'Give the whole id'
            ) from problem
        if found is None:
            raise errors.OptionError(
                'like', 'no such decision is kept', 'Give a flavor'
            )
        return found


def capacity_of(
    inspection: Inspection,
    order: CapacityOrder,
    stranded: bool = True,
    kept: capacity.Capacity | None = None,
) -> CapacityReport:
    """Return the slots of flavors; ``kept`` knows slots that were counted before.

    Raises errors.OptionError.
    """
    by_host = order.by == 'host'
    most = capacity.MOST_BY_HOST if by_host else capacity.MOST_FLAVORS
    return capacity.answer(inspection, order, stranded, most, kept)
