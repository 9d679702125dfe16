# SPDX-License-Identifier: Apache-2.0
"""What placement answers to a claim of one candidate for one consumer."""

import requests

from novasched.placement.client import PlacementClient
from novasched.ports import ClaimRequest

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


def held(generation, age_s=None, **amounts):
    """What a consumer holds: VCPUs by provider; ``age_s`` is below 100."""
    allocations = {
        provider: {'resources': {'VCPU': amount}, 'generation': 7}
        for provider, amount in amounts.items()
    }
    headers = {}
    if age_s is not None:
        headers['Date'] = 'Fri, 27 Nov 2026 12:01:40 GMT'
        minutes, seconds = divmod(100 - age_s, 60)
        headers['Last-Modified'] = f'Fri, 27 Nov 2026 12:{minutes:02}:{seconds:02} GMT'
    body = {
        'allocations': allocations,
        'consumer_generation': generation,
        'project_id': 'p',
        'user_id': 'u',
    }
    return 200, body, headers


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
    return client.claim(
        context, ClaimRequest(CONSUMER, CANDIDATE), '1.36', *owner, adds
    )
