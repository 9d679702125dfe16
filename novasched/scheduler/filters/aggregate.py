# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by the metadata of their aggregates."""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from oslo_config import cfg

from novasched.objects.image_meta import ImageMetaProps
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release
from novasched.scheduler import aggregates, extra_specs, warnings
from novasched.scheduler.aggregates import Aggregates
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
    explained_by = ('aggregates',)
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

    def config_warnings(self, groups: Sequence[Aggregates]) -> Iterator[PluginWarning]:
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


def _difference(host_aggregates: Aggregates, wanted: dict[str, str]) -> Reason | None:
    """Return the first property that the aggregates want otherwise."""
    for name, welcome in aggregates.metadata(host_aggregates).items():
        if name in wanted and wanted[name] not in welcome:
            values = ', '.join(sorted(welcome))
            text = f'for images with {name} {values}, not {wanted[name]}'
            return Reason(Code.IMAGE_PROPERTY_DIFFERS, text)
    return None


SCOPE = 'aggregate_instance_extra_specs'
TENANT_KEY = 'filter_tenant_id'


def scoped(request: RequestSpec) -> list[tuple[str, str]]:
    """Return the extra specs without a scope or with this filter's, unscoped."""
    found = []
    for key, requirement in request.extra_specs.items():
        scope, colon, name = key.partition(':')
        if not colon:
            found.append((key, requirement))
        elif scope == SCOPE:
            found.append((name, requirement))
    return found


class AggregateInstanceExtraSpecsFilter(ColumnFilter):
    """Pass hosts whose aggregates satisfy every extra spec that is meant for them.

    These have no scope, or the scope ``aggregate_instance_extra_specs``. An extra spec
    is a value or an operator and a value, as in ``>= 4`` or ``<or> fast <or> slow``.
    Comma-separated values, and values of several aggregates, are alternatives. Raises
    ValueError if an operator on numbers meets text. Nova:
    scheduler/filters/aggregate_instance_extra_specs.py.
    """

    codes = (Code.EXTRA_SPEC_MISSING, Code.EXTRA_SPEC_DIFFERS, Code.REJECTED)
    explained_by = ('aggregates',)
    run_filter_once_per_request = True

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = scoped(request)
        if not wanted:
            return np.ones(len(hosts), bool)
        return hosts.aggregates.map(lambda a: not any(self._failures(a, wanted)))

    def _failures(
        self, host_aggregates: Aggregates, wanted: list[tuple[str, str]]
    ) -> Iterator[Reason]:
        offered = aggregates.metadata(host_aggregates)
        for name, requirement in wanted:
            values = sorted(offered.get(name, ()))
            if not values:
                text = f'extra spec {name} is not in an aggregate'
                yield Reason(Code.EXTRA_SPEC_MISSING, text)
            elif not any(extra_specs.match(value, requirement) for value in values):
                text = f'{name} is {", ".join(values)}, not {requirement}'
                yield Reason(Code.EXTRA_SPEC_DIFFERS, text)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        return next(self._failures(host.aggregates, scoped(request)), REJECTED)


class ReservedHosts(ColumnFilter):
    """Pass hosts whose aggregates name what the request has, or name nothing.

    ``named`` is the word for what they name.
    """

    named: ClassVar[str]
    run_filter_once_per_request = True

    @abc.abstractmethod
    def reserved_for(self, host_aggregates: Aggregates) -> set[str]:
        """Return the purposes of the aggregates of a host; empty: for all."""

    @abc.abstractmethod
    def wanted(self, request: RequestSpec) -> str | None:
        """Return the constraint."""

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        wanted = self.wanted(request)

        def welcome(host_aggregates: Aggregates) -> bool:
            found = self.reserved_for(host_aggregates)
            return not found or wanted in found

        return hosts.aggregates.map(welcome)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        found = ', '.join(sorted(self.reserved_for(host.aggregates)))
        reserving = [each for each in host.aggregates if self.reserved_for([each])]
        names = ', '.join(each.name or str(each.id) for each in reserving)
        are = f'aggregate {names} is' if len(reserving) == 1 else f'{names} are'
        text = f'{are} for {self.named} {found}, not {self.wanted(request)}'
        return Reason(self.codes[0], text)


class AggregateMultiTenancyIsolation(ReservedHosts):
    """Pass hosts whose aggregates are for the project, or for no project at all.

    Projects stand in metadata under every key that starts with ``filter_tenant_id``,
    separated by commas; before nova 30 under that one key alone. Nova:
    scheduler/filters/aggregate_multitenancy_isolation.py.
    """

    codes = (Code.PROJECT_NOT_ALLOWED,)
    named = 'projects'
    has_suffixes = True

    def of_release(self, release: Release) -> Self:
        found = copy.copy(self)
        found.has_suffixes = release.has_tenant_key_suffixes
        return found

    def reserved_for(self, host_aggregates: Aggregates) -> set[str]:
        found = aggregates.metadata(host_aggregates).items()
        counts = str.startswith if self.has_suffixes else str.__eq__
        return set().union(*(each for key, each in found if counts(key, TENANT_KEY)))

    def wanted(self, request: RequestSpec) -> str | None:
        return request.project_id


class AggregateTypeAffinityFilter(ReservedHosts):
    """Pass hosts whose aggregates are for the flavor, or for no flavor at all.

    Names of flavors stand in metadata ``instance_type``, separated by commas. Nova:
    scheduler/filters/type_filter.py.
    """

    codes = (Code.FLAVOR_NOT_ALLOWED,)
    named = 'flavors'

    def reserved_for(self, host_aggregates: Aggregates) -> set[str]:
        values = aggregates.values(host_aggregates, 'instance_type')
        return {name.strip() for value in values for name in value.split(',')}

    def wanted(self, request: RequestSpec) -> str | None:
        return request.flavor.name
