# SPDX-License-Identifier: Apache-2.0
"""The metrics of the console: free slots of chosen flavors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.exposition import choose_encoder

from novasched.observability.catalogue import FREE_SLOTS


def shown(slots: Sequence[Sequence[Any]], accepted: str) -> tuple[bytes, str]:
    """Return ``free_slots`` of the reader's health, in the form that a client accepts
    of Prometheus' and OpenMetrics', and its content type."""
    encode, content_type = choose_encoder(accepted)
    registry = CollectorRegistry()
    made = Gauge(FREE_SLOTS.name, FREE_SLOTS.doc, FREE_SLOTS.labels, registry=registry)
    for flavor, zone, number in slots:
        made.labels(flavor=flavor, zone=zone or '').set(number)
    return encode(registry), content_type
