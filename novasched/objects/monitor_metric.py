# SPDX-License-Identifier: Apache-2.0
"""The metrics that a compute reports, as plugins read them on a host."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Iterable
from typing import Any, Self

from oslo_versionedobjects import base as ovo

from novasched.objects import fields
from novasched.objects.base import NovaObject, NovaObjectList, NovaObjectRegistry
from novasched.parsing import parse_json

FRACTIONS = frozenset(
    {
        'cpu.user.percent',
        'cpu.kernel.percent',
        'cpu.idle.percent',
        'cpu.iowait.percent',
        'cpu.percent',
    }
)
NAMES = FRACTIONS | {
    'cpu.frequency',
    'cpu.user.time',
    'cpu.kernel.time',
    'cpu.idle.time',
    'cpu.iowait.time',
    'numa.membw.max',
    'numa.membw.current',
}
_STAMP = '%Y-%m-%dT%H:%M:%S.%f'


@NovaObjectRegistry.register
class MonitorMetric(ovo.ComparableVersionedObject, NovaObject):
    """One metric of a host. A fraction is kept in percent: 0.35 is 35."""

    VERSION = '1.1'

    name: str = fields.enum(*sorted(NAMES))
    value: int = fields.integer()
    numa_membw_values: dict[str, int] | None = fields.integer_dict(nullable=True)
    timestamp: datetime.datetime = fields.timestamp()
    source: str = fields.string()

    def to_dict(self) -> dict[str, Any]:
        """Return the metric as the compute reported it."""
        values = self.set_fields()
        if 'timestamp' in values:
            values['timestamp'] = self.timestamp.strftime(_STAMP)
        if 'value' in values and self.name in FRACTIONS:
            values['value'] = self.value / 100.0
        return values


@NovaObjectRegistry.register
class MonitorMetricList(NovaObjectList[MonitorMetric]):
    """The metrics of a host. It is equal to a list of the same metrics."""

    VERSION = '1.1'

    objects: list[MonitorMetric] = fields.objects_of('MonitorMetric')

    @classmethod
    def from_json(cls, metrics: str | None) -> Self:
        """Read the JSON text that a compute reports; null and empty are no metrics.

        Raises ValueError for a name that is unknown or a value that does not fit.
        """
        made = cls()
        vars(made)['_obj_objects'] = list(map(_metric, _reported(metrics)))
        return made

    def to_list(self) -> list[dict[str, Any]]:
        """Return the metrics as the compute reported them."""
        return [metric.to_dict() for metric in self.objects]

    def append(self, metric: MonitorMetric) -> None:
        self.objects.append(metric)

    def clear(self) -> None:
        self.objects.clear()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Iterable) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def name_and_value(entry: dict[str, Any]) -> tuple[str, int | None]:
    """Return both as a compute reported them; the value is None if it is no single
    number.

    A fraction is read as percent. Raises ValueError for a name that is unknown.
    """
    name = entry['name']
    if name not in NAMES:
        raise ValueError(f'no metric has the name {name}')
    if 'value' not in entry:
        return name, None
    return name, int(entry['value'] * (100 if name in FRACTIONS else 1))


@functools.lru_cache(maxsize=4096)
def _reported(text: str | None) -> tuple[dict[str, Any], ...]:
    """Return the attributes of each metric in a text."""
    return tuple(map(_attributes, parse_json(text))) if text else ()


def _attributes(entry: dict[str, Any]) -> dict[str, Any]:
    name, value = name_and_value(entry)
    known: dict[str, Any] = {
        'name': name,
        'value': value,
        'source': entry.get('source'),
    }
    if stamp := entry.get('timestamp'):
        read = datetime.datetime.fromisoformat(stamp)
        known['timestamp'] = read.replace(tzinfo=datetime.UTC)
    known['numa_membw_values'] = entry.get('numa_membw_values')
    return {f'_obj_{n}': v for n, v in known.items() if v is not None}


def _metric(attributes: dict[str, Any]) -> MonitorMetric:
    """Make a metric; not by its fields, which would take ten times as long."""
    made = MonitorMetric.__new__(MonitorMetric)
    made.__dict__ = {**attributes, '_changed_fields': set(), '_context': None}
    return made
