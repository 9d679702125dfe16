# SPDX-License-Identifier: Apache-2.0
"""An unmodified filter and an unmodified weigher of nova's load and decide."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.plugins import deciding

EXPECTED = {
    'funnel': deciding.FUNNEL,
    'weighers': ['QuietHostsWeigher'],
    'ranked': deciding.RANKED,
    'limits': deciding.LIMITS_MB,
}
BY_PATH = """
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = tests.plugins.spare_ram.SpareRamFilter
enabled_filters = SpareRamFilter
weight_classes = tests.plugins.quiet_hosts.QuietHostsWeigher
"""
INSTALLED = """
[filter_scheduler]
enabled_filters = SpareRamFilter
weight_classes = nova.scheduler.weights.all_weighers
ram_weight_multiplier = 0
cpu_weight_multiplier = 0
"""
ENTRY_POINTS = """
[novasched.scheduler.filters]
SpareRamFilter = spare_ram:SpareRamFilter
BrokenFilter = broken:BrokenFilter

[novasched.scheduler.weighers]
QuietHostsWeigher = quiet_hosts:QuietHostsWeigher
"""
BROKEN = """
from nova.virt import driver
class BrokenFilter:
    def host_passes(self, host_state, spec_obj):
        return driver
"""


@pytest.fixture
def site(tmp_path, root):
    """A distribution that is installed on a path of its own."""
    installed = tmp_path / 'installed'
    info = installed / 'site_plugins-1.0.dist-info'
    info.mkdir(parents=True)
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: site-plugins\n')
    (info / 'entry_points.txt').write_text(ENTRY_POINTS)
    for name in ('spare_ram.py', 'quiet_hosts.py'):
        shutil.copy(root / 'tests' / 'plugins' / name, installed)
    (installed / 'broken.py').write_text(BROKEN)
    return installed


@pytest.fixture
def run(site, tmp_path, root):
    """Decide in a process that has the distribution; return what it prints."""

    def run_with(text):
        path = tmp_path / 'nova.conf'
        path.write_text(text)
        return subprocess.run(
            [sys.executable, '-m', 'tests.plugins.deciding', str(path)],
            cwd=root,
            env={
                **os.environ,
                'PYTHONPATH': str(site),
                'XDG_CACHE_HOME': str(tmp_path / 'cache'),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    return run_with


def test_by_dotted_path(tmp_path):
    path = tmp_path / 'nova.conf'
    path.write_text(BY_PATH)
    assert deciding.shown(deciding.decision(path)) == EXPECTED


def test_by_entry_point(run):
    found = run(INSTALLED)
    assert found.returncode == 0, found.stderr
    shown = json.loads(found.stdout)
    assert 'QuietHostsWeigher' in shown['weighers']
    assert {'RAMWeigher', 'CPUWeigher'} < set(shown['weighers'])
    assert {**shown, 'weighers': EXPECTED['weighers']} == EXPECTED


def test_an_entry_point_that_cannot_be_loaded_is_named_once_it_is_wanted(run):
    found = run(INSTALLED.replace('= SpareRam', '= BrokenFilter, SpareRam'))
    assert found.returncode == 1
    assert found.stderr.strip().endswith(
        'ClassNotFound: Class broken:BrokenFilter could not be found: '
        "ModuleNotFoundError('novasched lends plugins no nova.virt: it is there with "
        "[novasched] plugins_use_nova, where nova is installed')"
    )
