# SPDX-License-Identifier: Apache-2.0
"""The request of a record: what was asked for, as far as a record keeps it.

Its fields, in this order, are the map that is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FLAVOR_SIZES = ('vcpus', 'memory_mb', 'root_gb', 'ephemeral_gb', 'swap')


@dataclass(frozen=True)
class FlavorSummary:
    name: str = ''
    vcpus: int = 0
    memory_mb: int = 0
    root_gb: int = 0
    ephemeral_gb: int = 0
    swap: int = 0
    extra_specs: Mapping[str, str] = field(default_factory=dict)

    @property
    def disk_gb(self) -> int:
        return self.root_gb + self.ephemeral_gb

    @property
    def sorted_specs(self) -> list[str]:
        return _pairs(self.extra_specs)


@dataclass(frozen=True)
class ImageSummary:
    """An image; one without id describes a volume."""

    id: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def sorted_properties(self) -> list[str]:
        return _pairs(self.properties)


@dataclass(frozen=True)
class GroupSummary:
    uuid: str | None = None
    policies: Sequence[str] = ()
    members: int = 0  # how many


@dataclass(frozen=True)
class NamedHost:
    """The host or node that the request must go to."""

    host: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class RequestSummary:
    flavor: FlavorSummary | None = None
    image: ImageSummary | None = None
    zone: str = ''
    group: GroupSummary | None = None
    forced: Sequence[str] = ()  # hosts, then nodes
    ignored: Sequence[str] = ()
    named: NamedHost | None = None
    hints: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    """Values by name; None for a hint whose values are not kept."""
    pci_requests: int = 0
    ports: int = 0
    requested_resources: int = 0
    numa_nodes: int = 0
    is_move: bool = False
    is_rebuild: bool = False

    @property
    def skips_filters(self) -> bool:
        """Whether hosts pass without filters: rebuilds, and forced hosts unchecked."""
        is_checked = '_nova_check_type' in self.hints
        return self.is_rebuild or (bool(self.forced) and not is_checked)

    @property
    def known_hints(self) -> dict[str, Sequence[str]]:
        """The hints whose values are kept."""
        return {name: values for name, values in self.hints.items() if values}

    @property
    def sorted_hints(self) -> list[str]:
        """The hints as key=value, or the name alone."""
        return [
            name if values is None else f'{name}={",".join(values)}'
            for name, values in sorted(self.hints.items())
        ]

    @property
    def named_places(self) -> list[str]:
        """The host and the node that are named, each after its kind."""
        named = vars(self.named) if self.named is not None else {}
        return [f'{kind} {name}' for kind, name in named.items() if name]


def _pairs(values: Mapping[str, str]) -> list[str]:
    return [f'{key}={value}' for key, value in sorted(values.items())]
