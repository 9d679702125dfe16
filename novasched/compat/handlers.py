# SPDX-License-Identifier: Apache-2.0
"""Nova's handlers, for plugins that load and run filters and weighers themselves."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from novasched.compat import plugin_adapter
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.hosts import HostState
from novasched.scheduler.weighers import (
    BaseHostWeigher,
    WeighedHost,
    Weigher,
    normalize,
    numbers,
)


def _matching(paths: Iterable[str], base: type) -> list[type]:
    return [cls for path in paths for cls in plugin_adapter.at(path, base).values()]


class HostFilterHandler:
    """Finds filters, and runs those that it is given. Nova: filters.py."""

    def get_matching_classes(self, loadable_class_names: Iterable[str]) -> list[type]:
        """Return what dotted paths name. Raises errors.ClassNotFound."""
        return _matching(loadable_class_names, BaseHostFilter)

    def get_filtered_objects(
        self,
        filters: Iterable[BaseHostFilter],
        objs: Iterable[HostState],
        spec_obj: RequestSpec,
        index: int = 0,
    ) -> list[HostState] | None:
        """Return the hosts that pass; None if a filter says to stop filtering."""
        hosts = list(objs)
        for each in filters:
            if each.run_filter_for_index(index):
                passed = each.filter_all(hosts, spec_obj)
                if passed is None:
                    return None
                hosts = list(passed)
                if not hosts:
                    break
        return hosts


class HostWeightHandler:
    """Finds weighers, and asks those that it is given. Nova: weights.py."""

    def get_matching_classes(self, loadable_class_names: Iterable[str]) -> list[type]:
        """Return what dotted paths name. Raises errors.ClassNotFound."""
        return _matching(loadable_class_names, BaseHostWeigher)

    def get_weighed_objects(
        self,
        weighers: Iterable[Weigher],
        obj_list: Iterable[HostState],
        weighing_properties: RequestSpec,
    ) -> Sequence[WeighedHost]:
        """Return the hosts with the sums of their weights, the best one first."""
        weighed = [WeighedHost(host) for host in obj_list]
        if len(weighed) < 2:
            return weighed
        for each in weighers:
            raw = numbers(each.weigh_objects(weighed, weighing_properties))
            scaled = normalize(raw, each.minval, each.maxval).tolist()
            for host, weight in zip(weighed, scaled, strict=False):
                host.weight += each.weight_multiplier(host.obj) * weight
        return sorted(weighed, key=lambda host: host.weight, reverse=True)
