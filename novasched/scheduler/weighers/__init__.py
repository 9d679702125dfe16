# SPDX-License-Identifier: Apache-2.0
"""Weighers order the hosts that passed every filter."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from oslo_config import cfg

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.hosts import Floats, HostState, HostTable
from novasched.scheduler.warnings import PluginWarning, number_warnings


def multiplier_opt(name: str, default: float, help_: str, **more: Any) -> cfg.Opt:
    """Return the option of a multiplier; ``more`` are arguments of cfg.FloatOpt."""
    return cfg.FloatOpt(name, default=default, help=help_, **more)


@dataclass
class WeighedHost:
    """A host on its way through the weighers, as nova shows it to a plugin."""

    obj: HostState
    weight: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return {'weight': self.weight, 'host': self.obj.host}

    def __repr__(self) -> str:
        return f'WeighedHost [host: {self.obj!r}, weight: {self.weight}]'


class Weigher(abc.ABC):
    """Give each host a raw weight; higher wins.

    A weigher defines weigh(), and aggregate_multipliers() if it has a rule of its own.
    Plugins made for nova define _weigh_object() or weigh_objects(), and
    weight_multiplier(). A subclass of a weigher that goes by columns may do so, too.
    Nova: weights.py.
    """

    minval: float | None = None
    maxval: float | None = None  # both clamp the raw weights and bound normalisation
    option: ClassVar[str | None] = None
    """Names the multiplier in group filter_scheduler; aggregates may override it."""
    multiplier: float = 1.0
    columns: ClassVar[Collection[str] | None] = None  # see depends_on()
    compares: ClassVar[bool] = False
    """A raw weight follows from these columns of all hosts that are weighed."""
    is_optional: ClassVar[bool] = False
    """Nova has no such weigher: it takes no part while no multiplier but 0 applies."""
    _looked_up: tuple[Any, bool] = (None, False)  # lists of aggregates; one sets option

    def __init__(self, multiplier: float | None = None) -> None:
        if multiplier is not None:
            self.multiplier = multiplier

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        """Make the weigher from the option that ``option`` names."""
        option = cls.multiplier_option()
        return cls(conf.filter_scheduler[option]) if option else cls()

    @classmethod
    def multiplier_option(cls) -> str | None:
        """Return the name of the option with the multiplier, if there is one.

        The adapter of plugins overrides this where ``option`` is something else.
        """
        return cls.option

    @functools.cached_property  # which subclasses may overwrite, unlike a property
    def name(self) -> str:
        """The name of the class, as logs and metrics have it."""
        return type(self).__name__

    def depends_on(self, request: RequestSpec) -> Collection[str] | None:
        """Return the columns from whose values of a host its raw weight follows.

        None if something else counts: the number of the instance in the request, or
        the hosts of the instances before it. With columns, the weigher is not asked
        again while their values stay.
        """
        return self.columns

    @abc.abstractmethod
    def weigh(self, hosts: HostTable, request: RequestSpec) -> NDArray[Any]:
        """Return one raw weight per host; shape (len(hosts),)."""

    def aggregate_multipliers(self, hosts: HostTable) -> Floats:
        """Return one multiplier per host: the lowest that its aggregates set."""
        option = self.multiplier_option()
        if option is None or not self._is_overridden(option, hosts):
            return np.full(len(hosts), self.multiplier, np.float64)

        def lowest(of_host: Aggregates) -> float:
            values = aggregates.values(of_host, option)
            return aggregates.lowest(values, float, self.multiplier)

        return hosts.aggregates.map(lowest, float)

    def _is_overridden(self, option: str, hosts: HostTable) -> bool:
        """Return whether an aggregate may set the option; asks no host.

        The answer is kept while the lists of aggregates are the same object.
        """
        known, found = self._looked_up
        lists = hosts.snapshot.column('aggregates').values
        if known is not lists:
            found = any(aggregates.values(of_host, option) for of_host in lists)
            self._looked_up = lists, found
        return found

    def takes_part(self, hosts: HostTable) -> bool:
        """Return whether the weigher belongs to the decision about these hosts."""
        if not self.is_optional or self.multiplier:
            return True
        option = self.multiplier_option()
        return option is not None and self._is_overridden(option, hosts)

    def weight_multiplier(self, host_state: HostState | None = None) -> float:
        """Return the multiplier of one host; without a host, the option's."""
        if host_state is None:
            return self.multiplier
        found: float = self.aggregate_multipliers(host_state.as_table()).item(0)
        return found

    def _weigh_object(
        self, host_state: HostState, weight_properties: RequestSpec
    ) -> Any:
        """Return the raw weight of one host."""
        return self.weigh(host_state.as_table(), weight_properties).item(0)

    def weigh_objects(
        self, weighed_obj_list: Sequence[WeighedHost], weight_properties: RequestSpec
    ) -> Iterable[Any]:
        """Return the raw weights, clamped; a rule about the whole set overrides it."""
        raw = [self._weigh_object(w.obj, weight_properties) for w in weighed_obj_list]
        clamped: list[float] = clamp(numbers(raw), self.minval, self.maxval).tolist()
        return clamped

    def weights(self, hosts: HostTable, request: RequestSpec) -> Floats:
        """Return the raw weights, clamped, one per host."""
        return clamp(self.weigh(hosts, request), self.minval, self.maxval)

    def multipliers(self, hosts: HostTable) -> Floats:
        """Return one multiplier per host."""
        return self.aggregate_multipliers(hosts)

    effective_multipliers = multipliers
    """The multipliers for weigh(); a plugin's weight_multiplier() overrides them."""

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterable[PluginWarning]:
        """Return warnings about the options and about groups of aggregates."""
        option = self.multiplier_option()
        if option is None:
            return ()
        sentence = "Could not decode '{key}' weight multiplier: {problem}"
        return number_warnings(groups, option, float, sentence)


class BaseHostWeigher(Weigher):
    """A weigher that looks at one host at a time: nova's plugin contract.

    Nova: scheduler/weights/__init__.py.
    """

    def _weigh_object(
        self, host_state: HostState, weight_properties: RequestSpec
    ) -> Any:
        raise TypeError(f'{type(self).__name__} does not define _weigh_object')

    def weigh(self, hosts: HostTable, request: RequestSpec) -> NDArray[Any]:
        return self.weights(hosts, request)

    def weights(self, hosts: HostTable, request: RequestSpec) -> Floats:
        """Return the result of weigh_objects(): as many weights as it likes."""
        weighed = [WeighedHost(host) for host in hosts.states()]
        return numbers(self.weigh_objects(weighed, request))


def numbers(given: Iterable[Any]) -> Floats:
    """Convert the answer of a plugin to numbers. Raises TypeError if one is none."""
    found = np.array(list(given))
    if found.ndim != 1:
        raise TypeError('there is more than one number for a host')
    if found.dtype.kind not in 'biuf' and len(found):
        found = np.array([_number(value) for value in found.tolist()])
    return found.astype(np.float64)


def _number(value: object) -> float:
    if isinstance(value, Real):
        return float(value)
    raise TypeError(f'{value!r} is no number')


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
    return scaled(raw, *bounds(raw, low, high))


def bounds(raw: Floats, low: float | None, high: float | None) -> tuple[float, float]:
    """Return which raw weights become 0 and 1.

    With NaN among them, bounds that are not given are what Python's min() and
    max() make of it, as in nova.
    """
    if not len(raw):
        return 0.0, 0.0
    low = _bound(min, raw.min(), raw) if low is None else float(low)
    high = _bound(max, raw.max(), raw) if high is None else float(high)
    return low, high


def scaled(raw: Floats, low: float, high: float) -> Floats:
    """Return the raw weights with the bounds at 0 and 1; zeros when these meet."""
    if low == high:
        return np.zeros_like(raw)
    return (raw - low) / (high - low)


def _bound(choose: Callable[[list[float]], float], found: float, raw: Floats) -> float:
    return choose(raw.tolist()) if math.isnan(found) else float(found)
