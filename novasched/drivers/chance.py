# SPDX-License-Identifier: Apache-2.0
"""The chance scheduler: any host that is up, whatever runs on it."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

import numpy as np

from novasched import errors
from novasched.drivers import Driver, DriverContext, ScheduleRequest, ScheduleResult
from novasched.drivers.decision_log import log_decision
from novasched.drivers.selections import Picked, SelectionMaker
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import Profile, decide

LOG = logging.getLogger(__name__)

CHANCE = Profile(filters=(), weighers=(), shuffle_best=True)
"""Nothing is filtered or weighed: all hosts tie, and ties are shuffled."""


class ChanceScheduler(Driver):
    """Draws from the hosts whose services are enabled and up.

    The destination, the ignored and the forced hosts of the request count; its
    instances get a host each while there are enough. Nova: scheduler/chance.py.
    """

    USES_ALLOCATION_CANDIDATES = False

    def select_destinations(self, work: ScheduleRequest) -> ScheduleResult:
        known = self.parts.view.hosts(None, work.request.target_cell_uuid)
        usable = known[~known.service_disabled & known.service_up]
        if not len(usable):
            raise errors.NoValidHost('Is the appropriate service running?')
        drawing = _Drawing(self.parts, work)
        drawing.draw_all(usable)
        return drawing.answer()


class _Drawing:
    """One request: the hosts that it allows, and those drawn for it so far."""

    def __init__(self, parts: DriverContext, work: ScheduleRequest) -> None:
        self._parts = parts
        self._work = work
        self._request = work.request
        self._picked: list[Picked] = []
        self._seed = parts.rng.getrandbits(64)
        self._rng = random.Random(self._seed)
        LOG.debug('Seed of the decisions: %d', self._seed)

    def draw_all(self, usable: HostTable) -> None:
        """Draw a host per instance; all hosts again when every one was drawn."""
        self._allowed = left = usable
        for index in range(self._work.required):
            if uuids := self._work.instance_uuids:
                self._request = self._request.for_instance(uuids[index])
            drawn = self._shuffled(left, index)
            if index == 0:
                self._allowed = drawn
            if not len(drawn):
                raise errors.NoValidHost('Could not find another compute')
            self._take(drawn)
            left = drawn[np.arange(1, len(drawn))] if len(drawn) > 1 else self._allowed

    def _shuffled(self, hosts: HostTable, index: int) -> HostTable:
        """Return the hosts that the request allows, by chance."""
        decision = decide(CHANCE, hosts, self._request, self._rng, index)
        decision = replace(decision, seed=self._seed, filters_ran=False)
        log_decision(decision, set())
        self._parts.on_decision(decision)
        return decision.ranked

    def _take(self, drawn: HostTable) -> None:
        host = drawn.state(0)
        LOG.debug('Selected host: %s', host)
        self._picked.append(Picked(host, None))
        self._request = self._request.with_group_on(host.host)

    def answer(self) -> ScheduleResult:
        """Return the hosts with their alternates."""
        work, parts = self._work, self._parts
        alternates = parts.max_attempts - 1 if work.return_alternates else 0
        others = self._allowed
        if len(self._picked) > 1 and alternates:
            others = self._shuffled(others, len(self._picked) - 1)
        maker = SelectionMaker(None, parts.default_availability_zone)
        selections = maker.with_alternates(self._picked, others, alternates)
        return ScheduleResult(selections, self._request)
