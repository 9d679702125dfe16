# SPDX-License-Identifier: Apache-2.0
"""A placement with providers that a test may change, as its API shows them."""

import email.utils
import re
import urllib.parse

from novasched.providers.contents import build

POOL = 'MISC_SHARES_VIA_AGGREGATE'
MANY = 100
"""Hosts of a larger world."""
NOT_FOUND = {'errors': [{'status': 404, 'detail': 'No resource provider.'}]}


CALLS = (
    '/resource_classes',
    '/traits',
    f'/resource_providers?required={POOL}',
    *(
        f'/resource_providers/{uuid}/{table}'
        for uuid in ('h1', 'h1-nic')
        for table in ('inventories', 'aggregates')
    ),
    '/resource_providers?member_of=in:a1',
    '/resource_providers/pool/usages',
    '/resource_providers/pool/traits',
)
"""Most of what a load of the small world asks for."""


def inventory(total, ratio=1.0, **others):
    return {
        'total': total,
        'reserved': 0,
        'min_unit': 1,
        'max_unit': total,
        'step_size': 1,
        'allocation_ratio': ratio,
        **others,
    }


def room(one):
    """What may be used of an inventory."""
    return int((one['total'] - one['reserved']) * one['allocation_ratio'])


class World:
    """A placement: providers by uuid, and the answers that its API gives of them.

    Each write comes ``step_s`` after the one before, and each answer ``age_s`` after
    the last write, in whole seconds.
    """

    def __init__(self):
        self.now, self.step_s, self.age_s = 1_800_000_000, 2, 2
        self.providers = {}
        self.traits = ['T1', 'T2', POOL]
        self.classes = ['VCPU', 'DISK_GB', 'CUSTOM_PORT']
        self.before_answer = lambda path: None
        self.instead = {}

    def add(self, uuid, parent=None, traits=(), aggregates=(), **inventories):
        """Add a provider; its inventories are totals by class, or whole."""
        self.providers[uuid] = {
            'generation': 1,
            'parent': parent,
            'inventories': {
                name: each if isinstance(each, dict) else inventory(each)
                for name, each in inventories.items()
            },
            'used': {},
            'traits': list(traits),
            'aggregates': list(aggregates),
        }
        self._stamp(uuid)

    def write(self, uuid, **values):
        """Write what raises the generation."""
        self.providers[uuid].update(values)
        self.providers[uuid]['generation'] += 1
        self._stamp(uuid)

    def _stamp(self, uuid):
        self.now += self.step_s
        self.providers[uuid]['written_at'] = self.now

    def answer(self, path):
        """Return status and body of what a GET gives, and the times of providers."""
        url = urllib.parse.urlsplit(path)
        self.before_answer(path)
        if path in self.instead:
            return self.instead[path]
        if single := re.fullmatch('/resource_providers/([^/]+)/([a-z]+)', url.path):
            return self._single(*single.groups())
        if one := re.fullmatch('/resource_providers/([^/]+)', url.path):
            there = one[1] in self.providers
            if not there:
                return 404, NOT_FOUND
            return 200, self._provider(one[1]), self._times([one[1]])
        query = dict(urllib.parse.parse_qsl(url.query))
        found = {
            '/resource_providers': self._listed,
            '/allocation_candidates': self._candidates,
            '/traits': lambda query: {'traits': self.traits},
            '/resource_classes': lambda query: {
                'resource_classes': [{'name': name} for name in self.classes]
            },
        }[url.path](query)
        listed = [each['uuid'] for each in found.get('resource_providers', ())]
        return 200, found, self._times(listed)

    def _times(self, uuids):
        """Return when the answer was given, and the newest of providers written."""
        times = (self.providers[uuid]['written_at'] for uuid in uuids)
        written_at = max(times, default=self.now)
        return {
            'Date': email.utils.formatdate(self.now + self.age_s, usegmt=True),
            'Last-Modified': email.utils.formatdate(written_at, usegmt=True),
        }

    def _single(self, uuid, what):
        if uuid not in self.providers:
            return 404, NOT_FOUND
        provider = self.providers[uuid]
        said = provider['used' if what == 'usages' else what]
        if what == 'usages':
            said = dict.fromkeys(provider['inventories'], 0) | said
        generation = provider['generation']
        return 200, {what: said, 'resource_provider_generation': generation}

    def _provider(self, uuid):
        return {
            'uuid': uuid,
            'generation': self.providers[uuid]['generation'],
            'parent_provider_uuid': self.providers[uuid]['parent'],
            'root_provider_uuid': self._root(uuid),
        }

    def _root(self, uuid):
        parent = self.providers[uuid]['parent']
        return self._root(parent) if parent else uuid

    def _line(self, uuid):
        """Return all providers of the tree."""
        root = self._root(uuid)
        return [each for each in self.providers if self._root(each) == root]

    def _listed(self, query):
        aggregate = query.get('member_of', '').removeprefix('in:')
        tree = query.get('in_tree')
        traits = [each for each in query.get('required', '').split(',') if each]
        forbidden = {each[1:] for each in traits if each.startswith('!')}
        required = {each for each in traits if not each.startswith('!')}
        return {
            'resource_providers': [
                self._provider(uuid)
                for uuid, each in self.providers.items()
                if not aggregate or aggregate in each['aggregates']
                if required <= {*each['traits']} and not forbidden & {*each['traits']}
                if not tree or tree in self._line(uuid)
            ]
        }

    def _candidates(self, query):
        name = query['resources'].removesuffix(':1')
        roots = {
            self._root(uuid)
            for uuid, each in self.providers.items()
            if name in each['inventories']
            and each['inventories'][name]['min_unit'] == 1
            and each['inventories'][name]['total'] > each['used'].get(name, 0)
        }
        return {
            'provider_summaries': {
                uuid: {
                    'resources': {
                        name: {'capacity': room(one), 'used': each['used'].get(name, 0)}
                        for name, one in each['inventories'].items()
                    },
                    'traits': each['traits'],
                }
                for uuid, each in self.providers.items()
                if self._root(uuid) in roots
            }
        }

    def says(self):
        """All that a table of these providers would say, by uuid."""
        return {
            uuid: {
                'parent': each['parent'],
                'root': self._root(uuid),
                'traits': sorted(each['traits']),
                'aggregates': sorted(each['aggregates']),
                'inventories': {
                    name: [
                        *(one[n] for n in ('min_unit', 'max_unit', 'step_size')),
                        room(one),
                        each['used'].get(name, 0),
                    ]
                    for name, one in each['inventories'].items()
                },
            }
            for uuid, each in self.providers.items()
        }


def says(contents):
    """The same of contents."""
    table = build(contents)
    found = {}
    for row, uuid in enumerate(table.uuids):
        summary = table.summary(row)
        inventories = {}
        for name, columns in table.inventories.items():
            if (at := columns.place(row)) >= 0:
                assert columns.room[at] == columns.capacity[at]
                inventories[name] = [
                    getattr(columns, each)[at]
                    for each in ('min_unit', 'max_unit', 'step_size', 'room', 'used')
                ]
        found[uuid] = {
            'parent': summary['parent_provider_uuid'],
            'root': summary['root_provider_uuid'],
            'traits': sorted(summary['traits']),
            'aggregates': sorted(n for n, m in table.members.items() if row in m),
            'inventories': inventories,
        }
    return found


def small_world():
    """Return a tree of three, a host and a pool that serves it."""
    made = World()
    made.add('h1', traits=['T1'], aggregates=['a1'], VCPU=8, DISK_GB=100)
    made.add('h1-numa', parent='h1', traits=['T2'])
    made.add('h1-nic', parent='h1-numa', CUSTOM_PORT=2)
    made.add('h2', aggregates=['a1', 'a2'], VCPU=inventory(8, 16.0, reserved=1))
    made.add(
        'pool', traits=[POOL], aggregates=['a2'], DISK_GB=inventory(50, min_unit=5)
    )
    made.providers['h1']['used'] = {'VCPU': 2}
    made.providers['pool']['used'] = {'DISK_GB': 10}
    return made
