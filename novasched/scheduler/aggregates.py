# SPDX-License-Identifier: Apache-2.0
"""Host aggregates, as filters, weighers and the placement query see them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from novasched.objects import compute_node

Number = TypeVar('Number', int, float)


@dataclass(frozen=True)
class Aggregate:
    """A named set of compute service hosts with metadata.

    ``hosts`` holds service host names, never node names; ``uuid`` is also the
    aggregate's name in placement. Nova: objects/aggregate.py.
    """

    id: int
    uuid: str | None
    name: str | None
    hosts: frozenset[str] = frozenset()
    metadata: Mapping[str, str] = field(default_factory=dict)

    @property
    def availability_zone(self) -> str | None:
        return self.metadata.get('availability_zone')

    @functools.cached_property
    def shown(self) -> compute_node.Aggregate:
        """The aggregate as plugins read it on a host."""
        known = {
            'id': self.id,
            'uuid': self.uuid,
            'name': self.name,
            'hosts': sorted(self.hosts),
            'metadata': dict(self.metadata),
        }
        values = {name: value for name, value in known.items() if value is not None}
        return compute_node.Aggregate.made_of(**values)


Aggregates = Sequence[Aggregate]


def shown(aggregates: Any) -> Any:
    """Return a list of the aggregates as plugins read them; all else as it is."""
    if not isinstance(aggregates, tuple | list):
        return aggregates
    return [each.shown if isinstance(each, Aggregate) else each for each in aggregates]


def values(aggregates: Iterable[Aggregate], key: str) -> set[str]:
    """Return the raw values of a metadata key, not split on commas."""
    return {a.metadata[key] for a in aggregates if key in a.metadata}


def lowest(
    values: Iterable[str], cast: Callable[[str], Number], default: Number
) -> Number:
    """Return the lowest number; the default if there is none or one is no number.

    ``cast`` raises ValueError for what is no number.
    """
    try:
        return min((cast(value) for value in values), default=default)
    except ValueError:
        return default


def metadata(
    aggregates: Iterable[Aggregate], key: str | None = None
) -> dict[str, set[str]]:
    """Merge metadata by key, splitting each value on commas.

    With ``key``, only aggregates that have it contribute, but with all their
    keys. Nova: scheduler/filters/utils.py, aggregate_metadata_get_by_host.
    """
    merged: dict[str, set[str]] = {}
    for aggregate in aggregates:
        if key is None or key in aggregate.metadata:
            for name, value in aggregate.metadata.items():
                parts = {part.strip() for part in value.split(',')}
                merged.setdefault(name, set()).update(parts)
    return merged
