# SPDX-License-Identifier: Apache-2.0
"""A report says of a decision what a person wants to know."""

from __future__ import annotations

import numpy as np
import pytest

from novasched.objects.selection import Selection
from novasched.scheduler import trace
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostTable, Snapshot
from novasched.scheduler.reasons import Code, Reason
from novasched_lab.local import cluster
from novasched_lab.local.report import (
    FilterStep,
    HeldClaim,
    Rejection,
    Score,
    ScoredHost,
    report,
)

HOSTS = ['a', 'b', 'c', 'd']


class NotD(BaseHostFilter):
    def host_passes(self, host_state, spec_obj):
        return host_state.host != 'd'

    def why(self, host, request):
        return Reason(Code.REJECTED, f'is {host.host}')


@pytest.fixture
def request_spec():
    return cluster.request_spec(cluster.read())


@pytest.fixture
def decision(request_spec):
    """Hosts a, b, c pass; c has most of what the weigher likes, b least."""
    hosts = HostTable(Snapshot({'host': np.array(HOSTS, object)}))
    survivors = NotD().apply(hosts, request_spec)
    weighing = trace.Weighing(
        name='RAMWeigher',
        raw=np.array([5.0, 0.0, 10.0]),
        bounds=(0.0, 10.0),
        multipliers=np.array([2.0, 2.0, 2.0]),
    )
    totals = weighing.multipliers * weighing.normalized
    order = np.argsort(-totals)
    return trace.Decision(
        request=request_spec,
        hosts=hosts,
        notes=(),
        steps=(trace.Step(NotD(), hosts, survivors),),
        weighed=trace.Weighed(survivors, (weighing,), totals),
        ranked=survivors[order],
        totals=totals[order],
    )


def test_steps_count_hosts_and_give_reasons(request_spec, decision):
    made = report(request_spec, decision, [], {}, 0.1)
    assert made.steps == [FilterStep('NotD', 4, 3, (Rejection('d', 'is d'),))]
    assert made.funnel == [4, 3]


def test_weights_stand_in_the_order_of_the_ranking(request_spec, decision):
    made = report(request_spec, decision, [], {}, 0.1)
    assert made.weights == [
        ScoredHost('c', (Score('RAMWeigher', 10.0, 1.0, 2.0, 2.0),), 2.0),
        ScoredHost('a', (Score('RAMWeigher', 5.0, 0.5, 2.0, 1.0),), 1.0),
        ScoredHost('b', (Score('RAMWeigher', 0.0, 0.0, 2.0, 0.0),), 0.0),
    ]


def test_the_first_selection_is_the_host_the_others_are_alternates(
    request_spec, decision
):
    selections = [Selection(service_host=host) for host in ('c', 'a', 'b')]
    held = {'node-c': {'VCPU': 1}}
    made = report(request_spec, decision, selections, held, 0.1)
    assert made.selected == 'c'
    assert made.alternates == ['a', 'b']
    assert made.claim == HeldClaim(request_spec.instance_uuid, held)


def test_a_request_that_ended_before_a_decision(request_spec):
    made = report(request_spec, None, [], {}, 0.1, 'No valid host was found.')
    assert (made.steps, made.weights) == ([], [])
    assert (made.selected, made.claim) == (None, None)
    assert made.failure == 'No valid host was found.'


def test_the_request_in_words(request_spec):
    assert report(request_spec, None, [], {}, 0.1).request == {
        'instance': '3a09fd41-b36b-438d-9f59-35a98524165f',
        'flavor': '1 vCPU, 1024 MiB memory, 0 GiB disk',
        'zone': 'SERIES-3-ZONE',
        'extra specs': 'flavor_class=s3-public, hw:mem_page_size=1048576',
    }
