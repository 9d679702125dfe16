# SPDX-License-Identifier: Apache-2.0
"""Parts of a scheduler, apart from its configuration."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter

from novasched.cluster.assumed import AssumedInstances
from novasched.cluster.discovery import ServiceDirectory
from novasched.cluster.release import KnownRelease
from novasched.cluster.view import ClusterView
from novasched.external.network import NetworkClient
from novasched.observability.instrumentation import Instrumentation
from novasched.placement_copy.own_claims import OwnClaims
from novasched.ports import Network, Notifier, ProviderStore, ServiceRow
from novasched.providers.hints import CloudHints, node_sizes
from novasched.runtime.clock import Clock


def hints_of(view: ClusterView) -> CloudHints:
    """Return the hints of a view for reading placement's API."""
    return CloudHints(
        lambda: node_sizes(view.hosts(None)), lambda: view.aggregates.names().keys()
    )


@dataclass
class Kept:
    """What a process keeps when a reload replaces its scheduler."""

    release: KnownRelease = field(default_factory=KnownRelease)
    """Shown by requests and conductors."""
    claims: OwnClaims = field(default_factory=OwnClaims)
    """Claims that the copy of placement may not show yet."""
    picks: AssumedInstances | None = None  # picks that the hosts may not show yet
    origin: str = ''  # the origin of the picks that were sent to other schedulers


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where the input of decisions comes from, apart from the configuration."""

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]  # gets the URL of a cell's database
    placement: Adapter  # raises nothing for an error status
    notifier: Notifier
    clock: Clock
    rng: random.Random
    network: Network = field(default_factory=lambda: NetworkClient(None))
    services: ServiceDirectory | None = None  # services of the main database
    providers: ProviderStore | None = None
    keeps_copy: bool = True
    """Whether a scheduler keeps a copy of ``providers``, if there are any."""
    instrumentation: Instrumentation = field(default_factory=Instrumentation)
    """Wraps the components."""
    kept: Kept = field(default_factory=Kept)


@dataclass(frozen=True, kw_only=True)
class Dependencies(Sources):
    """All parts of a scheduler, apart from its configuration.

    ``on_service`` gets each services row that was made. ``close`` is called when the
    scheduler has ended, or by whom composed none.
    """

    transport: Any
    on_service: Callable[[ServiceRow], None] = lambda row: None
    close: Callable[[], None] = lambda: None
