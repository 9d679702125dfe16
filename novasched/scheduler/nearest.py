# SPDX-License-Identifier: Apache-2.0
"""What would change the answer to a request that no host can take. Pure.

Every host is asked about by every filter, and has the set of all that it fails.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.columns import Mask
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostTable

MOST_CHANGES = 8
MOST_NAMES = 5
MOST_PAIRED = 24
"""Conditions of which pairs are looked at: those that most hosts fail."""


@dataclass(frozen=True)
class Change:
    """Conditions without which hosts would fit.

    ``hosts`` is their number, ``names`` are some of them. Where it is 0, ``also_fail``
    is the condition that most of the hosts fail that fail this one.
    """

    conditions: tuple[str, ...]
    hosts: int
    names: tuple[str, ...] = ()
    also_fail: str = ''


def asked_of_all(
    filters: Iterable[BaseHostFilter], hosts: HostTable, request: RequestSpec
) -> dict[str, Mask]:
    """Return which hosts pass each filter that is asked on its own.

    A filter that raises is left out: it has no answer for hosts that it would not
    have been asked about.
    """
    found: dict[str, Mask] = {}
    for filter_ in filters:
        try:
            passed = filter_.apply(hosts, request)
        except Exception:  # noqa: BLE001, S112 a plugin may raise anything
            continue
        rows = () if passed is None else passed.rows
        found[filter_.name] = np.isin(hosts.rows, rows)
    return found


def joined(masks: Mapping[str, Mask], same: Mapping[str, str]) -> dict[str, Mask]:
    """Return the masks with those under one name that stand for one condition.

    ``same`` gives the name to be used instead of another.
    """
    found: dict[str, Mask] = {}
    for name, mask in masks.items():
        key = same.get(name, name)
        found[key] = found[key] & mask if key in found else mask
    return found


def nearest(
    met: Mapping[str, Mask], names: Sequence[str], most: int = MOST_CHANGES
) -> list[Change]:
    """Return the conditions to change, those that give the most hosts first.

    ``met`` says by condition which hosts meet it; ``names`` are these hosts. Single
    conditions without a gain follow if there is room, those that most hosts fail first.
    If no single condition gives hosts, return the pairs that do, if any.
    """
    failing = {name: ~mask for name, mask in met.items() if not mask.all()}
    if not failing or not len(names):
        return []
    fails = np.array([*failing.values()])
    number = fails.sum(axis=0)
    listed = list(failing)
    single = [
        _change((name,), fails[place] & (number == 1), names)
        for place, name in enumerate(listed)
    ]
    giving = [each for each in single if each.hosts]
    if not giving:
        pairs = _pairs(listed, fails, names)
        if giving := [each for each in pairs if each.hosts]:
            return sorted(giving, key=_most_hosts)[:most]
    without = [
        _hopeless(place, listed, fails)
        for place in _by_count(fails)
        if not single[place].hosts
    ]
    return [*sorted(giving, key=_most_hosts), *without][:most]


def _by_count(fails: np.ndarray) -> list[int]:
    """Return the places of conditions, those that most hosts fail first."""
    places: list[int] = np.argsort(-fails.sum(axis=1), kind='stable').tolist()
    return places


def _pairs(
    listed: Sequence[str], fails: np.ndarray, names: Sequence[str]
) -> list[Change]:
    """Return the changes of two conditions, of those that most hosts fail."""
    fail_two = fails.sum(axis=0) == 2
    return [
        _change(
            (listed[one], listed[other]), fails[one] & fails[other] & fail_two, names
        )
        for one, other in itertools.combinations(
            sorted(_by_count(fails)[:MOST_PAIRED]), 2
        )
    ]


def _most_hosts(change: Change) -> tuple[int, tuple[str, ...]]:
    return -change.hosts, change.conditions


def _change(conditions: tuple[str, ...], fit: Mask, names: Sequence[str]) -> Change:
    places = np.flatnonzero(fit)
    shown = tuple(names[place] for place in places[:MOST_NAMES].tolist())
    return Change(conditions, len(places), shown)


def _hopeless(place: int, listed: Sequence[str], fails: np.ndarray) -> Change:
    """Return a condition whose change gives no host, and what else stands against."""
    others = fails[:, fails[place]].sum(axis=1)
    counts = Counter(dict(zip(listed, others.tolist(), strict=True)))
    del counts[listed[place]]
    most = counts.most_common(1)
    return Change((listed[place],), 0, (), most[0][0] if most else '')
