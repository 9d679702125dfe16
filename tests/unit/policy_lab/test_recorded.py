# SPDX-License-Identifier: Apache-2.0
"""What-if from a recorded history."""

import dataclasses
import math
import random
import uuid

import numpy as np
import pytest

from novasched import errors
from novasched.decisions import history as documents
from novasched.history.files import HistorySettings
from novasched.history.recording import HistoryRecorder
from novasched.objects.instance import KnownInstance
from novasched.policy_lab import recorded, runs, sources
from novasched.policy_lab.cloud import LabCloud
from novasched.policy_lab.placing import ManagedPlacer, RefusalLog
from novasched.policy_lab.policy import parse
from novasched.policy_lab.results import FleetGroup
from novasched.policy_lab.simulation import Simulation
from novasched.scheduler.columns import Categories
from novasched.scheduler.flavor_sizes import FlavorSize
from tests.support.clouds.fakes import FakeClock
from tests.support.clouds.traces import HOUR, policy, workload
from tests.support.records.recordings import Recordings

TIGHT = (FleetGroup(2, 8, 32768), FleetGroup(1, 16, 24576))
WORKERS = 2
"""Each of them hears of an instance."""
PACKING = 'cpu:-1,ram:-1,io_ops:0'


class RecordedLog(Recordings, RefusalLog):
    """A decision log that a history is written of."""

    def __init__(self, clock, history):
        Recordings.__init__(self, clock=clock)
        self.step, self._history = '', history

    def _ended(self, recorder):
        self._history.add(recorder)
        self._history.flush()


class RecordedSimulation(Simulation):
    """A simulation whose requests and ends are recorded from a time on."""

    def record(self, directory, tells_ends=True, providers_s=0.0, from_s=0.0):
        self.clock, self.picks, self._uuids, self._from_s = FakeClock(), [], {}, from_s
        self._tells_ends = tells_ends
        profile = {
            'nova_release': 34,
            'options': documents.decisive_options(self.policy.conf),
        }
        self.history = HistoryRecorder(
            HistorySettings(directory),
            'rack1',
            lambda: profile,
            lambda: self.cloud.table() if self.clock.seconds >= providers_s else None,
            clock=self.clock,
        )
        self.run()
        self.history.close()

    def advance(self, at_s):
        """Let instances end; those that are seen to end are recorded."""
        for end_s, _, _, placed in sorted(self._ends, key=lambda end: end[:2]):
            if self._tells_ends and self._from_s <= end_s <= at_s:
                self._saw(end_s, placed, None)
        super().advance(at_s)

    def _saw(self, at_s, placed, flavor):
        """Record that an instance is on its host, or has ended."""
        host = self.cloud.snapshot().column('host')[placed.row]
        known = flavor and KnownInstance('', host, flavor)
        self.clock.advance(at_s - self.clock.seconds)
        for _ in range(WORKERS):
            self.history.saw(host, self._uuids[id(placed)], known)
        self.history.flush()

    def _place(self, batch):
        if batch.at_s >= self._from_s and not self.picks:
            for _, _, flavor, placed in self._ends:
                self._saw(batch.at_s, placed, flavor + 1)
            log = RecordedLog(self.clock, self.history)
            rng = random.Random(1)
            self._managed = ManagedPlacer(self.cloud, self.policy, rng, log)
        if batch.at_s >= self._from_s:
            self.clock.advance(batch.at_s - self.clock.seconds)
            self.picks.append([])
        super()._place(batch)

    def _started(self, batch, first, placed):
        for each in placed:
            number = len(self.picks) or 10000 + len(self._uuids)
            self._uuids[id(each)] = str(uuid.UUID(int=number))
            self._kept = [*getattr(self, '_kept', ()), each]  # so that its id is
        if self.picks:
            self.picks[-1] += [each.row for each in placed]
        super()._started(batch, first, placed)


class PicksSeen(Simulation):
    """A simulation that keeps the rows of all picks, by batch."""

    def seen(self):
        self.picks = []
        self.run()
        return self.picks

    def _place(self, batch):
        self.picks.append([])
        super()._place(batch)

    def _started(self, batch, first, placed):
        self.picks[-1] += [each.row for each in placed]
        super()._started(batch, first, placed)


def alone(load):
    """Return a workload whose batches are single servers."""
    batches = [
        batch._replace(lifetimes_s=batch.lifetimes_s[:1]) for batch in load.batches
    ]
    return dataclasses.replace(load, batches=batches)


def recorded_in(directory, columns=None, **how):
    load = alone(workload(TIGHT, before_s=0.0, count=40))
    if columns:
        hosts = load.cloud.snapshot().with_columns(columns)
        load = dataclasses.replace(load, cloud=LabCloud(hosts, load.cloud.table()))
    simulation = RecordedSimulation(load, policy(PACKING))
    simulation.record(directory, **how)
    return simulation


@pytest.fixture(scope='module')
def directory(tmp_path_factory):
    return tmp_path_factory.mktemp('recorded')


@pytest.fixture(scope='module')
def simulation(directory):
    return recorded_in(directory)


@pytest.mark.parametrize('providers_s', [-math.inf, 3 * HOUR, math.inf])
def test_recorded_policy_picks_the_recorded_hosts(tmp_path, providers_s):
    simulation = recorded_in(tmp_path, providers_s=providers_s)
    load = recorded.workload(tmp_path)
    again = PicksSeen(load, sources.policy_for(load, parse('now=')))
    assert again.seen() == simulation.picks
    assert [] in simulation.picks
    refused = [each.vms for each in again.refusals]
    assert sum(refused) == simulation.picks.count([])
    assert bool(load.trace.unmodelled) == (providers_s == math.inf)


def test_history_in_which_nothing_ends_says_so(tmp_path):
    simulation = recorded_in(tmp_path, from_s=0.0, tells_ends=False)
    load = recorded.workload(tmp_path)
    assert load.trace.unmodelled[recorded.STAY] == len(simulation.picks)


def test_instances_that_ran_before_the_history_end(tmp_path):
    simulation = recorded_in(tmp_path, from_s=3 * HOUR)
    load = recorded.workload(tmp_path)
    again = PicksSeen(load, sources.policy_for(load, parse('now=')))
    assert len(load.residents) > 2
    early = load.trace.unmodelled.get(recorded.EARLY, 0)
    assert again.seen() == simulation.picks[early:]
    assert early + len(load.batches) == len(simulation.picks)


def test_other_policy_picks_other_hosts(simulation, directory):
    load = recorded.workload(directory)
    again = PicksSeen(load, sources.policy_for(load, parse('spread=default')))
    assert again.seen() != simulation.picks


def test_run_over_a_recorded_history_has_its_figures(simulation, directory, tmp_path):
    policies = [parse('now='), parse('spread=default')]
    found = runs.run(
        runs.RunOrder(directory, tmp_path, fill_s=3 * HOUR, processes=1), policies
    )
    now = found.of_policy('now')[0]
    assert now.figures['refused_vms'] == simulation.picks.count([])
    assert now.figures['stranded_vcpus_percent'] is not None
    assert now.figures['drainable_percent'] is None
    assert {(g.count, g.vcpus) for g in found.hosts} == {(2, 8), (1, 16)}


def test_policies_have_the_same_requests_of_a_history_that_goes_on(tmp_path):
    live, whole = tmp_path / 'live', tmp_path / 'whole'
    recorded_in(whole)
    live.mkdir()
    (file,) = whole.glob('*.gz')
    text, begun = file.read_bytes(), live / file.name
    begun.write_bytes(text[: len(text) // 2])

    def go_on(progress):
        begun.write_bytes(text)

    policies = [parse('now='), parse('spread=default')]
    found = runs.run(
        runs.RunOrder(live, tmp_path / 'run', processes=1, report=go_on), policies
    )
    now, spread = found.parts
    assert 0 < now.asked_vms == spread.asked_vms < 40
    assert now.window_s == spread.window_s
    again = runs.run(runs.RunOrder(live, tmp_path / 'run', processes=1), policies)
    assert {each.asked_vms for each in again.parts} == {40}


def test_recorded_source_of_a_move_is_forgotten(tmp_path):
    recorded_in(tmp_path, {'is_source': np.ones(3, bool)})
    load = recorded.workload(tmp_path)
    assert not load.cloud.snapshot().column('is_source').any()


def keep_room_flavors(load, file):
    made = sources.policy_for(load, parse(f'now={file}'))
    return made.conf.filter_scheduler.keep_room_flavors


def test_configuration_with_keep_room_has_the_public_flavors(
    simulation, directory, tmp_path
):
    file = tmp_path / 'nova.conf'
    file.write_text('[filter_scheduler]\nkeep_room_weight_multiplier = 3\n')
    sizes = Categories([(FlavorSize(1, 2048),)], np.zeros(3, np.intp))
    recorded_in(tmp_path, {'public_flavors': sizes})
    assert keep_room_flavors(recorded.workload(tmp_path), file) == []
    asked = keep_room_flavors(recorded.workload(directory), file)
    assert sorted(asked) == ['1:2048', '2:14336', '4:8192']


def test_fewest_hosts_of_a_recorded_history_are_refused(
    simulation, directory, tmp_path
):
    with pytest.raises(errors.OptionError):
        runs.run(runs.RunOrder(directory, tmp_path, needs=True), [parse('now=')])


def test_directory_without_a_history_is_refused(tmp_path):
    with pytest.raises(errors.OptionError):
        recorded.workload(tmp_path)
