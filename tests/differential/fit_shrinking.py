# SPDX-License-Identifier: Apache-2.0
"""Make a fit smaller while something about it still holds."""

import copy

MOST_TRIES = 300
DATA = 'nova_object.data'
LISTS = (
    ('host_numa_topology', DATA, 'cells'),
    ('instance_numa_topology', DATA, 'cells'),
    ('host_pci_stats', DATA, 'objects'),
    ('pci_requests', DATA, 'requests'),
    ('allocation_candidates',),
)
AT_LEAST_ONE = {'cells', 'allocation_candidates'}
NULLABLE = (
    'host_numa_topology',
    'instance_numa_topology',
    'host_pci_stats',
    'pci_requests',
)
TABLES = (('flavor_extra_specs',), ('image_properties',))


def shrink(case, holds):
    """Return a fit, made of this one, of which nothing can be left out.

    ``holds`` tells whether a smaller fit will do.
    """
    tries, place = 0, 0
    while tries < MOST_TRIES:
        smaller = list(_smaller(case))
        if place >= len(smaller):
            break
        tries += 1
        if holds(smaller[place]):
            case, place = smaller[place], 0
        else:
            place += 1
    return case


def _smaller(case):
    """Yield fits with one thing less, whole parts first."""
    for name in NULLABLE:
        if case[name] is not None:
            yield {**case, name: None}
    if 'repeat' in case:
        fewer = {name: value for name, value in case.items() if name != 'repeat'}
        yield fewer
        if case['repeat'] > 2:
            yield {**case, 'repeat': case['repeat'] - 1}
    for path in (*LISTS, *TABLES):
        inner = case
        for name in path:
            inner = inner and inner[name]
        if inner and not (path[-1] in AT_LEAST_ONE and len(inner) == 1):
            keys = list(inner) if isinstance(inner, dict) else range(len(inner))
            for key in keys:
                yield _without(case, (*path, key))


def _without(case, path):
    smaller = copy.deepcopy(case)
    *outer, last = path
    inner = smaller
    for key in outer:
        inner = inner[key]
    del inner[last]
    return smaller
