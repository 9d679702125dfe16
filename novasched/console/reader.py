# SPDX-License-Identifier: Apache-2.0
"""What the pages of the console ask the cloud for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from novasched.inspection.questions.hosts import HostCriteria

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


@dataclass(frozen=True, kw_only=True)
class HostsOrder(HostCriteria):
    """A page of hosts that meet criteria. ``flavor``: with its slots."""

    flavor: str = ''
    page: int = 1
    limit: int = PAGE
