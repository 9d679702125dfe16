# SPDX-License-Identifier: Apache-2.0
"""Dataclasses are the same after a way through JSON."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from novasched.runtime.typed_json import of_json, omitted_field, to_json
from tests.support.tables.cases import cases


@dataclass(frozen=True)
class Leaf:
    name: str
    size: int | None = None


@dataclass(frozen=True)
class Tree:
    leaf: Leaf | None = None
    leaves: Sequence[Leaf] | None = None
    by_name: Mapping[str, Leaf] = field(default_factory=dict)
    hints: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    note: str | None = omitted_field()


EMPTY = {'leaf': None, 'leaves': None, 'by_name': {}, 'hints': {}}


@cases(
    'tree, changes',
    ('empty', Tree(), {}),
    ('a dataclass', Tree(Leaf('a')), {'leaf': {'name': 'a', 'size': None}}),
    ('a list', Tree(leaves=[Leaf('a', 1)]), {'leaves': [{'name': 'a', 'size': 1}]}),
    ('a map', Tree(by_name={'x': Leaf('a', 1)}),
        {'by_name': {'x': {'name': 'a', 'size': 1}}}),
    ('plain values', Tree(hints={'x': ['a'], 'y': None}),
        {'hints': {'x': ['a'], 'y': None}}),
    ('a field that may be omitted', Tree(note='x'), {'note': 'x'}),
)  # fmt: skip
def test_dataclass_is_the_same_after_json(tree, changes):
    made = to_json(tree)
    assert made == EMPTY | changes
    assert of_json(Tree, json.loads(json.dumps(made))) == tree


def test_unknown_field_is_left_out_and_missing_field_has_its_default():
    assert of_json(Tree, {'leaf': {'name': 'a', 'colour': 'red'}}) == Tree(Leaf('a'))


def test_fields_keep_their_order():
    assert list(to_json(Tree(note='x'))) == [*EMPTY, 'note']
