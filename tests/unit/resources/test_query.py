# SPDX-License-Identifier: Apache-2.0
"""The grammar of the candidates query."""

import pytest

from novasched import errors
from novasched.resources.query import Group, Query, decode
from tests.support.tables.cases import cases


def some(*words):
    return frozenset(words)


@cases(
    'query, text',
    (
        'groups with resources are asked instead of a bare one',
        Query(
            (
                Group(in_tree='H0', required=some('A'), forbidden=some('B')),
                Group('1', {'VGPU': 1}),
                Group('2', {'VGPU': 1}, in_tree='H9'),
            ),
            root_required=some('C'),
            group_policy='none',
        ),
        'group_policy=none&in_tree1=H0&in_tree2=H9&resources1=VGPU%3A1'
        '&resources2=VGPU%3A1&root_required=A%2CC%2C%21B',
    ),
    (
        'but not for its aggregates',
        Query((Group(in_tree='H0', member_of=(some('A1'),)), Group('1', {'X': 1}))),
        'in_tree=H0&member_of=in%3AA1&resources=&resources1=X%3A1',
    ),
    (
        'nor for their absence, with resources or not',
        Query((Group(not_member_of=some('A1')), Group('1', {'X': 1}))),
        'member_of=%21in%3AA1&resources=&resources1=X%3A1',
    ),
)
def test_query(query, text):
    assert query.encode() == text


@pytest.mark.parametrize('limit', [1000, None])
def test_a_query_without_limit_has_a_fallback_without_limit(limit):
    group = Group(resources={'VCPU': 1})
    fallback = Query((group,), limit=limit)
    found = Query((group,), limit=limit, fallback=fallback).without_limit()
    assert found == Query((group,), fallback=Query((group,)))
    assert fallback.without_limit().fallback is None


def test_terms_of_one_provider_combine_all_groups():
    query = Query(
        (
            Group('', {'VCPU': 1}, frozenset({'A'}), member_of=(frozenset({'a1'}),)),
            Group('_x', {'GPU': 1}, forbidden=frozenset({'B'}), in_tree='t'),
            Group('_y', {'NET': 1}, not_member_of=frozenset({'a2'})),
        ),
        root_required=frozenset({'C'}),
        root_forbidden=frozenset({'D'}),
    )
    said = 'required=A%2CC%2C%21B%2C%21D&member_of=in%3Aa1&member_of=%21in%3Aa2'
    assert query.terms_of_one() == said
    assert Query((Group(resources={'VCPU': 1}),)).terms_of_one() == ''
    one_of = Group(resources={'VCPU': 1}, required_any=(frozenset({'A', 'B'}),))
    assert Query((one_of,)).terms_of_one() is None


@pytest.mark.parametrize('traits', ['A,,B', 'A,', '%20'])
def test_trait_without_a_name_is_malformed(traits):
    with pytest.raises(errors.InvalidCandidateQuery, match='a list of traits'):
        decode(f'resources=VCPU:1&required={traits}')
