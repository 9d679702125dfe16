# SPDX-License-Identifier: Apache-2.0
"""Hosts that one customer has for himself."""

from __future__ import annotations

from novasched.scheduler.filters.legacy.own import DedicatedCloudFilter
from novasched.scheduler.reasons import Code
from tests import factories
from tests.tables import cases
from tests.verdicts import assert_verdict

FILTER = DedicatedCloudFilter()


def host(*of_aggregates):
    aggregates = tuple(
        factories.aggregate(
            number,
            dedicated_cloud_id=pools,
            **({'dedicated_cloud_project_id': projects} if projects else {}),
        )
        for number, (pools, projects) in enumerate(of_aggregates)
    )
    return factories.hosts(aggregates=[aggregates])


def asks(hint=None, spec=None):
    return factories.request(
        project_id='p1',
        scheduler_hints={} if hint is None else {'dedicated_cloud_id': hint},
        extra_specs={} if spec is None else {'dedicated_cloud:id': spec},
    )


@cases(
    'hosts, request_, passes',
    ('no pool is asked', host(), asks(), True),
    ('kept for others', host(('a', None)), asks(), False),
    ('a pool without a name', host(('', None)), asks(), True),
    ('the hint', host(('a', None)), asks(['a']), True),
    ('the flavor', host(('a', None)), asks(spec='a'), True),
    ('the hint wins', host(('a', None)), asks(['b'], 'a'), False),
    ('an empty hint', host(('a', None)), asks([], 'a'), True),
    ('a hint of no text', host(('a', None)), asks([''], 'a'), True),
    ('two hints', host(('a', None)), asks(['a', 'b']), False),
    ('of another project', host(('a', 'p2')), asks(['a']), False),
    ('of the project', host(('a', 'p2, p1')), asks(['a']), True),
    ('another pool', host(('a', None)), asks(['b']), False),
    ('one of two pools', host(('a, b', None)), asks(['b']), True),
    (
        'the project is of the other pool',
        host(('a', 'p2'), ('b', 'p1')),
        asks(['a']),
        False,
    ),
    ('one aggregate will do', host(('a', 'p2'), ('a', 'p1')), asks(['a']), True),
    ('in no pool', host(), asks(['a']), False),
)
def test_dedicated_cloud(hosts, request_, passes):
    assert_verdict(FILTER, hosts, request_, passes)


@cases(
    'hosts, request_, code, text',
    (
        'no pool is asked',
        host(('a', None), ('b', None)),
        asks(),
        Code.WRONG_POOL,
        'in pool a, b, not None',
    ),
    ('in none', host(), asks(['a']), Code.WRONG_POOL, 'in pool None, not a'),
    (
        'of another project',
        host(('a', 'p2')),
        asks(['a']),
        Code.PROJECT_NOT_ALLOWED,
        'pool a is not for project p1',
    ),
)
def test_why(hosts, request_, code, text):
    assert FILTER.why(hosts.state(0), request_) == (code, text)


def test_it_runs_once_per_request():
    assert not FILTER.run_filter_for_index(1)
