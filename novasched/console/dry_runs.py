# SPDX-License-Identifier: Apache-2.0
"""Dry runs of the console: plans, and the capacity of a cloud with changes."""

from __future__ import annotations

from collections.abc import Callable

from novasched import errors
from novasched.commands.base import FORMAT_VERSION
from novasched.console.cached_session import CachedSession
from novasched.console.reader import MOST_BY_HOST, CapacityOrder, PlanOrder, Report
from novasched.inspection.questions import capacity, places, plan
from novasched.inspection.questions.all_decisions import AllDecisions
from novasched.inspection.questions.explain import explanation
from novasched.inspection.questions.reports import CapacityReport
from novasched.inspection.session import catalogue
from novasched.inspection.session.requests import BootOrder, DryRequest
from novasched.inspection.session.session import Inspection
from novasched.inspection.session.what_if import WhatIf

SAID = ('image', 'zone', 'hints')
"""What a plan like another request cannot have."""


class DryRuns:
    """Answers what would be, one question at a time; nothing is claimed.

    ``decisions`` returns the decisions of all schedulers.
    """

    def __init__(
        self, session: CachedSession, decisions: Callable[[], AllDecisions]
    ) -> None:
        self._session = session
        self._decisions = decisions

    def plan(self, order: PlanOrder) -> Report:
        """Plan as cloud.Cloud.plan() does."""
        what_if = WhatIf.of(order.what_if, is_trusted=False)
        with self._session.dry_run(what_if) as inspection:
            asked = self._request(inspection, order)
            conditions = inspection.placement.conditions
            found = plan.boot(inspection.run, asked, conditions)
            unavailable = inspection.cells_left_out()
            # How the first server was decided, whatever ended the request.
            first = [explanation(each, 0) for each in inspection.run.log.records[:1]]
        left_out = list(dict.fromkeys([*found['cells_left_out'], *unavailable]))
        return {
            'v': FORMAT_VERSION,
            **found,
            'cells_left_out': left_out,
            'explanations': first,
        }

    def capacity(self, order: CapacityOrder) -> CapacityReport:
        """Return the capacity of a cloud with changes."""
        what_if = WhatIf.of(order.what_if, is_trusted=False)
        with self._session.dry_run(what_if) as inspection:
            return capacity_of(inspection, order)

    def _request(self, inspection: Inspection, order: PlanOrder) -> DryRequest:
        """Return the request that is asked for; see commands.plan."""
        if order.like:
            return self._like(inspection, order)
        if not order.flavor:
            raise errors.OptionError(
                'flavor',
                'it is not said what is to be planned',
                'Give its name, or vcpus=2,ram=2048,disk=20',
            )
        flavor = inspection.flavor(order.flavor)
        image = catalogue.image_for(flavor, order.image)
        places.check(inspection.run, order.zone or None, None)
        return inspection.maker.boot(
            BootOrder(
                flavor=flavor,
                image=image,
                count=order.count,
                zone=order.zone or None,
                hints=catalogue.pairs(list(order.hints), '--hint'),
            )
        )

    def _like(self, inspection: Inspection, order: PlanOrder) -> DryRequest:
        said = [name for name in ('flavor', *SAID) if getattr(order, name)]
        if said:
            raise errors.OptionError(
                'like',
                f'the request is known, and {said[0]} is part of it',
                f'Leave one out: {", ".join(said)}',
            )
        if not order.like.startswith('d-'):
            server = inspection.finder.one(order.like)
            return inspection.maker.like_server(server, order.count)
        try:
            record = self._decisions().read(order.like)
        except (errors.DecisionNotFound, errors.AmbiguousDecision) as problem:
            raise errors.OptionError(
                'like', str(problem), 'Give the whole id'
            ) from problem
        request = record.body.request if record is not None else None
        if record is None or request is None:
            words = 'only its head is kept' if record else 'no such decision is kept'
            raise errors.OptionError('like', words, 'Give a flavor')
        return inspection.maker.like(
            request, record.head.project_id or None, order.count
        )


def capacity_of(
    inspection: Inspection,
    order: CapacityOrder,
    stranded: bool = True,
    kept: capacity.Capacity | None = None,
) -> CapacityReport:
    """Return the slots of flavors; ``kept`` knows slots that were counted before.

    Raises errors.OptionError.
    """
    most = MOST_BY_HOST if order.by == 'host' else capacity.MOST_FLAVORS
    flavors = capacity.wanted(inspection, order.flavors, most)
    return capacity.report(
        inspection, inspection.copies, flavors, order.by, stranded, kept
    )
