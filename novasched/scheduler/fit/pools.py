# SPDX-License-Identifier: Apache-2.0
"""The pools of free PCI devices of a host, as values that are never changed."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from novasched.scheduler.fit.reported import number, reading

Tags = frozenset[tuple[str, str | None]]
"""What all devices of a pool have in common, but for node and provider."""

PRODUCT = ('vendor_id', 'product_id')
FIXED = frozenset({*PRODUCT, 'numa_node', 'count'})
MOST_DEVICES = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Pool:
    """A number of like devices that are free.

    ``numa_node`` is None if they are near to no node, ``rp_uuid`` if placement does
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


def parse_pools(text: str | None) -> Pools:
    """Return the pools in the text of a pci_stats column.

    It is a list of pools in nova's object form, or of old one pool or a list of
    them as plain dicts. Raises reported.Unreadable for text that is anything else.
    """
    with reading():
        made = _pools(json.loads(text or '[]') or [])
    return tuple(sorted(made, key=lambda pool: len(pool.keys)))


def _pools(primitive: Any) -> list[Pool]:
    if not isinstance(primitive, dict):
        return [_plain(flat) for flat in primitive]
    if 'nova_object.name' not in primitive:
        return [_plain(primitive)]
    objects = primitive['nova_object.data']['objects']
    made = [pool['nova_object.data'] for pool in objects]
    return [_pool(pool, pool.get('tags', {})) for pool in made]


def _plain(flat: Mapping[str, Any]) -> Pool:
    return _pool(flat, {key: flat[key] for key in flat if key not in FIXED})


def _pool(fixed: Mapping[str, Any], tags: Mapping[str, Any]) -> Pool:
    product = [(key, fixed[key]) for key in PRODUCT]
    if any(value is None for _, value in product):
        raise TypeError('a pool has no vendor or no product')
    keys = [(key, _text(value)) for key, value in (*product, *tags.items())]
    rp_uuid = _text(tags.get('rp_uuid'))
    if rp_uuid is not None:
        keys.remove(('rp_uuid', rp_uuid))
    node = fixed.get('numa_node')
    return Pool(
        tags=_shared(frozenset(keys)),
        numa_node=None if node is None else number(node),
        count=number(fixed['count'], 0, MOST_DEVICES),
        rp_uuid=rp_uuid,
    )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, int | float):
        return str(value)
    raise TypeError(f'a tag of a pool is no text: {value!r:.100}')


@functools.lru_cache(maxsize=4096)
def _shared(tags: Tags) -> Tags:
    """Return the tags that an earlier pool has, if equal: hosts are much alike."""
    return tags
