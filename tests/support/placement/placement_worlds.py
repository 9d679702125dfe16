# SPDX-License-Identifier: Apache-2.0
"""Random trees of providers, written to a placement, and random queries of them."""

import urllib.parse
import uuid

import sqlalchemy as sa

from novasched.providers.contents import MOST as BOUND
from novasched.providers.table import SHARES

VERSION = '1.39'
HEADERS = {'OpenStack-API-Version': f'placement {VERSION}'}

TRAITS = (
    'HW_CPU_X86_AVX',
    'HW_CPU_X86_AVX2',
    'HW_CPU_X86_VMX',
    'CUSTOM_GOLD',
    'CUSTOM_SILVER',
    'COMPUTE_STATUS_DISABLED',
    'OWNER_NOVA',
)
HOST_CLASSES = ('VCPU', 'MEMORY_MB', 'DISK_GB')
CLASSES = (*HOST_CLASSES, 'PCPU', 'CUSTOM_DEVICE', 'SRIOV_NET_VF')
AGGREGATES = tuple(str(uuid.UUID(int=0x9000 + n)) for n in range(4))
FIELDS = ('total', 'reserved', 'min_unit', 'max_unit', 'step_size', 'allocation_ratio')

MOST = 2**31 - 1

EXTREMES = (
    {'step_size': -3},
    {'step_size': MOST},
    {'min_unit': 0},
    {'min_unit': -MOST - 1},
    {'min_unit': MOST, 'max_unit': MOST},
    {'max_unit': 0},
    {'max_unit': -MOST - 1},
    {'max_unit': 1},
    {'total': 0},
    {'total': -MOST - 1},
    {'total': MOST, 'max_unit': MOST},
    {'total': MOST, 'max_unit': MOST, 'reserved': MOST},
    {'total': -8, 'allocation_ratio': -1.0},
    {'reserved': 9},
    {'reserved': -8},
    {'allocation_ratio': 0.0},
    {'allocation_ratio': -1.0},
    {'allocation_ratio': 1e-30},
    {'allocation_ratio': 1e-320},
    {'allocation_ratio': 1e16},
    {'allocation_ratio': 3.4e38},
    {'total': MOST, 'max_unit': MOST, 'allocation_ratio': 3.4e38},
    {'total': 3, 'allocation_ratio': 1 / 3},
    {'total': MOST - 1, 'max_unit': MOST, 'allocation_ratio': 1 / 3},
    {'used': [MOST]},
    {'used': [-MOST]},
    {'used': [MOST] * 3},
    {'used': [MOST] * 3, 'total': MOST, 'max_unit': MOST, 'allocation_ratio': 4.0},
    {'used': [MOST] * 5, 'total': MOST, 'max_unit': MOST, 'allocation_ratio': 1e16},
)
"""Numbers of an inventory of eight units, and what is used of it."""

NOT_ON_POSTGRESQL = (
    {'step_size': 0},
    {'total': MOST, 'max_unit': MOST, 'reserved': -MOST},
    {'total': -MOST - 1, 'reserved': MOST},
)
"""The same; PostgreSQL refuses to compute with them, and placement answers 500."""

AMOUNTS = (1, 2, 3, 8, 9, (MOST - 1) // 3, MOST)


def new_uuid(rng):
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def providers(rng):
    """Return some trees, and now and then providers that share with them."""
    made = []
    for _ in range(rng.randint(1, 6)):
        top = len(made)
        made.append(provider(rng, None, HOST_CLASSES, 3))
        for _ in range(rng.randint(0, 4)):
            parent = rng.randrange(top, len(made))
            made.append(provider(rng, made[parent]['uuid'], CLASSES, 3))
    for _ in range(rng.choice([0, 0, 1, 2])):
        made.append(provider(rng, None, ('DISK_GB', 'SRIOV_NET_VF'), 2))
        made[-1]['traits'] = [*made[-1]['traits'], SHARES]
    return made


def provider(rng, parent, classes, most):
    names = rng.sample(classes, rng.randint(0 if parent else 1, most))
    aggregates = rng.choice([0, 0, 0, 1]) if parent else rng.randint(0, 2)
    return {
        'uuid': new_uuid(rng),
        'parent': parent,
        'inventories': {name: inventory(rng) for name in names},
        'traits': rng.sample(TRAITS, rng.randint(0, 3)),
        'aggregates': rng.sample(AGGREGATES, aggregates),
    }


def inventory(rng):
    total = rng.choice([4, 8, 16, 64])
    return dict(
        zip(
            FIELDS,
            (
                total,
                rng.choice([0, 0, 1]),
                rng.choice([1, 1, 1, 2]),
                rng.choice([total, 2**31 - 1, total // 2]),
                rng.choice([1, 1, 1, 2]),
                rng.choice([1.0, 1.0, 1.5, 2.0, 0.7, 16.0]),
            ),
            strict=True,
        )
    )


def plain(total):
    """Return an inventory of which any amount may be had."""
    return dict(zip(FIELDS, (total, 0, 1, total, 1, 1.0), strict=True))


class Writer:
    """Writes to a placement through ``send(method, path, body) -> status, json``."""

    def __init__(self, send):
        self._send = send
        self._generations = {}

    def names(self):
        """Make the names that are not standard."""
        self._do('PUT', '/resource_classes/CUSTOM_DEVICE')
        for name in TRAITS:
            if name.startswith('CUSTOM'):
                self._do('PUT', f'/traits/{name}')

    def create(self, provider):
        body = {'uuid': provider['uuid'], 'name': provider['uuid']}
        if provider['parent']:
            body['parent_provider_uuid'] = provider['parent']
        self._do('POST', '/resource_providers', body)
        self._generations[provider['uuid']] = 0
        for what in ('inventories', 'traits', 'aggregates'):
            self.write(provider, what)

    def write(self, provider, what):
        """Write the inventories, traits or aggregates of a provider."""
        uuid_ = provider['uuid']
        answer = self._do(
            'PUT',
            f'/resource_providers/{uuid_}/{what}',
            {
                'resource_provider_generation': self._generations[uuid_],
                what: provider[what],
            },
        )
        self._generations[uuid_] = answer['resource_provider_generation']

    def move(self, provider, parent):
        """Give a provider another parent, or none."""
        self._do(
            'PUT',
            f'/resource_providers/{provider["uuid"]}',
            {'name': provider['uuid'], 'parent_provider_uuid': parent},
        )

    def delete(self, provider):
        self._do('DELETE', f'/resource_providers/{provider["uuid"]}')

    def claim(self, rng, listed):
        """Claim something of a provider, if it may be had; return the consumer."""
        having = [each for each in listed if each['inventories']]
        if not having:
            return None
        found = rng.choice(having)
        name = rng.choice(list(found['inventories']))
        consumer = new_uuid(rng)
        status, _ = self._send(
            'PUT',
            f'/allocations/{consumer}',
            {
                'allocations': {
                    found['uuid']: {'resources': {name: rng.choice([1, 2, 3])}}
                },
                'project_id': 'p',
                'user_id': 'u',
                'consumer_generation': None,
                'consumer_type': 'INSTANCE',
            },
        )
        if status != 204:
            return None
        self._generations[found['uuid']] += 1
        return consumer

    def create_extremes(self, engine, extremes):
        """Create a provider for each, and write its numbers past the service; return
        the extremes by uuid."""
        made = {str(uuid.UUID(int=0x8000 + n)): each for n, each in enumerate(extremes)}
        bare = {'parent': None, 'traits': [], 'aggregates': []}
        for uuid_ in made:
            self.create({'uuid': uuid_, 'inventories': {'VCPU': plain(8)}, **bare})
        stock = 'UPDATE inventories SET {} = :value WHERE resource_provider_id = '
        stock += '(SELECT id FROM resource_providers WHERE uuid = :uuid)'
        taken = 'INSERT INTO allocations (resource_provider_id, consumer_id, '
        taken += "resource_class_id, used) SELECT id, 'c', 0, :value "
        taken += 'FROM resource_providers WHERE uuid = :uuid'
        with engine.begin() as connection:
            for uuid_, each in made.items():
                pairs = [(stock.format(n), v) for n, v in each.items() if n != 'used']
                pairs += [(taken, amount) for amount in each.get('used', ())]
                for statement, value in pairs:
                    values = {'value': value, 'uuid': uuid_}
                    connection.execute(sa.text(statement), values)
        return made

    def release(self, consumer):
        self._do('DELETE', f'/allocations/{consumer}')

    def _do(self, method, path, body=None):
        status, answer = self._send(method, path, body)
        assert status < 300, f'{method} {path}: {status} {answer}'
        return answer


def check_extremes(send, table, made):
    """Assert that a table offers of extreme inventories what placement does."""
    for amount in AMOUNTS:
        _, answer = send('GET', f'/allocation_candidates?resources=VCPU:{amount}')
        theirs = {u for c in answer['allocation_requests'] for u in c['allocations']}
        rows = table.inventories['VCPU'].fitting(amount).tolist()
        for uuid_ in theirs ^ {table.uuids[row] for row in rows}:
            assert uuid_ not in made, (amount, made[uuid_])
        for uuid_ in theirs & made.keys():
            said = answer['provider_summaries'][uuid_]['resources']['VCPU']
            assert table.summary(table.rows_by_uuid[uuid_])['resources']['VCPU'] == {
                'capacity': min(said['capacity'], BOUND),
                'used': said['used'],
            }


def query(rng, listed):
    """Return a random query string."""
    pairs = []
    count = rng.choice([0, 0, 1, 1, 2, 3])
    suffixes = [''] * (rng.random() < 0.7 or not count)
    suffixes += [f'_{n}' for n in range(count)]
    for suffix in suffixes:
        pairs += _group(rng, listed, suffix, suffixes)
    named = [suffix for suffix in suffixes if suffix]
    if len(named) > 1:
        pairs.append(('group_policy', rng.choice(['none', 'isolate'])))
        if rng.random() < 0.3:
            pairs.append(('same_subtree', ','.join(rng.sample(named, 2))))
    if rng.random() < 0.25:
        pairs.append(('root_required', _signed(rng, 1)))
    return urllib.parse.urlencode(sorted(pairs))


def _group(rng, listed, suffix, suffixes):
    pairs = []
    bare = bool(suffix) and rng.random() < 0.12
    classes = CLASSES if suffix else HOST_CLASSES
    names = rng.sample(classes, rng.choice([1, 1, 2] if suffix else [1, 2, 3]))
    if bare:
        others = {suffix, rng.choice(suffixes)} - {''}
        pairs.append(('same_subtree', ','.join(sorted(others))))
    else:
        amounts = (f'{name}:{rng.choice([1, 1, 1, 2, 2])}' for name in names)
        pairs.append((f'resources{suffix}', ','.join(amounts)))
    if bare or rng.random() < 0.2:
        pairs.append((f'required{suffix}', _signed(rng, rng.randint(1, 2))))
    if rng.random() < 0.1:
        pairs.append((f'required{suffix}', 'in:' + ','.join(rng.sample(TRAITS, 2))))
    if rng.random() < 0.2:
        uuids = ','.join(rng.sample(AGGREGATES, rng.randint(1, 2)))
        sign = '!' if rng.random() < 0.3 else ''
        pairs.append((f'member_of{suffix}', f'{sign}in:{uuids}'))
    if rng.random() < 0.08:
        pairs.append((f'in_tree{suffix}', rng.choice(listed)['uuid']))
    return pairs


def _signed(rng, count):
    signs = ('!' if rng.random() < 0.35 else '' for _ in range(count))
    return ','.join(
        s + n for s, n in zip(signs, rng.sample(TRAITS, count), strict=True)
    )
