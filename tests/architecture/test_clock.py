# SPDX-License-Identifier: Apache-2.0
"""Time is read from the Clock port alone."""

from __future__ import annotations

import re

READS = re.compile(
    r'\btime\.(?:time|monotonic|perf_counter)\b|\btimeutils\.utcnow\b'
    r'|\b(?:datetime|date)\.(?:now|utcnow|today)\b|\bfrom time import\b'
)
CLOCK = 'novasched/ports/__init__.py'
"""Holds SystemClock."""
EXEMPT = {
    'novasched/attestation/server.py',
    'novasched/attestation/trusted.py',
    'novasched/drivers/plugin_timing.py',
    'novasched/drivers/target_cell.py',
    'novasched/manager.py',
    'novasched/objects/context.py',
    'novasched/observability/prometheus.py',
    'novasched/observability/requests.py',
    'novasched/observability/serving.py',
    'novasched/observability/worker.py',
}
"""Modules that still read the clock of the machine themselves."""


def test_time_is_read_from_the_clock_port_alone(package_files):
    found = {
        str(path)
        for path, text in package_files.items()
        if path.parts[0] == 'novasched' and READS.search(text)
    }
    assert CLOCK in found
    assert found - EXEMPT == {CLOCK}
