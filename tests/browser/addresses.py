# SPDX-License-Identifier: Apache-2.0
"""The pages of a console, by name: those that tests look at, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

PAGES = (
    'overview', 'decisions', 'decisions-none', 'counts', 'decision', 'decision-filters',
    'decision-placement', 'decision-several', 'plan-empty', 'plan', 'plan-no',
    'plan-error', 'capacity', 'capacity-by-zone', 'capacity-by-host', 'heat', 'hosts',
    'hosts-slots', 'host', 'shadow', 'lab', 'health', 'nothing', 'no-such-host',
)  # fmt: skip
NOT_FOUND = ('nothing', 'no-such-host')
Ask = Callable[..., Any]
"""Asks a console for the JSON of a path, with parameters."""
TOO_LARGE = 'vcpus=8,ram=262144,disk=80'


def page(path: str, **parameters: Any) -> str:
    """Return the address of a page."""
    return path + (f'?{urlencode(parameters)}' if parameters else '')


def first(ask: Ask, **criteria: str) -> str:
    """Return the newest decision that meets these criteria."""
    found: str = ask('/decisions', limit=1, **criteria)['decisions'][0]['id']
    return found


def contested(ask: Ask) -> str:
    """Return the newest decision in which several hosts were weighed."""
    for each in ask('/decisions', result='scheduled')['decisions']:
        if len(ask(f'/decisions/{each["id"]}')['top']) > 2:
            return str(each['id'])
    raise AssertionError('no decision had a choice')


def several(ask: Ask) -> str:
    """Return the newest decision on several servers."""
    found = ask('/decisions', result='scheduled', limit=500)['decisions']
    return next(str(each['id']) for each in found if each['servers'] > 1)


def no_fit(ask: Ask) -> dict[str, str]:
    """Return a plan that has no host, but for other reasons than the zone's alone."""
    return {'flavor': TOO_LARGE, 'zone': ask('/hosts')['zones'][0]}


def host(ask: Ask) -> str:
    """Return a host whose servers have CPUs and pages of their own."""
    for each in ask('/hosts', limit=100)['hosts']:
        if each['used'].get('PCPU', [0])[0]:
            return str(each['host'])
    raise AssertionError('no host has a pinned server')


def every(ask: Ask) -> dict[str, str]:
    """Return the addresses of all pages, in their several states."""
    flavor = ask('/capacity')['rows'][0]['flavor']
    return {
        'overview': '/',
        'decisions': '/decisions',
        'decisions-none': '/decisions?flavor=there-is-no-such-flavor',
        'counts': '/decisions/count?by=plugin',
        'decision': '/decisions/' + contested(ask),
        'decision-filters': '/decisions/'
        + first(ask, result='unschedulable', blocker='filters'),
        'decision-placement': '/decisions/' + first(ask, blocker='no-candidates'),
        'decision-several': '/decisions/' + several(ask),
        'plan-empty': '/plan',
        'plan': page('/plan', flavor=flavor, count=3),
        'plan-no': page('/plan', **no_fit(ask)),
        'plan-error': page('/plan', flavor='vcpus=1'),
        'capacity': '/capacity',
        'capacity-by-zone': '/capacity?by=zone',
        'capacity-by-host': '/capacity?by=host',
        'heat': page('/capacity/heat', flavor=flavor),
        'hosts': '/hosts',
        'hosts-slots': page('/hosts', flavor=flavor),
        'host': '/hosts/' + quote(host(ask)),
        'shadow': '/shadow',
        'lab': '/lab',
        'health': '/health',
        'nothing': '/there-is-no-such-page',
        'no-such-host': '/hosts/there-is-no-such-host',
    }
