# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of the decision log."""

from dataclasses import replace

import pytest

from novasched.decisions.body import RecordBody
from novasched.observability.decisions import MOST_WAIT_S, DecisionMetrics
from novasched.observability.health import PASS, WARN
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.outcomes import Outcome
from tests.support.clouds import factories
from tests.support.records.decision_records import changed, unschedulable
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases

FULL = NumInstancesFilter(limit=5)
LOST_TIME = 'novasched_claim_lost_timestamp_seconds'
REJECTED = 'novasched_hosts_rejected_total'


@pytest.fixture
def metrics(recorder):
    return DecisionMetrics(recorder)


@cases(
    ('problem', 'waits_s', 'unwritten_s', 'status', 'output'),
    ('all is written', None, 0.0, 0.0, PASS, ''),
    ('a busy moment', None, MOST_WAIT_S, MOST_WAIT_S, PASS, ''),
    ('a store that fails', 'locked', 0.0, 99.0, WARN, 'wait: locked'),
    ('no records', None, 31.0, 0.0, WARN, 'made for 31 s; a plugin may hang'),
    ('a stall', None, 0.0, 31.0, WARN, 'written for 31 s; the disk may stall'),
)
def test_health_warns_where_records_wait(
    metrics, problem, waits_s, unwritten_s, status, output
):
    metrics.problem = lambda: problem
    metrics.waits_s = lambda: waits_s
    metrics.unwritten_s = lambda: unwritten_s
    check = metrics.check('now')
    assert (check.status, check.output.endswith(output)) == (status, True)


@pytest.mark.parametrize(
    ('diagnosis', 'counted'), [('made', 1), ('waiting', 0), ('', 0)]
)
def test_a_diagnosis_counts_once_it_is_made(metrics, recorder, diagnosis, counted):
    metrics.recorded(changed(unschedulable(), diagnosis=diagnosis), 0.1, ())
    assert recorder.counts['novasched_placement_diagnoses_total', 'made'] == counted


def test_all_hosts_that_were_rejected_are_counted(metrics, recorder):
    recorded = Recorded(factories.hosts(num_instances=[0, 5, 5]), filters=[FULL])
    recorded.ask()
    outlines = recorded.log.requests[-1].outlines.values()
    reduced = replace(recorded.record, body=RecordBody())  # as if it were too large
    metrics.recorded(reduced, 0.1, outlines)
    assert recorder.counts[REJECTED, 'NumInstancesFilter', 'too-many-instances'] == 2


def test_rounds_are_counted_by_reason(metrics, recorder):
    rounds = {Outcome.HOST_CHANGED: 2, Outcome.OVER_CAPACITY: 1}
    metrics.recorded(unschedulable(), 0.1, (), rounds)
    assert recorder.counts['novasched_decided_again_total', 'host changed'] == 2
    assert recorder.counts['novasched_decided_again_total', 'overfull'] == 1


def test_claims_that_yielded_are_counted(metrics, recorder):
    outcomes = ('claimed', 'yielded', 'yielded', 'overfull')
    record = unschedulable(claims=[{'outcome': each} for each in outcomes])
    metrics.recorded(record, 0.1, ())
    assert recorder.counts['novasched_group_yields_total',] == 2
    assert recorder.counts['novasched_capacity_yields_total',] == 1
    assert recorder.gauges[LOST_TIME, 'yielded'] == record.head.at // 1_000_000
    (check,) = metrics.check_conflicts('now').values()
    assert check.output.startswith('1 overfull, last at 20')
    assert '2 yielded, last at 20' in check.output
