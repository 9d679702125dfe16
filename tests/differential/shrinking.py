# SPDX-License-Identifier: Apache-2.0
"""Make a cloud smaller while something about it still holds."""

import copy

from tests.differential import clouds

MOST_TRIES = 1000

OUTER = (
    ('hosts',),
    ('filters',),
    ('weighers',),
    ('all_filters',),
    ('all_weighers',),
    ('instances',),
    ('options', 'filter_scheduler'),
    ('options', 'metrics'),
    ('request', 'extra_specs'),
    ('request', 'image'),
    ('request', 'scheduler_hints'),
    ('request', 'group', 'members'),
    ('request', 'group', 'hosts'),
    ('request', 'group', 'rules'),
)
NULLABLE = (
    'image',
    'image_id',
    'group',
    'destination',
    'extra_specs',
    'ignore_hosts',
    'force_hosts',
    'force_nodes',
)
OF_A_SERVICE = ('aggregates', 'instances', 'instance_images')
WHOLE = ('supported_instances', 'pci_stats', 'metrics')
NAMES = ('host', 'nodename', 'uuid')
AT_LEAST_ONE = (('hosts',), ('instances',))


def shrink(cloud, holds):
    """Return a cloud, made of this one, of which nothing can be left out.

    ``holds`` tells whether a smaller cloud will do.
    """
    tries, place, smaller_yet = 0, 0, False
    while tries < MOST_TRIES:
        paths = list(_removable(cloud))
        if place >= len(paths):
            if not smaller_yet:
                break
            place, smaller_yet = 0, False
            continue
        tries += 1
        smaller = _without(cloud, paths[place])
        if holds(smaller):
            cloud, smaller_yet = smaller, True
        else:
            place += 1
    return cloud


def _removable(cloud):
    """Yield the paths of what can be left out, whole hosts first."""
    for name in NULLABLE:
        if cloud['request'][name] is not None:
            yield 'request', name
    for outer in OUTER:
        inner = cloud
        for key in outer:
            inner = (inner or {}).get(key)
        if inner and not (outer in AT_LEAST_ONE and len(inner) == 1):
            yield from (path for path in _inside(inner, outer) if _may_go(cloud, path))
        elif outer == ('hosts',):
            yield from (
                path for path in _inside(inner[0], ('hosts', 0)) if _may_go(cloud, path)
            )


def _inside(value, path):
    if isinstance(value, str) or (path[0] == 'hosts' and path[-1] in WHOLE):
        return
    keys = value if isinstance(value, dict) else range(len(value))
    for key in keys:
        yield (*path, key)
    for key in keys:
        if isinstance(value[key], dict | list):
            yield from _inside(value[key], (*path, key))


def _may_go(cloud, path):
    if path[0] != 'hosts' or len(path) < 3:
        return True
    host = cloud['hosts'][path[1]]
    never_reported = host['uuid'] is None and path[2] in clouds.NEVER_REPORTED
    return path[2] not in NAMES and not never_reported


def _without(cloud, path):
    """Return the cloud with one thing less; what is said twice is left out twice."""
    smaller = copy.deepcopy(cloud)
    *outer, last = path
    if path[0] == 'request' and len(path) == 2:
        smaller['request'][last] = None
        return smaller
    _drop(smaller, outer, last)
    if len(path) > 2 and path[0] == 'hosts' and path[2] in OF_A_SERVICE:
        name = smaller['hosts'][path[1]]['host']
        for number, host in enumerate(smaller['hosts']):
            if host['host'] == name and number != path[1]:
                _drop(smaller, ('hosts', number, *outer[2:]), last)
    smaller['hosts'] = [clouds.settled(host) for host in smaller['hosts']]
    return smaller


def _drop(cloud, outer, last):
    inner = cloud
    for key in outer:
        inner = inner[key]
    del inner[last]
