# SPDX-License-Identifier: Apache-2.0
"""The cloud that the console shows where there is none."""

import datetime
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from novasched.decisions.reading import Criteria
from novasched.inspection.session.orders import CapacityOrder, HostsOrder, PlanOrder
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.local import busy_hour, console_demo

REQUESTS = 40
NETWORK_HOST = 'sh11-nfvm-compute-10e5e12e32'


@pytest.fixture(scope='module')
def reader(tmp_path_factory):
    directory = tmp_path_factory.mktemp('demo')
    before, tempfile.tempdir = tempfile.tempdir, str(directory)
    try:
        with console_demo.opened(REQUESTS) as opened:
            yield opened
    finally:
        tempfile.tempdir = before
    assert list(directory.iterdir()) == []


def test_decisions_of_all_kinds_in_the_last_hour(reader):
    found = reader.decisions(Criteria(), None, 500).decisions
    assert len(found) >= REQUESTS
    blockers = {(each.blocker, each.plugin) for each in found}
    assert blockers >= {
        ('', ''),
        ('no-candidates', ''),
        ('claims', ''),
        ('named-host', ''),
        ('filters', 'AvailabilityZoneFilter'),
        ('filters', 'AggregateInstanceExtraSpecsFilter'),
        ('filters', 'ServerGroupAntiAffinityFilter'),
        ('filters', 'NUMATopologyFilter'),
    }
    assert {each.result for each in found} == {'scheduled', 'unschedulable', 'error'}
    assert max(each.servers for each in found) > 1
    overview = reader.overview()
    ended = datetime.datetime.fromisoformat(overview.until).timestamp()
    recent = [each for each in found if each.at >= (ended - overview.window_s) * 1e6]
    assert len(recent) >= REQUESTS - 2
    assert sum(overview.results.values()) == len(recent)
    assert len(overview.minutes) > REQUESTS / 4


def test_a_claim_that_was_refused_went_to_another_host(reader):
    found = reader.decisions(Criteria(result='scheduled'), None, 500).decisions
    explained = [reader.decision(each.id, None) for each in found]
    outcomes = [
        [claim.outcome for claim in each.claims if claim.outcome != 'void']
        for each in explained
    ]
    assert ['conflict', 'claimed'] in outcomes or ['refused', 'claimed'] in outcomes


def test_placement_says_why_it_offered_no_host(reader):
    found = reader.decisions(Criteria(blocker='no-candidates'), None, 1).decisions
    explained = reader.decision(found[0].id, None)
    assert explained.stages[0].reasons


def test_hosts_are_of_every_state(reader):
    hosts = reader.hosts(HostsOrder(flavor='m1.large')).hosts
    states = {each.host: each.state for each in hosts}
    assert len(states) == 16
    assert states[busy_hour.DISABLED] == 'disabled'
    assert states[busy_hour.DOWN] == 'down'
    assert set(states.values()) == {'enabled', 'disabled', 'down'}


def test_a_host_has_numa_nodes_devices_and_holders(reader):
    found = reader.host(NETWORK_HOST)
    (node,) = found.nodes
    assert len(node.numa) == 2
    assert node.devices
    assert any(each.pcpu and each.pages for each in found.holders)


def test_servers_name_the_decisions_that_chose_their_hosts(reader):
    newest = reader.decisions(Criteria(result='scheduled'), None, 1).decisions[0]
    found = reader.host(newest.picked[0])
    assert newest.id in {each.decision for each in found.holders}
    assert found.decisions[0].id == newest.id


def test_plans_and_capacity(reader):
    assert reader.plan(PlanOrder(flavor='m1.small', count=2)).fits == 2
    none = reader.plan(PlanOrder(flavor='m1.huge', zone='SERIES-3-ZONE'))
    assert none.fits == 0
    assert none.changes
    more = PlanOrder(flavor='m1.huge', what_if=('add 1 like sh11-compute-m3-*e20',))
    assert reader.plan(more).fits == 1
    rows = reader.capacity(CapacityOrder(by='zone')).rows
    assert {row.flavor for row in rows} >= {'m1.large', 'm1.small'}
    assert reader.health()['status'] == 'pass'


def test_the_hour_ends_now(reader):
    newest = reader.decisions(Criteria(), None, 1).decisions[0]
    oldest = reader.decisions(Criteria(), None, 500).decisions[-1]
    assert oldest.at < newest.at < SYSTEM_CLOCK.time() * 1e6


def test_signal_breaks_off_the_start(tmp_path):
    program = Path(sys.executable).with_name('novasched-console')
    with subprocess.Popen(
        [program, '--demo', '--listen', f'unix://{tmp_path}/console.sock'],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={'TMPDIR': str(tmp_path)},
        text=True,
    ) as started:
        assert started.stdout.readline() == 'making a cloud ...\n'
        started.send_signal(signal.SIGTERM)
        rest, _ = started.communicate(timeout=60)
    assert started.returncode == 0
    assert 'The console is at' not in rest
    # The first use of tempfile tries whether it can write, with an empty file.
    left = [
        each for each in tmp_path.rglob('*') if each.is_dir() or each.stat().st_size
    ]
    assert left == []
