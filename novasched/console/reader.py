# SPDX-License-Identifier: Apache-2.0
"""What the pages of the console are made of: one answer each, as JSON has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from novasched.decision_log.reading import Criteria

Report = dict[str, Any]
PAGE = 50


@dataclass(frozen=True)
class PlanOrder:
    """A plan that is asked for, in the words of ``novasched plan boot``.

    ``flavor`` is a name, an id or ``vcpus=2,ram=2048``; ``like`` a decision whose
    request is repeated instead. ``hints`` and ``what_if`` have one entry each.
    """

    flavor: str = ''
    image: str = ''
    zone: str = ''
    count: int = 1
    hints: tuple[str, ...] = ()
    what_if: tuple[str, ...] = ()
    like: str = ''


MOST_BY_HOST = 2
"""Flavors that are counted for each host apart."""


@dataclass(frozen=True)
class CapacityOrder:
    """Capacity that is asked for; without flavors, of those that servers have, by host
    of MOST_BY_HOST of them."""

    flavors: tuple[str, ...] = ()
    by: str | None = None
    what_if: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostsOrder:
    """A page of hosts; the empty text is no criterion. ``flavor``: with its slots."""

    name: str = ''
    cell: str = ''
    zone: str = ''
    aggregate: str = ''
    state: str = ''
    flavor: str = ''
    page: int = 1
    limit: int = PAGE


class CloudReader(Protocol):
    """Reads decisions and the cloud. Its methods may be called by many threads.

    Each answer is a JSON object. All raise errors.OptionError for what is asked
    wrongly, errors.Busy where too much is under way, and other
    errors.NovaschedError where something does not answer.
    """

    def overview(self) -> Report:
        """Return the last hour of all schedulers: inspection.overview.merged()."""

    def decisions(self, criteria: Criteria, before: str | None, limit: int) -> Report:
        """Return ``decisions``: heads as ``novasched decisions list -f json`` has them,
        the newest first, ``next``: the id to go on before, or None, and ``unanswered``.
        """

    def count(self, by: str, criteria: Criteria) -> Report:
        """Return ``rows`` of ``novasched decisions count``, and ``unanswered``."""

    def decision(self, decision: str, index: int | None) -> Report | None:
        """Return inspection.explain.explanation() with every host, or None."""

    def plan(self, order: PlanOrder) -> Report:
        """Return the JSON of ``novasched plan boot``."""

    def capacity(self, order: CapacityOrder) -> Report:
        """Return the JSON of ``novasched capacity --stranded``."""

    def heat(self, flavor: str) -> Report:
        """Return ``flavor`` and ``groups``: for each zone and aggregate ``zone``,
        ``aggregate`` and ``hosts``, each ``[name, slots]``; slots None: it is disabled
        or down; and ``cells_left_out``."""

    def hosts(self, order: HostsOrder) -> Report:
        """Return ``hosts`` of a page, each with ``host, cell, zone, aggregates, state``
        (enabled, disabled or down), ``reason``, ``used`` ({class: [used, total]}),
        ``servers`` and ``slots``; ``total``, ``page``, ``pages``, ``cells``,
        ``zones`` and ``aggregates`` to choose from, ``cells_left_out`` and ``problem``:
        why ``used`` is not known, or None."""

    def host(self, name: str) -> Report:
        """Return the JSON of ``novasched host --long``, and ``unanswered``."""

    def flavors(self) -> list[str]:
        """Return the names of the flavors that servers have."""

    def health(self) -> Report:
        """Return ``status`` (pass, warn, fail) and ``checks`` by name, as the health of
        the scheduler has them, and ``free_slots``: [flavor, zone, number] of the
        flavors that are configured."""
