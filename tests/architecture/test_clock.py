# SPDX-License-Identifier: Apache-2.0
"""Time is read from the Clock port alone."""

import re

READS = re.compile(
    r'\btime\.(?:time|monotonic|perf_counter)\b|\btimeutils\.utcnow\b'
    r'|\b(?:datetime|date)\.(?:now|utcnow|today)\b|\bfrom time import\b'
)
CLOCK = 'novasched/runtime/clock.py'
"""Holds SystemClock."""


def test_time_is_read_from_the_clock_port_alone(package_files):
    found = {
        str(path)
        for path, text in package_files.items()
        if path.parts[0] == 'novasched' and READS.search(text)
    }
    assert found == {CLOCK}
