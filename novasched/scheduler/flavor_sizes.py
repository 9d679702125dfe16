# SPDX-License-Identifier: Apache-2.0
"""Sizes of flavors, as KeepRoomWeigher counts room for them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

MOST_SIZES = 32


class FlavorSize(NamedTuple):
    """CPUs and MiB of a flavor; ``share`` is its weight among the others."""

    vcpus: int
    memory_mb: int
    share: float = 1.0


FlavorSizes = tuple[FlavorSize, ...]


def parse_sizes(items: Iterable[str]) -> FlavorSizes:
    """Read items of the form ``vcpus:ram_mb`` or ``vcpus:ram_mb=share``.

    Raises ValueError with the item that is nonsense, or if there are too many.
    """
    sizes = tuple(_size(item) for item in items)
    if len(sizes) > MOST_SIZES:
        raise ValueError(f'{len(sizes)} flavors are more than {MOST_SIZES}')
    return sizes


def _size(item: str) -> FlavorSize:
    amounts, has_share, share = item.partition('=')
    vcpus, _, memory_mb = amounts.partition(':')
    try:
        size = FlavorSize(int(vcpus), int(memory_mb), float(share) if has_share else 1)
    except ValueError:
        raise ValueError(f'{item!r} is not vcpus:ram_mb=share') from None
    if size.vcpus < 1 or size.memory_mb < 1 or not 0 <= size.share < math.inf:
        raise ValueError(f'{item!r} needs positive amounts and a share from 0 on')
    return size
