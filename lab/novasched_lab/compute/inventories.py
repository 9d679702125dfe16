# SPDX-License-Identifier: Apache-2.0
"""The resource providers of a fleet in placement, written only when they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import admin
from novasched.placement.http import NoAnswer, ask
from novasched_lab.compute.machines import Provider

VERSION = '1.36'
DISABLED = 'COMPUTE_STATUS_DISABLED'
ATTEMPTS = 4
WRITERS = 4
CONFLICT = 409


class Inventories:
    """Keeps the providers of hosts as they should be.

    Every method raises errors.StoreFailed when placement does not do what it is
    asked for.
    """

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def provide(self, hosts: Mapping[str, Sequence[Provider]]) -> None:
        """Make the providers of hosts that are missing, and correct the others.

        ``hosts`` are the providers of each host by the uuid of its root, which comes
        first. What else is under the root is left alone.
        """
        traits = {
            trait
            for providers in hosts.values()
            for each in providers
            for trait in each.traits
        }
        classes = {
            name
            for providers in hosts.values()
            for each in providers
            for name in each.inventories
        }
        self._make_known('traits', traits)
        self._make_known('resource_classes', classes)
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._provide_host, hosts.values()))

    def set_disabled(self, provider: Provider, disabled: bool) -> None:
        """Say of a root provider whether the host may be used."""
        more = {DISABLED} if disabled else set()
        self._write_traits(provider.uuid, provider.traits | more)

    def add_aggregate(self, provider_uuid: str, aggregate_uuid: str) -> None:
        """Make a provider a member of an aggregate, beside those it is in."""
        url = f'/resource_providers/{provider_uuid}/aggregates'
        for _ in range(ATTEMPTS):
            found = self._send('GET', url)
            if aggregate_uuid in found['aggregates']:
                return
            key = 'resource_provider_generation'
            change = {
                'aggregates': [*found['aggregates'], aggregate_uuid],
                key: found[key],
            }
            if self._send('PUT', url, change) is not None:
                return
        raise errors.StoreFailed('placement', f'{url} keeps changing')

    def consumers(self, provider_uuid: str) -> set[str]:
        """Return the uuids of those who hold something of a provider."""
        url = f'/resource_providers/{provider_uuid}/allocations'
        return set(self._send('GET', url)['allocations'])

    def _make_known(self, path: str, names: Iterable[str]) -> None:
        for name in sorted(each for each in names if each.startswith('CUSTOM_')):
            self._send('PUT', f'/{path}/{name}')

    def _provide_host(self, providers: Sequence[Provider]) -> None:
        root = providers[0].uuid
        tree = self._send('GET', f'/resource_providers?in_tree={root}')
        known = {each['uuid'] for each in tree['resource_providers']}
        for provider in providers:
            if provider.uuid not in known:
                self._create(provider)
            self._write_inventories(provider)
            if provider.parent is not None:
                self._write_traits(provider.uuid, provider.traits)

    def _create(self, provider: Provider) -> None:
        body = {'uuid': provider.uuid, 'name': provider.name}
        if provider.parent is not None:
            body['parent_provider_uuid'] = provider.parent
        self._send('POST', '/resource_providers', body)

    def _write_inventories(self, provider: Provider) -> None:
        url = f'/resource_providers/{provider.uuid}/inventories'
        wanted = {name: dict(each) for name, each in provider.inventories.items()}
        self._settle(url, 'inventories', wanted, wanted)

    def _write_traits(self, uuid: str, traits: Iterable[str]) -> None:
        url = f'/resource_providers/{uuid}/traits'
        wanted = sorted(traits)
        self._settle(url, 'traits', wanted, wanted)

    def _settle(self, url: str, key: str, wanted: Any, body: Any) -> None:
        """Bring a part of a provider to what it should be, if it is not that."""
        for _ in range(ATTEMPTS):
            found = self._send('GET', url)
            now = found[key]
            if (sorted(now) if isinstance(now, list) else now) == wanted:
                return
            generation = found['resource_provider_generation']
            change = {key: body, 'resource_provider_generation': generation}
            if self._send('PUT', url, change) is not None:
                return
        raise errors.StoreFailed('placement', f'{url} keeps changing')

    def _send(self, method: str, url: str, body: Any = None) -> Any:
        """Return what placement answers; None where another was faster."""
        answer = ask(self._adapter, admin(), method, url, VERSION, body)
        if isinstance(answer, NoAnswer):
            raise errors.StoreFailed('placement', answer.text)
        if answer.status_code == CONFLICT and method == 'PUT':
            return None
        if answer.status_code >= 300:
            raise errors.StoreFailed(
                'placement', f'{method} {url}: {answer.status_code} {answer.text:.300}'
            )
        return answer.json() if answer.content else {}
