# SPDX-License-Identifier: Apache-2.0
"""Weighers order the hosts that passed every filter."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.hosts import Floats, HostState, HostTable


def multiplier_opt(
    name: str, default: float, help_: str, minimum: float | None = None
) -> cfg.Opt:
    """Return a multiplier option in nova's form, old group included."""
    return cfg.FloatOpt(
        name, default=default, min=minimum, deprecated_group='DEFAULT', help=help_
    )


class Weigher(abc.ABC):
    """Give each host a raw weight; higher wins.

    ``minval`` and ``maxval`` clamp the raw weights and bound normalisation.
    ``option`` names the multiplier, in group filter_scheduler and in the
    metadata of aggregates, which override it. Nova: weights.py.
    """

    minval: float | None = None
    maxval: float | None = None
    option: ClassVar[str | None] = None
    multiplier: float = 1.0

    def __init__(self, multiplier: float = 1.0) -> None:
        self.multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Make the weigher from the option that ``option`` names."""
        return cls(conf.filter_scheduler[cls.option]) if cls.option else cls()

    @abc.abstractmethod
    def weigh(self, hosts: HostTable, request: RequestSpec) -> NDArray[Any]:
        """Return one raw weight per host; shape (len(hosts),)."""

    def multipliers(self, hosts: HostTable) -> Floats:
        """Return one multiplier per host: the lowest that its aggregates set."""
        option = self.option
        if option is None or not _sets(option, hosts):
            return np.full(len(hosts), self.multiplier)
        return hosts.aggregates.map(
            lambda a: lowest_multiplier(aggregates.values(a, option), self.multiplier),
            float,
        )


@dataclass
class WeighedHost:
    """A host on its way through the weighers, as nova shows it to a plugin."""

    obj: HostState
    weight: float = 0.0


class BaseHostWeigher(Weigher):
    """A weigher that looks at one host at a time: nova's plugin contract.

    Nova: scheduler/weights/__init__.py.
    """

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the multiplier of one host."""
        return self.multiplier

    @abc.abstractmethod
    def _weigh_object(self, host_state: HostState, spec_obj: RequestSpec) -> float:
        """Return the raw weight of one host."""

    def weigh_objects(
        self, weighed_obj_list: Sequence[WeighedHost], weight_properties: RequestSpec
    ) -> Sequence[float]:
        """Return the raw weights; a rule about the whole set overrides it."""
        return [self._weigh_object(w.obj, weight_properties) for w in weighed_obj_list]

    def weigh(self, hosts: HostTable, request: RequestSpec) -> NDArray[Any]:
        weighed = [WeighedHost(host) for host in hosts.states()]
        return np.array(self.weigh_objects(weighed, request))

    def multipliers(self, hosts: HostTable) -> Floats:
        found = [self.weight_multiplier(host) for host in hosts.states()]
        return np.array(found, np.float64)


def _sets(option: str, hosts: HostTable) -> bool:
    """Return True if an aggregate may set the option; asks no host."""
    known = hosts.snapshot.column('aggregates').values
    return any(aggregates.values(of_host, option) for of_host in known)


def lowest_multiplier(values: set[str], configured: float) -> float:
    """Return the smallest value, or ``configured`` if one is not a number.

    Nova: scheduler/utils.py, get_weight_multiplier.
    """
    try:
        return min((float(value) for value in values), default=configured)
    except ValueError:
        return configured


def clamp(raw: NDArray[Any], low: float | None, high: float | None) -> Floats:
    """Return the raw weights, not below low and not above high."""
    weights = raw.astype(np.float64)
    if low is not None:
        weights = np.maximum(weights, low)
    if high is not None:
        weights = np.minimum(weights, high)
    return weights


def normalize(raw: Floats, low: float | None, high: float | None) -> Floats:
    """Scale raw weights to 0..1; all zeros when the bounds meet."""
    low = float(raw.min()) if low is None else float(low)
    high = float(raw.max()) if high is None else float(high)
    if low == high:
        return np.zeros_like(raw)
    return (raw - low) / (high - low)
