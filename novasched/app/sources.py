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
from novasched.mirror.assumed import AssumedClaims
from novasched.observability.instrumentation import Instrumentation
from novasched.ports import Network, Notifier, ProviderStore, ServiceRow
from novasched.providers.hints import CloudHints, node_sizes
from novasched.runtime.clock import Clock
from novasched.scheduler.trace import Decision


def hints_of(view: ClusterView) -> CloudHints:
    """Return the hints of a view for reading placement's API."""
    return CloudHints(
        lambda: node_sizes(view.hosts(None)), lambda: view.aggregates.names().keys()
    )


@dataclass
class Kept:
    """What a process knows that outlives its scheduler: a reload makes another one.

    ``release`` is what requests and conductors show, ``claims`` what the copy of
    placement may not show yet, ``picks`` what the hosts may not, and ``origin`` that of
    what was sent of these.
    """

    release: KnownRelease = field(default_factory=KnownRelease)
    claims: AssumedClaims = field(default_factory=AssumedClaims)
    picks: AssumedInstances | None = None
    origin: str = ''


@dataclass(frozen=True, kw_only=True)
class Sources:
    """Where what decisions are made of comes from, apart from the configuration.

    ``make_cell_engine`` gets the URL of a cell's database; error statuses do not
    raise in ``placement``; ``services`` are those of the main database. A scheduler
    keeps a copy of ``providers``, if there are any and ``keeps_copy``.
    ``instrumentation`` wraps the components; ``kept`` is what the process knows.
    """

    api_engine: sa.Engine
    make_cell_engine: Callable[[str], sa.Engine]
    placement: Adapter
    notifier: Notifier
    clock: Clock
    rng: random.Random
    network: Network = field(default_factory=lambda: NetworkClient(None))
    services: ServiceDirectory | None = None
    providers: ProviderStore | None = None
    keeps_copy: bool = True
    on_decision: Callable[[Decision], None] = lambda decision: None
    instrumentation: Instrumentation = field(default_factory=Instrumentation)
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
