# SPDX-License-Identifier: Apache-2.0
from novasched_lab.compute.fleet import REFUSE, FaultRule, FaultRules
from tests.support.tables.cases import cases

UUIDS = [f'instance-{number}' for number in range(2000)]


@cases(
    'rules, host, flavor, refused',
    ('no rules', [], 'a1', 'small', False),
    ('a rule for all', [{}], 'a1', 'small', True),
    ('never', [{'probability': 0.0}], 'a1', 'small', False),
    ('other hosts', [{'hosts': ('b*',)}], 'a1', 'x', False),
    ('these hosts', [{'hosts': ('a*',)}], 'a1', 'x', True),
    ('other flavors', [{'flavors': ('big',)}], 'a1', 'x', False),
    ('the second rule', [{'hosts': ('b*',)}, {}], 'a1', 'x', True),
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
