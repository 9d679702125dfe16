# SPDX-License-Identifier: Apache-2.0
"""Contents of placement and queries made from what was recorded of it."""

import collections

import numpy as np

from novasched.providers.contents import Contents
from novasched.resources.query import decode


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


query = decode
