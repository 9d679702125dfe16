# SPDX-License-Identifier: Apache-2.0
"""Hosts by their level of trust, from any source."""

import pytest

from novasched.external.attestation import TrustedFilter
from novasched.scheduler.reasons import Code
from tests.support.clouds import factories
from tests.support.tables.cases import cases


class FakeLevels:
    def __init__(self, **levels):
        self.levels = levels
        self.asked = []

    def look_up(self, nodes, cloud):
        self.asked.append((nodes, cloud))
        return {node: self.last(node) for node in nodes}

    def last(self, node):
        return self.levels.get(node, 'unknown')


def asks(level):
    specs = {} if level is None else {'trust:trusted_host': level}
    return factories.request(extra_specs=specs)


@cases(
    'level, expected',
    ('nothing is asked', None, ['h1', 'h2', 'h3']),
    ('trusted', 'trusted', ['h1']),
    ('untrusted', 'untrusted', ['h2']),
    ('unknown', 'unknown', ['h3']),
    ('case counts', 'Trusted', []),
    ('an empty level', '', []),
)
def test_trust(level, expected):
    rule = TrustedFilter(FakeLevels(h1='trusted', h2='untrusted'))
    assert rule.apply(factories.hosts(3), asks(level)).host.tolist() == expected


@pytest.mark.parametrize(
    ('count', 'level'),
    [pytest.param(2, None, id='no level'), pytest.param(0, 'trusted', id='no hosts')],
)
def test_attestation_is_not_queried_without_need(count, level):
    levels = FakeLevels()
    TrustedFilter(levels).apply(factories.hosts(count), asks(level))
    assert levels.asked == []


def test_reason_needs_no_query():
    levels = FakeLevels(h1='untrusted')
    reason = TrustedFilter(levels).why(factories.hosts(1).state(0), asks('trusted'))
    assert reason == (Code.NOT_TRUSTED, 'trust level untrusted, not trusted')
    assert levels.asked == []


def test_it_runs_once_per_request():
    rule = TrustedFilter(FakeLevels())
    assert rule.run_filter_for_index(0)
    assert not rule.run_filter_for_index(1)
