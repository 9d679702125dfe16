# SPDX-License-Identifier: Apache-2.0
"""Filter out hosts that do not report the metrics by which hosts are weighed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import metrics, warnings
from novasched.scheduler.aggregates import Aggregates
from novasched.scheduler.columns import PerValue
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason
from novasched.scheduler.warnings import PluginWarning


class MetricsFilter(ColumnFilter):
    """Pass hosts that report every metric in ``[metrics] weight_setting``.

    Raises ValueError if a host reports something that is no metric, TypeError if
    one never reported anything. Nova: scheduler/filters/metrics_filter.py.
    """

    reads_aggregates = False
    codes = (Code.METRIC_MISSING,)

    def __init__(self, names: Iterable[str] = (), ignored: Sequence[str] = ()) -> None:
        self.names = frozenset(names)
        self.ignored = ignored
        self._lacking: PerValue[str | None] = PerValue(
            lambda said: bool(self.names - {m.name for m in metrics.reported(said)}),
            bool,
        )

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        setting = conf.metrics.weight_setting
        names = (name for name, _ in metrics.ratios(setting))
        return cls(names, metrics.invalid_ratios(setting))

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        if None in hosts.uuid.tolist():
            raise TypeError('a host never reported its metrics')
        if not self.names:
            return np.ones(len(hosts), bool)
        lacking: Mask = self._lacking.of(hosts.metrics)
        return ~lacking

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        missing = ', '.join(sorted(self.names - {m.name for m in host.metrics}))
        return Reason(Code.METRIC_MISSING, f'does not report {missing}')

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterable[PluginWarning]:
        """Yield what of the option is ignored."""
        return warnings.setting_warnings('metrics.weight_setting', self.ignored)
