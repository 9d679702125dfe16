# SPDX-License-Identifier: Apache-2.0
"""Hosts that one customer has for himself."""

from __future__ import annotations

import pytest

from novasched.scheduler.filters.legacy.own import DedicatedCloudFilter
from novasched.scheduler.reasons import Code
from tests import factories
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


@pytest.mark.parametrize(
    ('hosts', 'request_', 'passes'),
    [
        pytest.param(host(), asks(), True, id='no pool is asked'),
        pytest.param(host(('a', None)), asks(), False, id='kept for others'),
        pytest.param(host(('', None)), asks(), True, id='a pool without a name'),
        pytest.param(host(('a', None)), asks(['a']), True, id='the hint'),
        pytest.param(host(('a', None)), asks(spec='a'), True, id='the flavor'),
        pytest.param(host(('a', None)), asks(['b'], 'a'), False, id='the hint wins'),
        pytest.param(host(('a', None)), asks([], 'a'), True, id='an empty hint'),
        pytest.param(host(('a', None)), asks([''], 'a'), True, id='a hint of no text'),
        pytest.param(host(('a', None)), asks(['a', 'b']), False, id='two hints'),
        pytest.param(host(('a', 'p2')), asks(['a']), False, id='of another project'),
        pytest.param(host(('a', 'p2, p1')), asks(['a']), True, id='of the project'),
        pytest.param(host(('a', None)), asks(['b']), False, id='another pool'),
        pytest.param(host(('a, b', None)), asks(['b']), True, id='one of two pools'),
        pytest.param(
            host(('a', 'p2'), ('b', 'p1')),
            asks(['a']),
            False,
            id='the project is of the other pool',
        ),
        pytest.param(
            host(('a', 'p2'), ('a', 'p1')),
            asks(['a']),
            True,
            id='one aggregate will do',
        ),
        pytest.param(host(), asks(['a']), False, id='in no pool'),
    ],
)
def test_dedicated_cloud(hosts, request_, passes):
    assert_verdict(FILTER, hosts, request_, passes)


@pytest.mark.parametrize(
    ('hosts', 'request_', 'code', 'text'),
    [
        pytest.param(
            host(('a', None), ('b', None)),
            asks(),
            Code.WRONG_POOL,
            'in pool a, b, not None',
            id='no pool is asked',
        ),
        pytest.param(
            host(), asks(['a']), Code.WRONG_POOL, 'in pool None, not a', id='in none'
        ),
        pytest.param(
            host(('a', 'p2')),
            asks(['a']),
            Code.PROJECT_NOT_ALLOWED,
            'pool a is not for project p1',
            id='of another project',
        ),
    ],
)
def test_why(hosts, request_, code, text):
    assert FILTER.why(hosts.state(0), request_) == (code, text)


def test_it_runs_once_per_request():
    assert not FILTER.run_filter_for_index(1)
