# SPDX-License-Identifier: Apache-2.0
"""Resource providers in placement: made, brought up to date, and deleted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.objects.context import admin
from novasched.placement.session import NoAnswer, ask

VERSION = '1.36'
GENERATION = 'resource_provider_generation'
ATTEMPTS = 4
WRITERS = 4
NOT_FOUND, CONFLICT = 404, 409


@dataclass(frozen=True)
class Inventory:
    """How much of a resource class a provider has, in the class's own unit."""

    total: int
    reserved: int = 0
    allocation_ratio: float = 1.0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1


@dataclass(frozen=True)
class Provider:
    """A resource provider as it should be; ``parent`` must be created before.

    Root providers carry OWNER_NOVA unless said otherwise: without it no query
    of an up-to-date cloud finds them.
    """

    uuid: str
    name: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] = frozenset({'OWNER_NOVA'})
    aggregates: frozenset[str] = field(default_factory=frozenset)
    parent: str | None = None

    @property
    def url(self) -> str:
        return f'/resource_providers/{self.uuid}'


def provide(adapter: Adapter, providers: Iterable[Provider]) -> None:
    """Create providers with inventories, traits and aggregates.

    All or none: raises errors.SetupError with placement's answer if it refuses
    one, after those already made are deleted.
    """
    with contextlib.ExitStack() as undo:
        for provider in providers:
            _create(adapter, provider)
            undo.callback(withdraw, adapter, [provider])
            _update(adapter, provider)
        undo.pop_all()


def register(adapter: Adapter, providers: Sequence[Provider]) -> None:
    """Create the providers that are missing, and bring the others up to date.

    Raises errors.SetupError when placement refuses.
    """

    def write(provider: Provider) -> None:
        if _send(adapter, 'GET', provider.url, expected=NOT_FOUND) is None:
            _create(adapter, provider)
        _update(adapter, provider)

    for trait in sorted({trait for each in providers for trait in each.traits}):
        if trait.startswith('CUSTOM_'):
            _send(adapter, 'PUT', f'/traits/{trait}')
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, providers))


def withdraw(adapter: Adapter, providers: Iterable[Provider]) -> None:
    """Delete providers that hold no allocations; missing ones are fine."""
    for provider in reversed(list(providers)):
        _send(adapter, 'DELETE', provider.url, expected=NOT_FOUND)


def held_on(adapter: Adapter, provider_uuid: str) -> list[str]:
    """Return the uuids of the consumers that hold something of a provider."""
    url = f'/resource_providers/{provider_uuid}/allocations'
    return list(_send(adapter, 'GET', url)['allocations'])


def name_of(adapter: Adapter, uuid: str) -> str:
    """Return the name of a provider, or its uuid where it is not known."""
    url = f'/resource_providers/{uuid}'
    try:
        found = _send(adapter, 'GET', url, expected=NOT_FOUND) or {}
    except errors.SetupError:
        return uuid
    return str(found.get('name', uuid))


def _create(adapter: Adapter, provider: Provider) -> None:
    body = {'uuid': provider.uuid, 'name': provider.name}
    if provider.parent:
        body['parent_provider_uuid'] = provider.parent
    _send(adapter, 'POST', '/resource_providers', body)


def _update(adapter: Adapter, provider: Provider) -> None:
    """Write inventories and traits; add to the aggregates that it is in."""
    inventories = {name: asdict(each) for name, each in provider.inventories.items()}
    for part, wanted in (
        ('inventories', inventories),
        ('traits', provider.traits),
        ('aggregates', provider.aggregates),
    ):
        if wanted:
            _change(adapter, f'{provider.url}/{part}', part, wanted)


def _change(adapter: Adapter, url: str, part: str, wanted: Any) -> None:
    for _ in range(ATTEMPTS):
        answer = _send(adapter, 'GET', url)
        found = answer[part]
        if part == 'inventories':
            body = wanted
        else:
            found = sorted(found)
            body = sorted(wanted.union(found) if part == 'aggregates' else wanted)
        if body == found:
            return
        sent = {part: body, GENERATION: answer[GENERATION]}
        if _send(adapter, 'PUT', url, sent, expected=CONFLICT) is not None:
            return
    raise errors.SetupError(f'placement: {url} keeps changing')


def _send(
    adapter: Adapter, method: str, url: str, body: Any = None, expected: int = 0
) -> Any:
    """Return the answer of placement; None for the ``expected`` error status.

    Raises errors.SetupError for any other.
    """
    answer = ask(adapter, admin(), method, url, VERSION, body)
    if isinstance(answer, NoAnswer):
        raise errors.SetupError(f'placement: {answer.text}')
    if answer.status_code == expected:
        return None
    if answer.status_code >= 300:
        raise errors.SetupError(f'{method} {url}: {answer.text:.300}')
    return answer.json() if answer.content else {}
