# SPDX-License-Identifier: Apache-2.0
"""What placement has in its books, read from the service itself."""

from __future__ import annotations

import threading
import time
from typing import NamedTuple

import requests

TRIES = 20
AGAIN_S = 0.3


class Capacity(NamedTuple):
    """What is used of one resource class of one provider, and what may be."""

    provider: str
    resource_class: str
    used: float
    limit: float


class Books:
    """Reads through a placement client; may be asked by several threads."""

    def __init__(self, placement):
        self._placement = placement
        self._lock = threading.Lock()

    def _get(self, path):
        """Read, and once more where placement is being hurt, too."""
        with self._lock:
            for _ in range(TRIES - 1):
                try:
                    return self._placement.get(path)
                except (AssertionError, requests.RequestException):
                    time.sleep(AGAIN_S)
            return self._placement.get(path)

    def _providers(self):
        return self._get('/resource_providers')['resource_providers']

    def held(self, consumer):
        """Return the uuids of the roots of what a consumer holds."""
        held = self._get(f'/allocations/{consumer}')['allocations']
        return {self._root(uuid) for uuid in held}

    def _root(self, uuid):
        return self._get(f'/resource_providers/{uuid}')['root_provider_uuid']

    def holdings(self):
        """Return what is held: uuids of roots by consumer."""
        found = {}
        for provider in self._providers():
            path = f'/resource_providers/{provider["uuid"]}/allocations'
            for consumer in self._get(path)['allocations']:
                found.setdefault(consumer, set()).add(provider['root_provider_uuid'])
        return found

    def capacities(self):
        """Yield each resource class of each provider."""
        for provider in self._providers():
            path = f'/resource_providers/{provider["uuid"]}'
            used = self._get(f'{path}/usages')['usages']
            for name, each in self._get(f'{path}/inventories')['inventories'].items():
                limit = (each['total'] - each['reserved']) * each['allocation_ratio']
                yield Capacity(provider['name'], name, used.get(name, 0), limit)
