# SPDX-License-Identifier: Apache-2.0
"""Weigh hosts by the metrics that they report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import metrics, warnings
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.columns import PerValue
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.warnings import PluginWarning
from novasched.scheduler.weighers import Weigher

ABSENT, WITHOUT_NUMBER = np.nan, np.inf
"""In the place of the number of a metric."""

OPTS = {
    'metrics': [
        cfg.FloatOpt(
            'weight_multiplier',
            default=1.0,
            help='Weight of the metrics that weight_setting names. Aggregates '
            'override it with the key metrics_weight_multiplier.',
        ),
        cfg.ListOpt(
            'weight_setting',
            default=[],
            help='What each metric counts, as ``name=ratio``, for example '
            '``cpu.percent=-1.0``; the weight of a host is the sum of values times '
            'ratios. MetricsFilter passes hosts that report all of them.',
        ),
        cfg.BoolOpt(
            'required',
            default=True,
            help='A host that lacks one of the metrics fails the request; enable '
            'MetricsFilter to drop such hosts before. When False, such a host '
            'weighs weight_of_unavailable.',
        ),
        cfg.FloatOpt(
            'weight_of_unavailable',
            default=-10000.0,
            help='Weight, before weight_multiplier, of a host that lacks a metric '
            'whose ratio is not 0, when metrics are not required.',
        ),
    ]
}


class MetricsWeigher(Weigher):
    """Prefer hosts by the sum of chosen metrics, each times its ratio.

    Raises errors.MetricNotFound for a host that lacks a required metric, and
    TypeError for a metric that is not one number. Nova:
    scheduler/weights/metrics.py.
    """

    # The key in aggregates; the option is [metrics] weight_multiplier.
    option = 'metrics_weight_multiplier'
    columns = ('metrics', 'aggregates')

    def __init__(
        self,
        multiplier: float = 1.0,
        setting: Iterable[str] = (),
        *,
        required: bool = True,
        unavailable: float = -10000.0,
    ) -> None:
        super().__init__(multiplier)
        self.required = required
        self.unavailable = unavailable
        setting = tuple(setting)
        self._ratios = metrics.ratios(setting)
        self._ignored = metrics.invalid_ratios(setting)
        self._numbers = PerValue[str | None](
            self._numbers_in, np.float64, (len(self._ratios),)
        )

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        group = conf.metrics
        return cls(
            group.weight_multiplier,
            group.weight_setting,
            required=group.required,
            unavailable=group.weight_of_unavailable,
        )

    def _numbers_in(self, reported: Any) -> list[float]:
        """Return the metrics of a host, one number for each ratio."""
        found = {metric.name: metric.value for metric in metrics.reported(reported)}
        return [_number(found.get(name, ABSENT)) for name, _ in self._ratios]

    def weigh(self, hosts: HostTable, request: RequestSpec) -> Floats:
        raw = np.zeros(len(hosts))
        if not self._ratios:
            return raw
        numbers = self._numbers.of(hosts.metrics)
        multipliers = self.effective_multipliers(hosts)
        counts = np.ones(len(hosts), bool)
        for (name, ratio), column in zip(self._ratios, numbers.T, strict=True):
            absent = np.isnan(column)
            if self.required and absent.any():
                lacking = hosts[absent].state(0)
                raise errors.MetricNotFound(name, lacking.host, lacking.nodename)
            if (column[counts] == WITHOUT_NUMBER).any():
                raise TypeError(f'metric {name} is not one number')
            raw += np.where(absent, 0.0, column * ratio)
            # inf times 0 is no number, so a host with that multiplier lacks it
            counts &= ~(absent & (ratio * multipliers != 0))
        return np.where(counts, raw, self.unavailable)

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterator[PluginWarning]:
        """Yield what of the option is ignored, and odd multipliers."""
        yield from warnings.setting_warnings('metrics.weight_setting', self._ignored)
        yield from super().config_warnings(groups)


def _number(value: float | None) -> float:
    return WITHOUT_NUMBER if value is None else float(value)
