# SPDX-License-Identifier: Apache-2.0
"""Requests of one hour: who asks for which servers, when."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

HOUR_S = 3600.0
MARGIN_S = 5.0
ZONES = ('SERIES-3-ZONE', 'SERIES-3-ZONE', 'FEITENG-ZONE', None)
NETWORK_ZONES = ('cnp_sdn-NOVA-AZ1', 'cnp_sdn-NOVA-AZ2')
SERIES = ('SERIES-3-ZONE',)
STORM_S, STORM = 2040.0, 14
"""When somebody asks again and again for what there is no room for, and how often."""

PAGES = {'hw:mem_page_size': '1GB'}
PINNED = {'hw:cpu_policy': 'dedicated', **PAGES}
FLAVORS: dict[str, tuple[int, int, int, dict[str, str]]] = {
    'm1.small': (1, 2048, 20, {}),
    'm1.large': (4, 8192, 80, {}),
    'm1.xlarge': (8, 16384, 160, {}),
    'm1.huge': (64, 458752, 400, {}),
    'cm3.optimized': (16, 65536, 200, {'flavor_class': 'cm3-optimized'}),
    's3.pages': (2, 4096, 40, {'flavor_class': 's3-public', **PAGES}),
    's3.pages.large': (8, 24576, 80, {'flavor_class': 's3-public', **PAGES}),
    'nfv.pinned.8': (8, 16384, 40, {**PINNED, 'pci_passthrough:alias': 'nic:1'}),
    'nfv.pinned.16': (16, 32768, 40, PINNED),
    'gpu.large': (8, 65536, 100, {'trait:CUSTOM_GPU': 'required'}),
}
"""CPUs, MiB, GiB and extra specs."""


@dataclass(frozen=True)
class Wish:
    """Servers that somebody asks for, so many seconds after the hour began.

    ``policy`` belongs to a new group of them. If ``has_rival``, another request is
    faster at the first host. If ``comes_twice``, the request is delivered twice.
    """

    at_s: float
    name: str
    flavor: str
    zone: str | None = None
    count: int = 1
    policy: str | None = None
    host: str | None = None
    has_rival: bool = False
    comes_twice: bool = False


@dataclass(frozen=True)
class Kind:
    """What is often asked for; of several values any, ``weight`` times as often.
    ``more`` are other fields of each Wish."""

    weight: int
    name: str
    flavors: Sequence[str]
    zones: Sequence[str | None] = ZONES
    counts: Sequence[int] = (1,)
    more: Mapping[str, Any] = field(default_factory=dict)


APART = {'policy': 'anti-affinity'}
NAMED_HOST = 'sh11-compute-m3-10e5e12e71'
KINDS = (
    Kind(30, 'web', ('m1.small', 'm1.large')),
    Kind(14, 'app', ('m1.large', 'm1.xlarge')),
    Kind(10, 'cache', ('s3.pages',), SERIES),
    Kind(6, 'db', ('s3.pages.large',), SERIES),
    Kind(6, 'batch', ('cm3.optimized',), SERIES),
    Kind(8, 'vnf', ('nfv.pinned.8', 'nfv.pinned.16'), NETWORK_ZONES),
    Kind(5, 'worker', ('m1.large',), ZONES, (2, 3, 5)),
    Kind(3, 'quorum', ('m1.small',), ZONES, (3,), APART),
    Kind(2, 'edge', ('m1.small',), NETWORK_ZONES, (3,), APART),
    Kind(3, 'render', ('gpu.large',)),
    Kind(3, 'legacy', ('m1.small', 'm1.large'), ('SERIES-2-ZONE',)),
    Kind(2, 'misplaced', ('cm3.optimized', 's3.pages'), ('FEITENG-ZONE',)),
    Kind(2, 'pinned', ('nfv.pinned.8',), SERIES),
    Kind(2, 'report', ('m1.xlarge',), more={'has_rival': True}),
    Kind(1, 'again', ('m1.small',), more={'comes_twice': True}),
    Kind(1, 'named', ('m1.small',), (None,), more={'host': NAMED_HOST}),
)


def wishes(number: int, rng: random.Random) -> list[Wish]:
    """Return the wishes of an hour, in order of time: at least one of each
    kind."""
    names = itertools.count(1)
    found = [
        Wish(STORM_S + 7 * again, f'analytics-{next(names):03}', 'm1.huge', SERIES[0])
        for again in range(STORM)
    ]
    weights = [kind.weight for kind in KINDS]
    others = max(0, number - len(found) - len(KINDS))
    for kind in (*KINDS, *rng.choices(KINDS, weights, k=others)):
        found.append(
            Wish(
                rng.uniform(0.0, HOUR_S - MARGIN_S),
                f'{kind.name}-{next(names):03}',
                rng.choice(kind.flavors),
                rng.choice(kind.zones),
                rng.choice(kind.counts),
                **kind.more,
            )
        )
    return sorted(found, key=lambda each: each.at_s)
