# SPDX-License-Identifier: Apache-2.0
"""The benchmark of whole requests runs; what it measures is not looked at."""

import pathlib
import re
import sys

from tests.live.servers.process import completed

ROOT = pathlib.Path(__file__).parents[2]
MEASURED = (
    r'20 hosts, 1 instances: median \d+\.\d\d ms, least \d+\.\d\d ms, '
    r'the process \d+\.\d\d ms a request\n'
)


def test_benchmark_of_requests_measures_requests_that_find_a_host():
    command = '-m benchmarks.request --hosts 20 --requests 2'
    run = completed([sys.executable, '-W', 'ignore', *command.split()], cwd=ROOT)
    assert run.returncode == 0, run.stderr
    assert re.fullmatch(MEASURED, run.stdout)
