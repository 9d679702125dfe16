# SPDX-License-Identifier: Apache-2.0
"""What counts as a difference, and how a cloud with one is made smaller."""

import copy

from tests.differential import clouds
from tests.differential.differences import decisions_in, differences
from tests.differential.shrinking import shrink
from tests.support.tables.cases import cases

NAN = float('nan')
WEIGHED = {
    'raw': [3, 0],
    'multipliers': [1.0, 1.0],
    'normalized': [1.0, 0],
    'weights': [1.0, 0.0],
}
RANKED = [('n1', 1.0), ('n2', 0.0)]
DECIDED = {'steps': ['F: 2'], 'notes': [], 'ranked': RANKED, 'taken': 'n1'}
ANSWER = {
    'filters': {'F': [True, 'ValueError']},
    'weighers': {'W': WEIGHED, 'X': {'raises': 'KeyError'}},
    'decisions': [DECIDED, {'raises': 'KeyError'}],
}


def changed(path, value):
    made = copy.deepcopy(ANSWER)
    *outer, last = path
    inner = made
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return made


@cases(
    'path, value',
    ('another exception', ('filters', 'F', 1), 'TypeError'),
    ('minus zero', ('weighers', 'W', 'weights', 1), -0.0),
    ('a whole float', ('weighers', 'W', 'raw', 0), 3.0),
    ('raised later', ('decisions', 1, 'raises'), 'ValueError'),
)
def test_not_a_difference(path, value):
    assert differences(ANSWER, changed(path, value)) == []


@cases(
    'path, value, about',
    ('no for yes', ('filters', 'F', 0), False, 'F, host 0'),
    ('yes for an error', ('filters', 'F', 1), True, 'F, host 1'),
    ('a raw weight', ('weighers', 'W', 'raw', 0), 2, 'W, raw'),
    ('ulp', ('weighers', 'W', 'weights', 0), 1.0000000000000002, 'W, weights'),
    ('a weight for an error', ('weighers', 'X'), WEIGHED, 'X'),
    ('order', ('decisions', 0, 'ranked'), RANKED[::-1], 'decision 0, ranked'),
    ('a step', ('decisions', 0, 'steps'), ['F: 1'], 'decision 0, steps'),
    ('what is left', ('decisions', 0, 'taken'), 'n2', 'decision 0, taken'),
    ('one decision less', ('decisions',), [DECIDED], 'decisions'),
)
def test_a_difference(path, value, about):
    (line,) = differences(ANSWER, changed(path, value))
    assert line.startswith(f'{about}: ')


def test_a_refusal_is_one_on_both_sides():
    assert differences({'refused': 'a'}, {'refused': 'b'}) == []
    assert len(differences({'refused': 'a'}, ANSWER)) == 1


def test_hosts_without_a_number_have_no_order():
    theirs = changed(('decisions', 0, 'ranked'), [('n1', NAN), ('n2', 1.0)])
    same = changed(('decisions', 0, 'ranked'), [('n2', 1.0), ('n1', NAN)])
    other = changed(('decisions', 0, 'ranked'), [('n2', NAN), ('n1', 1.0)])
    assert differences(theirs, same) == []
    assert len(differences(theirs, other)) == 1


def test_every_yes_weight_and_rank_is_counted():
    assert decisions_in(ANSWER) == 2 + 2 + 1 + 2


def test_shrunk_cloud_has_only_what_matters():
    def holds(cloud):
        known = [meta for h in cloud['hosts'] for meta in h.get('aggregates', ())]
        return any('size' in metadata for metadata in known)

    made = (clouds.cloud(seed, ['F', 'G'], ['W']) for seed in range(1000))
    cloud = next(cloud for cloud in made if len(cloud['hosts']) > 3 and holds(cloud))
    small = shrink({**cloud, 'all_filters': ['F'], 'all_weighers': ['W']}, holds)
    (host,) = small['hosts']
    (metadata,) = host['aggregates']
    assert list(metadata) == ['size']
    assert set(host) <= {'host', 'nodename', 'uuid', 'aggregates'}
    assert not small['filters']
    assert not small['all_filters']
    assert not small['request']['extra_specs']
    assert len(small['instances']) == 1
