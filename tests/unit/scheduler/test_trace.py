# SPDX-License-Identifier: Apache-2.0
"""What a decision tells of itself."""

from __future__ import annotations

import random

from novasched.scheduler.filters.compute import ComputeFilter
from novasched.scheduler.filters.num_instances import NumInstancesFilter
from novasched.scheduler.pipeline import Profile, decide
from novasched.scheduler.reasons import Code
from tests import factories


def decision():
    hosts = factories.hosts(
        num_instances=[9, 1, 5, 7], service_up=[True, True, False, True]
    )
    profile = Profile((ComputeFilter(), NumInstancesFilter(limit=5)), ())
    return decide(profile, hosts, factories.request(), random.Random(1))


def test_the_funnel_is_novas_text():
    assert decision().funnel() == [
        'ComputeFilter: (start: 4, end: 3)',
        'NumInstancesFilter: (start: 3, end: 1)',
    ]


def test_every_step_has_the_name_of_its_filter():
    steps = decision().steps
    assert [step.name for step in steps] == ['ComputeFilter', 'NumInstancesFilter']


def test_rejected_hosts_have_reasons():
    made = decision()
    reasons = [
        [(host.host, reason) for host, reason in step.reasons(made.request)]
        for step in made.steps
    ]
    assert reasons == [
        [('h3', (Code.SERVICE_DOWN, 'has not been heard from since None'))],
        [
            ('h1', (Code.TOO_MANY_INSTANCES, '9 instances, limit 5')),
            ('h4', (Code.TOO_MANY_INSTANCES, '7 instances, limit 5')),
        ],
    ]
