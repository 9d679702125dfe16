# SPDX-License-Identifier: Apache-2.0
"""What placement answers to a claim of one candidate for one consumer."""

from __future__ import annotations

import requests

from novasched.placement.client import PlacementClient

CONSUMER = 'b6c56007-17c7-5950-8ce1-2b1e5c537581'
URL = f'/allocations/{CONSUMER}'
CANDIDATE = {
    'allocations': {'new': {'resources': {'VCPU': 2}}},
    'mappings': {'': ['new']},
}
OWNER = {'project_id': 'project', 'user_id': 'user'}
OLD = {
    'allocations': {'old': {'resources': {'VCPU': 1}}},
    'project_id': 'p',
    'user_id': 'u',
}
SAVED = (204, '')
NOTHING = (200, {'allocations': {}})
LOST = requests.ReadTimeout('slow')
AWAY = requests.ConnectTimeout('slow')
FULL = (
    409,
    {
        'errors': [
            {
                'code': 'placement.undefined_code',
                'detail': 'Unable to allocate inventory',
            }
        ]
    },
)


def held(generation, **amounts):
    """What a consumer holds: VCPUs by provider."""
    allocations = {
        provider: {'resources': {'VCPU': amount}, 'generation': 7}
        for provider, amount in amounts.items()
    }
    return 200, {
        'allocations': allocations,
        'consumer_generation': generation,
        'project_id': 'p',
        'user_id': 'u',
    }


def concurrent(detail):
    """Something changed meanwhile."""
    code = 'placement.concurrent_update'
    return 409, {'errors': [{'code': code, 'detail': detail}]}


CHANGED = concurrent('consumer generation conflict - expected 1 but got None')
BUSY = concurrent('Inventory and/or allocations changed while attempting to allocate')


def claim(adapter, context, adds=False):
    """Claim the candidate for the consumer."""
    client = PlacementClient(adapter)
    owner = OWNER['project_id'], OWNER['user_id']
    return client.claim(context, CONSUMER, CANDIDATE, '1.36', *owner, adds)
