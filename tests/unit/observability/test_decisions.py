# SPDX-License-Identifier: Apache-2.0
"""Metrics and health of the decision log."""

import random
from dataclasses import replace

import pytest

from novasched import errors
from novasched.decisions.body import RecordBody
from novasched.observability.decisions import (
    MOST_WAIT_S,
    PLUGINS_EVERY,
    DecisionMetrics,
)
from novasched.observability.health import PASS, WARN
from novasched.ports.decisions import NO_ROUNDS
from novasched.scheduler.filters.host_limit import NumInstancesFilter
from novasched.scheduler.outcomes import Outcome
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.weighers.resources import RAMWeigher
from tests.support.clouds import factories
from tests.support.records.decision_records import changed, unschedulable
from tests.support.records.recordings import Recorded
from tests.support.tables.cases import cases
from tests.unit.observability.recorder import TickingClock

FULL = NumInstancesFilter(limit=5)
ALGORITHM = 'novasched_scheduling_algorithm_duration_seconds'
STAGE = 'novasched_framework_extension_point_duration_seconds'
PLUGIN = 'novasched_plugin_execution_duration_seconds'
LOST_TIME = 'novasched_claim_lost_timestamp_seconds'
REJECTED = 'novasched_hosts_rejected_total'


@pytest.fixture
def metrics(recorder):
    return DecisionMetrics(recorder)


def request(rounds=NO_ROUNDS):
    """The recorder of a request that has ended."""
    made = Recorded().log.recorder(None, factories.request(), None)
    made.rounds = rounds
    return made


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
    metrics.recorded(request(), changed(unschedulable(), diagnosis=diagnosis), 0.1)
    assert recorder.counts['novasched_placement_diagnoses_total', 'made'] == counted


def test_all_hosts_that_were_rejected_are_counted(metrics, recorder):
    recorded = Recorded(factories.hosts(num_instances=[0, 5, 5]), filters=[FULL])
    recorded.ask()
    reduced = replace(recorded.record, body=RecordBody())  # as if it were too large
    metrics.recorded(recorded.log.requests[-1], reduced, 0.1)
    assert recorder.counts[REJECTED, 'NumInstancesFilter', 'too-many-instances'] == 2


def test_rounds_are_counted_by_reason(metrics, recorder):
    rounds = {Outcome.HOST_CHANGED: 2, Outcome.OVER_CAPACITY: 1}
    metrics.recorded(request(rounds=rounds), unschedulable(), 0.1)
    assert recorder.counts['novasched_decided_again_total', 'host changed'] == 2
    assert recorder.counts['novasched_decided_again_total', 'overfull'] == 1


def test_claims_that_yielded_are_counted(metrics, recorder):
    outcomes = ('claimed', 'yielded', 'yielded', 'overfull')
    record = unschedulable(claims=[{'outcome': each} for each in outcomes])
    metrics.recorded(request(), record, 0.1)
    assert recorder.counts['novasched_group_yields_total',] == 2
    assert recorder.counts['novasched_capacity_yields_total',] == 1
    assert recorder.gauges[LOST_TIME, 'yielded'] == record.head.at // 1_000_000
    (check,) = metrics.check_conflicts('now').values()
    assert check.output.startswith('1 overfull, last at 20')
    assert '2 yielded, last at 20' in check.output


def prefilter(request, context):
    return None


def test_stages_of_a_request_are_measured(metrics, recorder):
    recorded = Recorded(
        factories.hosts(num_instances=[0, 0, 5]),
        filters=[FULL],
        weighers=[RAMWeigher()],
        prefilters=[prefilter],
        clock=TickingClock(),
    )
    recorded.log.observer = metrics
    for _ in range(PLUGINS_EVERY):
        recorded.ask()
    points = ('PreFilter', 'Query', 'Claim', 'Filter', 'Score')
    assert {point: len(recorder.observed[STAGE, point]) for point in points} == (
        dict.fromkeys(points, PLUGINS_EVERY)
    )
    sampled = [key[1:] for key in recorder.observed if key[0] == PLUGIN]
    assert sampled == [
        ('prefilter', 'PreFilter'),
        ('NumInstancesFilter', 'Filter'),
        ('RAMWeigher', 'Score'),
    ]
    assert all(len(recorder.observed[PLUGIN, *key]) == 1 for key in sampled)


def test_stage_that_fails_or_follows_the_answer_is_measured(metrics, recorder):
    log = Recorded(clock=TickingClock()).log
    log.observer = metrics
    request = log.recorder(None, factories.request(), None)
    with pytest.raises(errors.StoreFailed), request.stage('query'):
        raise errors.StoreFailed('nova', 'gone')
    request.answer, request.when_ended = (), lambda ended: None
    request.ended((), None)
    with request.stage('undo'):
        pass
    assert recorder.observed == {(STAGE, 'Query'): [1.0], (STAGE, 'Undo'): [1.0]}
    assert request.stages_s == {'query': 1.0}


def decision(num_instances, took_s):
    profile = Profile([NumInstancesFilter(limit=5)], [RAMWeigher()])
    hosts = factories.hosts(num_instances=num_instances)
    made = decide(profile, hosts, factories.request(), random.Random(1))
    return replace(made, took_s=took_s)


def test_filters_and_weighers_are_summed_up(metrics, recorder):
    took_s = {'NumInstancesFilter': 0.5, 'RAMWeigher': 0.25}
    log = Recorded().log
    log.observer = metrics
    request = log.recorder(None, factories.request(), None)
    request.decided(decision([1, 2], took_s), 0)
    request.decided(decision([1, 2], took_s))
    assert recorder.observed[ALGORITHM,] == [0.75] * 2
    assert recorder.observed[STAGE, 'Filter'] == [0.5] * 2
    assert recorder.observed[STAGE, 'Score'] == [0.25] * 2
    assert request.stages_s == {'filter': 0.5, 'score': 0.25}
    assert len(request.turns) == 1
    assert not recorder.counts


@pytest.mark.parametrize(
    ('num_instances', 'plugin'), [([5, 6], 'NumInstancesFilter'), ([], 'none')]
)
def test_filter_that_took_the_last_host_is_counted(
    metrics, recorder, num_instances, plugin
):
    metrics.decided(request(), decision(num_instances, {}), {})
    assert recorder.counts == {('novasched_unschedulable_decisions_total', plugin): 1}
    assert not recorder.observed
