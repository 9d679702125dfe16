# SPDX-License-Identifier: Apache-2.0
"""PCI device pools and PCI requests, and the pools that match a request."""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from novasched.objects.pci import InstancePCIRequest, InstancePCIRequests
from novasched.scheduler.reasons import Code

Tags = frozenset[tuple[str, str | None]]
"""What all devices of a pool have in common, but for cell and provider."""


@dataclass(frozen=True, slots=True)
class Pool:
    """A number of like devices that are free.

    ``numa_node`` is None if they are near to no cell, ``rp_uuid`` if placement does
    not track them.
    """

    tags: Tags
    numa_node: int | None
    count: int
    rp_uuid: str | None = None

    @property
    def keys(self) -> Mapping[str, str | None]:
        """Vendor, product, provider and all tags."""
        keys = dict(self.tags)
        return keys if self.rp_uuid is None else {**keys, 'rp_uuid': self.rp_uuid}

    def less(self, taken: int) -> Pool:
        """Return the pool without some of its devices."""
        return Pool(self.tags, self.numa_node, self.count - taken, self.rp_uuid)

    def flat(self) -> dict[str, str | int | None]:
        """Return the pool as nova's plain dict; a new one."""
        return {**self.keys, 'numa_node': self.numa_node, 'count': self.count}


Pools = tuple[Pool, ...]
"""In the order in which devices are taken: pools with fewer tags come first."""


def devices_by_cell(pools: Iterable[Pool]) -> dict[int | None, int]:
    """Return the free devices by cell; those near to none are under None."""
    found: dict[int | None, int] = {}
    for pool in pools:
        found[pool.numa_node] = found.get(pool.numa_node, 0) + pool.count
    return found


PLACEMENT_KEYS = frozenset({'resource_class', 'traits', 'rp_uuid', 'rp_uuids'})
TRUE = frozenset({'1', 't', 'true', 'on', 'y', 'yes'})

Alternative = frozenset[tuple[str, str | None]]
ProviderMapping = Mapping[str, Sequence[str]]
"""The providers of each request group of an allocation candidate."""


class PoolMismatch(enum.Enum):
    """Reasons why a pool does not serve a request, in the order of nova's tests."""

    SPEC = Code.PCI_DEVICES_MISSING, 'do not match'
    CELL = Code.PCI_WRONG_NODE, 'on other NUMA nodes'
    FUNCTION = Code.PCI_KIND_DIFFERS, 'are physical functions'
    VDPA = Code.PCI_KIND_DIFFERS, 'are vDPA'
    REMOTE = Code.PCI_KIND_DIFFERS, 'are remote-managed'
    PROVIDER = Code.PCI_WRONG_PROVIDER, 'of other resource providers'
    MIGRATION = Code.PCI_DEVICES_MISSING, 'do not match in live_migratable'

    def __init__(self, code: Code, words: str) -> None:
        self.code = code
        self.words = words


ON_REQUEST: Mapping[object, PoolMismatch] = {
    'type-PF': PoolMismatch.FUNCTION,
    'vdpa': PoolMismatch.VDPA,
}
"""Types of devices that serve only requests for this type."""


@dataclass(frozen=True)
class DeviceRequest:
    """Devices that an instance asks for; each matches one of the alternatives.

    ``alias_name`` is None if they are for a port; ``providers`` are those that an
    earlier claim left in the request, one for each device.
    """

    count: int
    alternatives: tuple[Alternative, ...]
    alias_name: str | None = None
    request_id: str | None = None
    numa_policy: str = 'legacy'
    providers: tuple[str, ...] = ()
    _known: dict[tuple[Tags, int | None], PoolMismatch | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    def __str__(self) -> str:
        wanted = ' or '.join(_words(alternative) for alternative in self.alternatives)
        if self.alias_name is not None:
            name = self.alias_name
        else:
            name = f'port {self.request_id}' if self.request_id else 'port'
        return f'{name} ({wanted or "no specification"})'

    def mismatch(self, pool: Pool) -> PoolMismatch | None:
        """Return why no device of a pool matches, wherever it is; None if one does."""
        kind = pool.tags, pool.numa_node if self._asks_for_cell else None
        try:
            return self._known[kind]
        except KeyError:
            return self._known.setdefault(kind, self._first_mismatch(pool))

    @functools.cached_property
    def _asks_for_cell(self) -> bool:
        return any(
            key == 'numa_node' for wanted in self.alternatives for key, _ in wanted
        )

    def _first_mismatch(self, pool: Pool) -> PoolMismatch | None:
        flat = pool.flat()
        if not any(_matches(dict(wanted), flat) for wanted in self.alternatives):
            return PoolMismatch.SPEC
        kind = flat.get('dev_type')
        if kind in ON_REQUEST and kind not in self._asked('dev_type'):
            return ON_REQUEST[kind]
        is_remote = _is_true(flat.get('remote_managed'))
        if is_remote and not any(map(_is_true, self._asked('remote_managed'))):
            return PoolMismatch.REMOTE
        migrates = self._asked('live_migratable')
        if migrates in ({'true'}, {'false'}):
            fits = flat['live_migratable'] in migrates
            return None if fits else PoolMismatch.MIGRATION
        return None

    def _asked(self, key: str) -> set[str | None]:
        """Return the values of a key in the alternatives, None where it is missing."""
        return {dict(alternative).get(key) for alternative in self.alternatives}


def _words(alternative: Alternative) -> str:
    """Return the values that a pool is compared with, by key."""
    keys = [(key, value) for key, value in alternative if key not in PLACEMENT_KEYS]
    keys.sort(key=lambda item: item[0])
    return ' '.join(f'{key}={value}' for key, value in keys) or 'any'


def _matches(
    wanted: Mapping[str, str | None], flat: Mapping[str, str | int | None]
) -> bool:
    return all(
        _folded(value) == _folded(flat.get(key))
        for key, value in wanted.items()
        if key not in PLACEMENT_KEYS
    )


def _folded(value: str | int | None) -> str | int | None:
    return value.lower() if isinstance(value, str) else value


def _is_true(value: str | int | None) -> bool:
    return isinstance(value, str) and value.strip().lower() in TRUE


def requests_of(requested: InstancePCIRequests | None) -> tuple[DeviceRequest, ...]:
    """Return the devices that a request asks for, in its order."""
    if requested is None:
        return ()
    return tuple(_request(request) for request in requested.requests)


def _request(request: InstancePCIRequest) -> DeviceRequest:
    spec = request.spec or []
    uuids = spec[0].get('rp_uuids') if spec else None
    return DeviceRequest(
        request.count or 1,
        tuple(frozenset(alternative.items()) for alternative in spec),
        request.alias_name,
        request.request_id,
        request.numa_policy or 'legacy',
        tuple(uuids.split(',')) if uuids else (),
    )


def providers_of(
    request: DeviceRequest, mapping: ProviderMapping | None
) -> tuple[str, ...]:
    """Return the providers that must serve a request, one per device; empty if any may.

    Groups of a mapping that belong to the request begin with its id. Without a mapping,
    the providers that an earlier claim left in the request count.
    """
    if request.alias_name is None:
        return ()
    if not mapping:
        return request.providers
    if request.request_id is None:
        return ()
    return tuple(
        providers[0]
        for group, providers in mapping.items()
        if providers and group.startswith(request.request_id)
    )


def enough_devices(pools: Pools, requests: Sequence[DeviceRequest]) -> bool:
    """Precheck: False if a request cannot be served from any cells and providers.

    Each request is tested alone: together they may still want too much.
    """
    for request in requests:
        free = sum([pool.count for pool in pools if request.mismatch(pool) is None])
        if free < max(request.count, 1):
            return False
    return True
