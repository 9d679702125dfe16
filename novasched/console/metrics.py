# SPDX-License-Identifier: Apache-2.0
"""The metrics of the console: free slots of chosen flavors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from novasched.observability.catalogue import FREE_SLOTS


class FreeSlots:
    """Slots as the reader counts them; prometheus_client makes text of them."""

    def __init__(self, slots: Sequence[Sequence[Any]]) -> None:
        self._slots = slots

    def collect(self) -> Iterator[Family]:
        made = Family(FREE_SLOTS.name, FREE_SLOTS.doc, FREE_SLOTS.kind)
        for flavor, zone, number in self._slots:
            named = {'flavor': str(flavor), 'zone': str(zone or '')}
            made.add_sample(made.name, named, number)
        yield made


def shown(slots: Sequence[Sequence[Any]], accepted: str) -> tuple[bytes, str]:
    """Return ``free_slots`` of the reader's health, in the form that a client accepts
    of Prometheus' and OpenMetrics', and its content type."""
    encode, content_type = choose_encoder(accepted)
    registry = CollectorRegistry()
    registry.register(FreeSlots(slots))
    return encode(registry), content_type
