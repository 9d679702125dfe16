# SPDX-License-Identifier: Apache-2.0
"""Histories of a small cloud, whose hosts fill as requests come."""

from novasched.decisions import history
from novasched.history.files import HistorySettings
from novasched.history.recording import HistoryRecorder
from novasched.plugins import profile_from_conf
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeClock
from tests.support.records.recordings import Recorded

PROFILE = {'nova_release': 34, 'options': history.decisive_options(make_conf())}


class RecordedHistory:
    """A recorder of a history, and the cloud whose requests it records."""

    def __init__(self, directory, worker='rack1', hosts=4, profile=PROFILE, **settings):
        self.clock, self.counted = FakeClock(), {}
        settings = HistorySettings(directory, **settings)
        self.recorder = HistoryRecorder(
            settings, worker, lambda: profile, count=self._count, clock=self.clock
        )
        self.free_ram_mb = [4096 - 512 * number for number in range(hosts)]
        self._profile = profile_from_conf(make_conf())

    def _count(self, outcome, requests):
        self.counted[outcome] = self.counted.get(outcome, 0) + requests

    def request(self, uuid=factories.INSTANCE, **values):
        """Schedule a request; return what was recorded of it."""
        names = [f'compute-{number}' for number in range(len(self.free_ram_mb))]
        cloud = Recorded(
            factories.hosts(
                host=names,
                uuid=[f'c0ffee00-0000-4000-8000-{n:012}' for n in range(len(names))],
                free_ram_mb=self.free_ram_mb,
                service_disabled=[n == 2 for n in range(len(names))],
            ),
            filters=self._profile.filters,
            weighers=self._profile.weighers,
            clock=self.clock,
        )
        ((chosen, *_),) = cloud.ask([uuid], memory_mb=1, **values)
        self.free_ram_mb[names.index(chosen.service_host)] -= 1
        (found,) = cloud.log.requests
        return found

    def record(self, requests=1, **values):
        """Record requests, and have them written."""
        for _ in range(requests):
            self.recorder.add(self.request(**values))
        self.recorder.flush()
