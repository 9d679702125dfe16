# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from novasched_lab.compute.fleet import REFUSE, FaultRule, FaultRules

UUIDS = [f'instance-{number}' for number in range(2000)]


@pytest.mark.parametrize(
    ('rules', 'host', 'flavor', 'refused'),
    [
        pytest.param([], 'a1', 'small', False, id='no rules'),
        pytest.param([{}], 'a1', 'small', True, id='a rule for all'),
        pytest.param([{'probability': 0.0}], 'a1', 'small', False, id='never'),
        pytest.param([{'hosts': ('b*',)}], 'a1', 'x', False, id='other hosts'),
        pytest.param([{'hosts': ('a*',)}], 'a1', 'x', True, id='these hosts'),
        pytest.param([{'flavors': ('big',)}], 'a1', 'x', False, id='other flavors'),
        pytest.param([{'hosts': ('b*',)}, {}], 'a1', 'x', True, id='the second rule'),
    ],
)
def test_refusals(rules, host, flavor, refused):
    made = FaultRules([FaultRule(REFUSE, **each) for each in rules])
    assert made.refuses(host, flavor, 'u') == refused


def test_chance_is_as_often_as_it_says_and_the_same_for_a_seed():
    def struck(seed):
        rules = FaultRules([FaultRule(REFUSE, 0.05)], seed)
        return {uuid for uuid in UUIDS if rules.refuses('a1', 'small', uuid)}

    assert 60 < len(struck(1)) < 140
    assert struck(1) == struck(1)
    assert struck(1) != struck(2)
