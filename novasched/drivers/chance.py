# SPDX-License-Identifier: Apache-2.0
"""The chance scheduler: any host that is up, whatever runs on it."""

from __future__ import annotations

import logging
import random
from dataclasses import replace

import numpy as np

from novasched import errors
from novasched.drivers import Driver, ScheduleRequest, ScheduleResult
from novasched.drivers.nova_log_lines import log_decision
from novasched.drivers.selections import Picked, SelectionMaker
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.hosts import HostTable
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Blocker
from novasched.scheduler.trace import Decision

LOG = logging.getLogger(__name__)

CHANCE = Profile(filters=(), weighers=(), shuffle_best=True)
"""Nothing is filtered or weighed: all hosts tie, and ties are shuffled."""


class ChanceScheduler(Driver):
    """Draws from the hosts whose services are enabled and up.

    The destination, the ignored and the forced hosts of the request count; its
    instances get a host each while there are enough. Nova: scheduler/chance.py.
    """

    USES_ALLOCATION_CANDIDATES = False

    def select_destinations(self, request: ScheduleRequest) -> ScheduleResult:
        context, spec = self.context, request.spec
        known = context.view.hosts(None, spec.target_cell_uuid)
        allowed = left = known[~known.service_disabled & known.service_up]
        if not len(left):
            request.recorder.blocked(Blocker.UNKNOWN_HOSTS)
            raise errors.NoValidHost('Is the appropriate service running?')
        seed = context.rng.getrandbits(64)
        rng = random.Random(seed)
        LOG.debug('Seed of the decisions: %d', seed)

        def shuffled(
            hosts: HostTable, spec: RequestSpec, index: int, is_recorded: bool = True
        ) -> Decision:
            """Rank the hosts that the request allows, by chance."""
            decision = decide(CHANCE, hosts, spec, rng, index)
            decision = replace(decision, seed=seed, filters_ran=False)
            log_decision(decision, set())
            request.recorder.decided(decision, index if is_recorded else None)
            return decision

        picked: list[Picked] = []
        for index in range(request.required):
            if index:
                request.check()
            if request.instance_uuids:
                spec = spec.for_instance(request.instance_uuids[index])
            drawn = shuffled(left, spec, index).ranked
            if index == 0:
                allowed = drawn
            if not len(drawn):
                raise errors.NoValidHost('Could not find another compute')
            host = drawn.state(0)
            LOG.debug('Selected host: %s', host)
            request.recorder.picked(host.host, ())
            picked.append(Picked(host, None))
            spec = spec.with_group_on(host.host)
            # All hosts again when every one was drawn.
            left = drawn[np.arange(1, len(drawn))] if len(drawn) > 1 else allowed
        alternates = context.max_attempts - 1 if request.return_alternates else 0
        if len(picked) > 1 and alternates:
            last = len(picked) - 1
            allowed = shuffled(allowed, spec, last, is_recorded=False).ranked
        maker = SelectionMaker(None, context.default_availability_zone)
        selections = maker.with_alternates(picked, allowed, alternates)
        return ScheduleResult(selections, spec)
