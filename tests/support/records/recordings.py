# SPDX-License-Identifier: Apache-2.0
"""Requests through the manager and the default driver, with their records."""

import random

from novasched import errors
from novasched.decisions.fault import FaultText, Level
from novasched.decisions.record_builder import RecordBuilder
from novasched.decisions.recording import RequestObserver, RequestRecorder
from novasched.drivers import DriverContext
from novasched.drivers.filter_scheduler import FilterScheduler
from novasched.manager.candidate_query import QueryPolicy
from novasched.objects.context import RequestContext
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.fakes import (
    FakeClock,
    FakePlacement,
    FakeView,
)
from tests.support.clouds.managers import make_manager


class Recordings:
    """A decision log that makes each record when the request ends, and keeps both.

    ``level`` is that of the texts of errors. Satisfies ports.decisions.DecisionLog.
    """

    def __init__(self, level=Level.NONE, profile=None, clock=None, **options):
        self.clock = clock or FakeClock()
        self.builder = RecordBuilder(profile or Profile((), ()), **options)
        self._fault = FaultText(self.builder, level)
        self._rng = random.Random(1)
        self.observer = RequestObserver()
        self.requests = []
        self.records = []
        self.seen = []

    def recorder(self, context, request, instance_uuids):
        return RequestRecorder(
            self.clock,
            self._rng,
            context,
            request,
            instance_uuids,
            self._ended,
            self._fault.explained,
            self.observer,
        )

    def saw(self, host, uuid, instance):
        self.seen.append((host, uuid, instance))

    def close(self):
        """There is nothing to close."""

    def _ended(self, recorder):
        self.requests.append(recorder)
        self.records.append(self.builder.record(recorder))


class Recorded:
    """A manager over fakes whose requests are recorded.

    ``driver`` makes the driver of what it works with; ``options`` are those of the
    builder, ``parts`` those of the driver.
    """

    def __init__(
        self,
        hosts=None,
        placement=None,
        *,
        filters=(),
        weighers=(),
        prefilters=(),
        level=Level.NONE,
        driver=FilterScheduler,
        notifier=None,
        network=None,
        view=None,
        limit=1000,
        clock=None,
        log=None,
        parts=None,
        **options,
    ):
        hosts = factories.hosts(count=5) if hosts is None else hosts
        self.view = view or FakeView(hosts)
        if placement is None:
            placement = FakePlacement(*hosts.uuid.tolist())
        self.placement = placement
        profile = Profile(factories.adapted(filters), factories.adapted(weighers))
        self.log = log or Recordings(level, profile, clock, **options)
        context = DriverContext(
            profile, self.view, self.placement, random.Random(1), **(parts or {})
        )
        self.manager = make_manager(
            driver(context),
            self.view,
            self.placement,
            notifier,
            QueryPolicy(prefilters, limit),
            network,
            self.log,
        )
        self.context = RequestContext(overwrite=False)

    def ask(self, uuids=(factories.INSTANCE,), request=None, caller=None, **values):
        """Ask; return the selections per instance."""
        return self.manager.select_destinations(
            self.context,
            factories.request(**values) if request is None else request,
            None if uuids is None else list(uuids),
            True,
            True,
            caller,
        )

    def refused(self, *args, **values):
        """Ask for what is not to be had; return the text of the error."""
        try:
            self.ask(*args, **values)
        except errors.NoValidHost as failure:
            return str(failure)
        raise AssertionError('there was a host')

    @property
    def record(self):
        """The record of the last request."""
        return self.log.records[-1]
