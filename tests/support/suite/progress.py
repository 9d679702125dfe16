# SPDX-License-Identifier: Apache-2.0
"""Which part of the tests is at work and how much is left; where the seconds went.

How much is left is known by the seconds that each file took the last time, which
pytest's cache keeps, or else by what tests of a folder take on average.
"""

import time
from collections import Counter

import pytest

EVERY_S = 10
SECONDS = 'novasched/seconds'
"""Where the cache keeps the seconds of each file."""
GUESSED = {
    'live': 2.5,
    'faults': 3.0,
    'browser': 1.5,
    'lab': 1.0,
    'differential': 0.6,
    'functional': 0.4,
    'properties': 0.3,
}
"""Seconds of a test by its folder; of others some hundredths."""
DEAREST = 10
MINUTE_S = 60


def part_of(nodeid):
    """Return the folder of a test: what follows tests/, or lab."""
    first, _, rest = nodeid.partition('/')
    return first if first == 'lab' else rest.partition('/')[0]


def file_of(nodeid):
    """Return the path of a test's file."""
    return nodeid.partition('::')[0]


class Progress:
    """Writes a line every ten seconds instead of a dot for each test."""

    def __init__(self, config, clock=time.monotonic):
        self._config = config
        self._clock = clock
        # None where pytest runs with -p no:cacheprovider.
        self._cache = getattr(config, 'cache', None)
        self._before = {} if self._cache is None else self._cache.get(SECONDS, {})
        self._began_s = self._wrote_s = clock()
        self._expected = Counter()
        self._done = Counter()
        self._running = set()
        self._tests = Counter()
        self._files = Counter()

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids):
        """Learn which tests there are, of a process that runs some of them."""
        self._expected = Counter(map(file_of, ids))

    def pytest_collection_finish(self, session):
        """Learn which tests there are, where they run in this process."""
        if session.items:
            self._expected = Counter(file_of(item.nodeid) for item in session.items)

    def pytest_runtest_logstart(self, nodeid):
        """Note what is at work."""
        self._running.add(nodeid)

    def pytest_report_teststatus(self, report):
        """Write no letter for a test that passed."""
        if report.passed and self._config.get_verbosity() <= 0:
            return ('passed' if report.when == 'call' else ''), '', 'PASSED'
        return None

    def pytest_runtest_logreport(self, report):
        """Count what is done."""
        self._tests[report.nodeid] += report.duration
        self._files[file_of(report.nodeid)] += report.duration
        if report.when == 'teardown':
            self._running.discard(report.nodeid)
            self._done[file_of(report.nodeid)] += 1
            if self._clock() - self._wrote_s > EVERY_S:
                self._wrote_s = self._clock()
                self._write(self.line(report.nodeid))

    def _write(self, line):
        reporter = self._config.pluginmanager.get_plugin('terminalreporter')
        reporter.ensure_newline()  # there may be a letter of a test that failed
        reporter.write_line(line)

    def line(self, ended):
        """Return what is done, what is at work, and how much is left."""
        now_s = self._clock()
        share = self._share()
        left_s = (now_s - self._began_s) * (1 - share) / max(share, 0.001)
        done, count = self._done.total(), self._expected.total()
        parts = sorted(set(map(part_of, (ended, *self._running))))
        left = f'{left_s / MINUTE_S:.0f} min' if share > 0 else '?'
        return (
            f'{share:4.0%}  {done} of {count} tests, about {left} left; '
            f'at work: {", ".join(parts)}'
        )

    def _share(self):
        """Return how much of all seconds is done, 0 to 1."""
        weights = {
            file: self._before.get(file, 0.0) / count
            or GUESSED.get(part_of(file), 0.03)
            for file, count in self._expected.items()
        }
        whole = sum(weights[file] * count for file, count in self._expected.items())
        done = sum(weights.get(file, 0) * count for file, count in self._done.items())
        return done / whole if whole else 1.0

    def pytest_sessionfinish(self):
        """Keep the seconds of each file for the next time."""
        if self._cache is not None:
            self._cache.set(SECONDS, {**self._before, **self._files})

    def pytest_terminal_summary(self, terminalreporter):
        """After a minute or more, write where the seconds went."""
        if self._clock() - self._began_s < MINUTE_S:
            return
        folders, counts = Counter(), Counter()
        for nodeid, seconds in self._tests.items():
            folders[part_of(nodeid)] += seconds
            counts[part_of(nodeid)] += 1
        terminalreporter.section('seconds by folder')
        for part, seconds in folders.most_common():
            terminalreporter.line(f'{seconds:8.1f}  {part} ({counts[part]} tests)')
        terminalreporter.line(f'{folders.total():8.1f}  together')
        terminalreporter.section(f'the {DEAREST} dearest tests')
        for nodeid, seconds in self._tests.most_common(DEAREST):
            terminalreporter.line(f'{seconds:8.1f}  {nodeid}')
