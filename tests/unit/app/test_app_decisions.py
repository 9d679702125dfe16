# SPDX-License-Identifier: Apache-2.0
"""The decision log of a scheduler is wired with all that it needs."""

from types import SimpleNamespace

import pytest

from novasched.app.decisions import DecisionStore, LogMaker, open_store
from novasched.decisions.memory import MemoryDecisions
from novasched.decisions.pending import PendingRecords
from novasched.decisions.reading import Criteria
from novasched.observability.decisions import DecisionMetrics
from novasched.observability.requests import PickMetrics
from novasched.outages import Outages
from novasched.placement_copy.copy import CopyKeeper
from novasched.placement_copy.diagnosis import DIAGNOSE_EVERY_S
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.scheduler.pipeline import Profile
from tests.support.clouds import factories
from tests.support.clouds.configuration import make_conf
from tests.support.clouds.fakes import FakeView
from tests.support.records.stored_records import make_record
from tests.unit.observability.recorder import FakeRecorder
from tests.unit.placement_copy.providers import FakeProviders


class WaitingForever:
    """Records, one of which waits for a diagnosis that there cannot be."""

    def waiting(self):
        return [(SimpleNamespace(id='d-1', at=0), {})]

    def complete(self, diagnoses):
        return set(diagnoses)


@pytest.mark.parametrize('has_diagnosis', [True, False])
def test_records_that_wait_are_completed_by_a_periodic_task(has_diagnosis):
    recorder = FakeRecorder()
    metrics = DecisionMetrics(recorder)
    dependencies = SimpleNamespace(
        instrumentation=SimpleNamespace(decision_log=metrics),
        services=None,
        clock=SYSTEM_CLOCK,
    )
    view = FakeView(factories.hosts(count=1))
    view.hosts_by_node, view.aggregates = dict, SimpleNamespace(names=dict)
    waiting = WaitingForever()
    store = DecisionStore(PendingRecords(waiting, print), waiting, None, None)
    conf = make_conf(novasched={'placement_diagnosis': has_diagnosis})
    make_log = LogMaker(conf, dependencies, store)
    mirror = CopyKeeper(FakeProviders(), SYSTEM_CLOCK)
    log = make_log(view, Profile((), ()), mirror)
    *tasks, (_, of_worker) = make_log.tasks(Outages(), PickMetrics(recorder))
    of_worker()
    for interval_s, task in tasks:
        assert (interval_s, task.__name__) == (DIAGNOSE_EVERY_S, 'complete_diagnoses')
        task()
    counted = recorder.counts['novasched_placement_diagnoses_total', 'none']
    assert counted == int(has_diagnosis)
    assert metrics.waits_s() == 0
    log.close()


@pytest.fixture
def metrics():
    return DecisionMetrics(FakeRecorder())


def test_a_store_keeps_files(metrics, tmp_path):
    conf = make_conf(novasched={'decisions_dir': str(tmp_path)})
    opened = open_store(conf, metrics)
    record = make_record()
    opened.pending.write([record])
    opened.store.close()
    assert opened.reader.find(Criteria()) == [record.head]
    assert metrics.size() > 0


def test_without_files_records_stay_in_memory(metrics, conf):
    opened = open_store(conf, metrics, in_memory=True)
    assert isinstance(opened.reader, MemoryDecisions)
    record = make_record()
    opened.pending.write([record])
    assert opened.reader.find(Criteria()) == [record.head]
    assert (opened.directory, metrics.size()) == (None, 0)
