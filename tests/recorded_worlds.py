# SPDX-License-Identifier: Apache-2.0
"""Contents of placement and queries made from what was recorded of it."""

from __future__ import annotations

import collections
import re
import urllib.parse
import uuid

import numpy as np

from novasched import errors
from novasched.providers.contents import Contents
from novasched.resources.query import Group, Query


def contents(world, traits=(), classes=()):
    """Return what placement's tables say of a recorded world; ids are indexes + 1."""
    listed = world['providers']
    used = collections.Counter()
    for consumer in world['consumers']:
        for index, amounts in consumer.items():
            for name, amount in amounts.items():
                used[int(index), name] += amount
    class_ids = ids({n for p in listed for n in p['inventories']}.union(classes))
    trait_ids = ids({n for p in listed for n in p['traits']}.union(traits))
    aggregate_ids = ids({n for p in listed for n in p['aggregates']})

    def root(index):
        parent = listed[index]['parent']
        return index if parent is None else root(parent)

    return Contents(
        providers=table_of(
            (i + 1, 0, root(i) + 1, 0 if p['parent'] is None else p['parent'] + 1)
            for i, p in enumerate(listed)
        ),
        inventories=table_of(
            (
                (i + 1, class_ids[name], *values, values[-1])
                for i, p in enumerate(listed)
                for name, values in p['inventories'].items()
            ),
            9,
            float,
        ),
        usage=table_of(
            ((i + 1, class_ids[name], used[i, name]) for i, name in used), 3
        ),
        traits=table_of(
            ((i + 1, trait_ids[n]) for i, p in enumerate(listed) for n in p['traits']),
            2,
        ),
        aggregates=table_of(
            (
                (i + 1, aggregate_ids[name])
                for i, p in enumerate(listed)
                for name in p['aggregates']
            ),
            2,
        ),
        uuids={i + 1: provider['uuid'] for i, provider in enumerate(listed)},
        class_names={id_: name for name, id_ in class_ids.items()},
        trait_names={id_: name for name, id_ in trait_ids.items()},
        aggregate_uuids={id_: name for name, id_ in aggregate_ids.items()},
    )


def ids(names):
    return {name: 10 + 3 * at for at, name in enumerate(sorted(names))}


def table_of(rows, columns=4, dtype=np.int64):
    return np.array(list(rows), dtype).reshape(-1, columns)


KEY = re.compile(
    '(resources|required|member_of|in_tree)([A-Za-z0-9_-]{0,64})'
    '|limit|group_policy|root_required|same_subtree'
)


def query(text):
    """Parse a query string. Raises errors.InvalidCandidateQuery as placement's 400."""
    groups, whole, subtrees = {}, {}, []
    for key, value in urllib.parse.parse_qsl(text, keep_blank_values=True):
        matched = KEY.fullmatch(key)
        check(matched and value)
        if key in ('limit', 'group_policy', 'root_required'):
            check(key not in whole)
            whole[key] = value
        elif key == 'same_subtree':
            subtrees.append(frozenset(value.split(',')))
        else:
            kind, suffix = matched.groups()
            group = groups.setdefault(suffix, {'suffix': suffix})
            add(group, kind, value)
    check(re.fullmatch('[1-9][0-9]*', whole.get('limit', '1')))
    check(whole.get('group_policy') in (None, 'none', 'isolate'))
    required, forbidden = (
        signed(whole['root_required']) if 'root_required' in whole else ((), ())
    )
    return Query(
        tuple(Group(**fields) for fields in groups.values()),
        frozenset(required),
        frozenset(forbidden),
        tuple(subtrees),
        whole.get('group_policy'),
        int(whole['limit']) if 'limit' in whole else None,
    )


def add(group, kind, value):
    if kind == 'resources':
        pairs = [item.split(':') for item in value.split(',')]
        check(all(len(p) == 2 and p[1].isdigit() and int(p[1]) for p in pairs))
        group['resources'] = {name: int(amount) for name, amount in pairs}
    elif kind == 'required' and value.startswith('in:'):
        names = frozenset(value.removeprefix('in:').split(','))
        group['required_any'] = (*group.get('required_any', ()), names)
    elif kind == 'required':
        required, forbidden = signed(value)
        group['required'] = group.get('required', frozenset()).union(required)
        group['forbidden'] = group.get('forbidden', frozenset()).union(forbidden)
    elif kind == 'member_of':
        uuids = frozenset(value.removeprefix('!').removeprefix('in:').split(','))
        check(all(map(is_uuid, uuids)))
        if value.startswith('!'):
            group['not_member_of'] = group.get('not_member_of', frozenset()) | uuids
        else:
            group['member_of'] = (*group.get('member_of', ()), uuids)
    else:
        check(is_uuid(value))
        group['in_tree'] = value


def signed(value):
    """Return the required and the forbidden ones of a list of traits."""
    names = [name.strip() for name in value.split(',')]
    check(all(names))
    return (
        [name for name in names if not name.startswith('!')],
        [name.lstrip('!') for name in names if name.startswith('!')],
    )


def is_uuid(text):
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def check(holds):
    if not holds:
        raise errors.InvalidCandidateQuery('malformed')
