# SPDX-License-Identifier: Apache-2.0
"""A recorder of metrics that a test can read, and a clock that ticks."""

import collections
import itertools

from tests.support.clouds.fakes import FakeClock


class FakeRecorder:
    """Keeps sums and lists by metric and labels."""

    def __init__(self):
        self.counts = collections.Counter()
        self.observed = collections.defaultdict(list)
        self.gauges = {}

    def count(self, metric, *labels, by=1):
        self.counts[metric.name, *labels] += by

    def observe(self, metric, value, *labels):
        self.observed[metric.name, *labels].append(value)

    def set(self, metric, value, *labels):
        self.gauges[metric.name, *labels] = value


class TickingClock(FakeClock):
    """A second goes by with each look."""

    def __init__(self):
        super().__init__()
        self._ticks = itertools.count()

    def monotonic(self):
        return float(next(self._ticks))
