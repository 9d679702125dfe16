# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the metadata of their aggregates and the image's properties."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.image_meta import ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, warnings
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import REJECTED, Code, Reason
from novasched.scheduler.warnings import PluginWarning

_DEPRECATED: Any = {
    'deprecated_group': 'DEFAULT',
    'deprecated_for_removal': True,
    'deprecated_since': '33.0.0',
    'deprecated_reason': 'Only the properties of images that are known can be '
    'compared, and few of their names start alike. See [scheduler] '
    'enable_isolated_aggregate_filtering.',
}
OPTS = {
    'filter_scheduler': [
        cfg.StrOpt(
            'aggregate_image_properties_isolation_namespace',
            help='AggregateImagePropertiesIsolation looks only at metadata whose key '
            'starts with this and the separator. Unset: at all.',
            **_DEPRECATED,
        ),
        cfg.StrOpt(
            'aggregate_image_properties_isolation_separator',
            default='.',
            help='What stands between the namespace and the rest of the key.',
            **_DEPRECATED,
        ),
    ]
}


_NAMESPACE_IS_OF_NO_USE = (
    'It is no longer possible to filter on arbitrary image metadata properties, which '
    "includes standard properties prefixed with '[filter_scheduler] "
    "aggregate_image_properties_isolation_namespace'. You should unset this option "
    'and consider using the isolated aggregate filtering feature instead. See '
    "'[scheduler] enable_isolated_aggregate_filtering' for more information."
)


class AggregateImagePropertiesIsolation(ColumnFilter):
    """Pass hosts whose aggregates are not for images with other properties.

    Metadata whose key is the name of an image property lists the values that are
    welcome. An image without the property, or with a false one, goes anywhere.
    Nova: scheduler/filters/aggregate_image_properties_isolation.py.
    """

    codes = (Code.IMAGE_PROPERTY_DIFFERS, Code.REJECTED)
    RUN_ON_REBUILD = True
    run_filter_once_per_request = True

    def __init__(self, namespace: str | None = None, separator: str = '.') -> None:
        self.prefix = namespace + separator if namespace else ''

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        group = conf.filter_scheduler
        return cls(
            group.aggregate_image_properties_isolation_namespace,
            group.aggregate_image_properties_isolation_separator,
        )

    def _wanted(self, request: RequestSpec) -> dict[str, str]:
        """Return the properties of the image that count, as text."""
        image = request.image_properties
        found = {name: image.get(name) for name in ImageMetaProps.fields}
        return {
            name: str(value)
            for name, value in found.items()
            if value and name.startswith(self.prefix)
        }

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = self._wanted(request)
        if not wanted:
            return np.ones(len(hosts), bool)
        return hosts.aggregates.map(lambda a: _difference(a, wanted) is None)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        return _difference(host.aggregates, self._wanted(request)) or REJECTED

    def config_warnings(
        self, groups: Sequence[aggregates.Aggregates]
    ) -> Iterator[PluginWarning]:
        """Yield that the namespace is of no use, and which keys are no properties."""
        if self.prefix:
            yield PluginWarning(_NAMESPACE_IS_OF_NO_USE)
        for aggregate in warnings.members(groups):
            for key in sorted(aggregate.metadata):
                if key.startswith(self.prefix) and key not in ImageMetaProps.fields:
                    yield PluginWarning(
                        f"Aggregate '{aggregate.name}' has a metadata key '{key}' that "
                        'is not present in the image metadata.'
                    )


def _difference(
    host_aggregates: aggregates.Aggregates, wanted: dict[str, str]
) -> Reason | None:
    """Return the first property that the aggregates want otherwise."""
    for name, welcome in aggregates.metadata(host_aggregates).items():
        if name in wanted and wanted[name] not in welcome:
            values = ', '.join(sorted(welcome))
            text = f'for images with {name} {values}, not {wanted[name]}'
            return Reason(Code.IMAGE_PROPERTY_DIFFERS, text)
    return None
