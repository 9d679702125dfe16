# SPDX-License-Identifier: Apache-2.0
"""Providers below and beside the nodes of the cloud."""

from tests.live.hosts import name_uuid


class Tree:
    """Providers of a test, under the nodes of the cloud; gone when it ends."""

    def __init__(self, placement, cloud):
        self._placement = placement
        self._cloud = cloud
        self._made = []

    def add(self, name, parent=None, traits=(), aggregates=(), **inventory):
        """Make a provider, below the node of a host; return its uuid."""
        place, uuid = self._placement, name_uuid(name)
        body = {'uuid': uuid, 'name': name}
        if parent:
            body['parent_provider_uuid'] = self._cloud.hosts[parent].uuid
        place.request('POST', '/resource_providers', body)
        self._made.append(uuid)
        for each in [*inventory, *traits]:
            if each.startswith('CUSTOM_'):
                kind = 'resource_classes' if each in inventory else 'traits'
                place.put(f'/{kind}/{each}', None)
        totals = {rc: {'total': n, 'max_unit': n} for rc, n in inventory.items()}
        generation = 0
        for path, values in (
            ('inventories', totals),
            ('traits', list(traits)),
            ('aggregates', [name_uuid(zone) for zone in aggregates]),
        ):
            body = {'resource_provider_generation': generation, path: values}
            answer = place.put(f'/resource_providers/{uuid}/{path}', body)
            generation = answer['resource_provider_generation']
        return uuid

    def remove(self):
        """Delete the providers and whatever is held from them."""
        for uuid in reversed(self._made):
            path = f'/resource_providers/{uuid}'
            held = self._placement.get(f'{path}/allocations')['allocations']
            for consumer in held:
                self._placement.release(consumer)
            self._placement.request('DELETE', path)
