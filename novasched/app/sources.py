# SPDX-License-Identifier: Apache-2.0
"""Parts of a scheduler, apart from its configuration."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter

from novasched.clock import Clock
from novasched.cluster.discovery import ServiceDirectory
from novasched.network.client import NetworkClient
from novasched.observability.instrumentation import Instrumentation
from novasched.placement.snapshot import SnapshotSource
from novasched.ports import Network, Notifier, ProviderStore, ServiceRow
from novasched.scheduler.trace import Decision


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where what decisions are made of comes from, apart from the configuration.

    ``make_cell_engine`` gets the URL of a cell's database; error statuses do not
    raise in ``placement``. Candidates come from a copy of ``providers``, if there are
    any; where there is none, ``snapshots`` say why placement offers no host.
    ``instrumentation`` wraps the components.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    notifier: Notifier
    clock: Clock
    rng: random.Random
    network: Network = field(default_factory=lambda: NetworkClient(None))
    providers: ProviderStore | None = None
    snapshots: SnapshotSource | None = None
    on_decision: Callable[[Decision], None] = lambda decision: None
    instrumentation: Instrumentation = field(default_factory=Instrumentation)


@dataclass(frozen=True, kw_only=True)
class Dependencies(Sources):
    """All parts of a scheduler, apart from its configuration.

    ``on_service`` gets each services row that was made. ``close`` is called when the
    scheduler has ended, or by whom composed none.
    """

    transport: Any
    services: ServiceDirectory | None = None
    on_service: Callable[[ServiceRow], None] = lambda row: None
    close: Callable[[], None] = lambda: None
