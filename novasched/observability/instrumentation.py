# SPDX-License-Identifier: Apache-2.0
"""Instrumentation of a scheduler: wraps its components with health and metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from novasched.candidate_query import QueryPolicy
from novasched.cluster.view import ClusterView
from novasched.observability.freshness import Freshness
from novasched.observability.health import Health, Look
from novasched.observability.placement import WatchedPlacement
from novasched.observability.requests import Numbers, Stages, WatchedRequests
from novasched.observability.stores import WatchedApi, WatchedServices
from novasched.ports import ApiStore, Clock, Placement, Requests, ServiceStore
from novasched.scheduler.trace import Decision


class Instrumentation:
    """Leaves every component as it is."""

    requests: Requests | None = None

    def api(self, inner: ApiStore) -> ApiStore:
        return inner

    def services(self, inner: ServiceStore) -> ServiceStore:
        return inner

    def placement(self, inner: Placement) -> Placement:
        return inner

    def query_policy(self, query_policy: QueryPolicy) -> QueryPolicy:
        return query_policy

    def view(self, view: ClusterView) -> ClusterView:
        return view


NO_INSTRUMENTATION = Instrumentation()


class ActiveInstrumentation(Instrumentation):
    """Wraps each component with what measures it.

    ``threads`` is how many requests there can be at once, ``patience_s`` how long
    their callers wait. ``looks`` are to be asked for the health.
    """

    def __init__(
        self,
        numbers: Numbers,
        health: Health,
        clock: Clock,
        *,
        threads: int,
        patience_s: float,
        check_interval_s: float,
    ) -> None:
        self._numbers = numbers
        self._health = health
        self._clock = clock
        self._check_interval_s = check_interval_s
        self._stages = Stages(numbers)
        self._freshness: Freshness | None = None
        self._watched = requests = WatchedRequests(numbers, threads, patience_s)
        self.looks: list[Look] = [lambda: {'requests': requests.look(health.time())}]
        self.requests = requests

    def api(self, inner: ApiStore) -> ApiStore:
        return WatchedApi(inner, self._health)

    def services(self, inner: ServiceStore) -> ServiceStore:
        return WatchedServices(inner, self._health)

    def placement(self, inner: Placement) -> Placement:
        return WatchedPlacement(inner, self._numbers, self._stages, self._health)

    def query_policy(self, query_policy: QueryPolicy) -> QueryPolicy:
        """Measure the prefilters, and count the answers that a limit cut."""
        measured = self._stages.prefilters(tuple(query_policy.prefilters))
        on_cut = self._stages.cut
        return replace(query_policy, prefilters=measured, on_cut=on_cut)

    def decisions(
        self, on_decision: Callable[[Decision], None]
    ) -> Callable[[Decision], None]:
        """Return what takes in a decision, and hands it on."""

        def both(decision: Decision) -> None:
            self._stages.decided(decision)
            on_decision(decision)

        return both

    def view(self, view: ClusterView) -> ClusterView:
        """Measure the refreshes of a view, and look at how fresh it is."""
        view.refresh = self._stages.refresh(view.refresh)
        self._freshness = Freshness(
            view.cells, view.asked_at, self._clock, self._health, self._check_interval_s
        )
        self.looks.append(self._freshness.look)
        return view

    def measure(self, now: float) -> None:
        """Set the gauges that tell of now; in seconds since 1970."""
        self._watched.measure()
        if self._freshness is not None:
            self._freshness.measure(self._numbers, now)
