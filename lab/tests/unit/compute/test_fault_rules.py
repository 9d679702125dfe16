# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from novasched_lab.compute.fault_rules import FAIL, REFUSE, FaultRule, FaultRules

UUIDS = [f'instance-{number}' for number in range(2000)]


@pytest.mark.parametrize(
    ('rules', 'host', 'flavor', 'outcome'),
    [
        pytest.param([], 'a1', 'small', None, id='no rules'),
        pytest.param([FaultRule(REFUSE)], 'a1', 'small', REFUSE, id='a rule for all'),
        pytest.param(
            [FaultRule(REFUSE, 0.0)], 'a1', 'small', None, id='one that never is'
        ),
        pytest.param(
            [FaultRule(REFUSE, hosts=('b*',))], 'a1', 'x', None, id='other hosts'
        ),
        pytest.param(
            [FaultRule(FAIL, hosts=('a*',))], 'a1', 'x', FAIL, id='these hosts'
        ),
        pytest.param(
            [FaultRule(FAIL, flavors=('big',))], 'a1', 'small', None, id='other flavors'
        ),
        pytest.param(
            [FaultRule(FAIL, hosts=('b*',)), FaultRule(REFUSE)],
            'a1',
            'small',
            REFUSE,
            id='the first that is about it',
        ),
    ],
)
def test_outcome(rules, host, flavor, outcome):
    assert FaultRules(rules).outcome(host, flavor, 'u') == outcome


def test_chance_is_as_often_as_it_says_and_the_same_for_a_seed():
    def struck(seed):
        rules = FaultRules([FaultRule(REFUSE, 0.05)], seed)
        return {uuid for uuid in UUIDS if rules.outcome('a1', 'small', uuid)}

    assert 60 < len(struck(1)) < 140
    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
