# SPDX-License-Identifier: Apache-2.0
"""Import shim: modules under nova's names, for plugins that import them.

It supplies what the contract of plugins names, and our built-ins, even where nova is
installed: that knows nothing of our configuration and hosts. The oslo libraries are
supplied under the names that old plugins import them by, too.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from novasched import objects
from novasched.compat import (
    availability_zones,
    nova_functions,
    plugin_adapter,
    real_nova,
)
from novasched.compat.legacy_driver import Scheduler
from novasched.compat.nova_exceptions import EXCEPTIONS
from novasched.objects.base import NovaObjectRegistry
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler import aggregates, weighers
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.legacy.removed import others
from novasched.scheduler.hosts import HostState
from novasched.scheduler.weighers import BaseHostWeigher, WeighedHost, Weigher, numbers

LOG = logging.getLogger(__name__)

NOVA, OSLO = 'nova', 'oslo'
COMMON = 'nova.openstack.common'
EXCEPTION = 'nova.exception'
FILTERS, WEIGHTS = 'nova.scheduler.filters', 'nova.scheduler.weights'
OURS = {
    FILTERS: ('novasched.scheduler.filters', 'novasched.scheduler.filters.legacy'),
    WEIGHTS: ('novasched.scheduler.weighers',),
    'nova.objects': ('novasched.objects',),
}


RENAMED: dict[str, tuple[str, ...]] = {
    f'{FILTERS}.legacy': (),  # a package of ours only
    'nova.objects.aggregate': ('novasched.objects.compute_node',),
    'nova.objects.fields': ('oslo_versionedobjects.fields',),
    f'{COMMON}.jsonutils': ('oslo_serialization.jsonutils',),
    f'{COMMON}.log': ('oslo_log.log',),
    f'{COMMON}.timeutils': ('oslo_utils.timeutils',),
}
"""By module of nova, ours that stand for it. Filters and weighers follow."""
for _package, _ours, _stems in (
    (FILTERS, 'scheduler.filters.affinity', 'affinity_filter'),
    (FILTERS, 'scheduler.extra_specs', 'extra_specs_ops'),
    (FILTERS, 'scheduler.filters.json_query', 'json_filter'),
    (FILTERS, 'external.attestation', 'trusted_filter'),
    (FILTERS, 'scheduler.filters.compute', 'all_hosts_filter'),
    (FILTERS, 'scheduler.filters.host_limit', 'io_ops_filter num_instances_filter'),
    (
        FILTERS,
        'scheduler.filters.aggregate',
        'type_filter aggregate_image_properties_isolation '
        'aggregate_instance_extra_specs aggregate_multitenancy_isolation',
    ),
    (
        FILTERS,
        'scheduler.filters.legacy.own',
        'dedicated_cloud_filter local_disk_filter vgpu_filter',
    ),
    (
        FILTERS,
        'scheduler.filters.legacy.removed',
        'type_filter availability_zone_filter retry_filter',
    ),
    (
        FILTERS,
        'scheduler.filters.legacy.overcommit',
        'core_filter disk_filter ram_filter '
        'exact_core_filter exact_disk_filter exact_ram_filter',
    ),
    (
        WEIGHTS,
        'scheduler.weighers.resources',
        'compute cpu cross_cell disk hypervisor_version io_ops num_instances pci ram',
    ),
):
    for _stem in _stems.split():
        _name = f'{_package}.{_stem}'
        RENAMED[_name] = (*RENAMED.get(_name, ()), f'novasched.{_ours}')

Classes = Callable[[], list[type]]

INSTEAD = {
    'nova.scheduler.utils.claim_': 'novasched claims what a request takes',
    'nova.scheduler.utils.resources_': 'host_state.allocation_candidates has them',
    'nova.scheduler.utils.setup_instance_group': 'spec_obj.instance_group has its '
    'hosts',
    'nova.exception.': 'nova.exception.NovaException and its families are there',
}
"""What serves instead of names that begin so."""


def _missing(name: str) -> str:
    """Return a line on a name that is not there, and on what would help."""
    default = 'it is there with [novasched] plugins_use_nova, where nova is installed'
    found = (text for start, text in INSTEAD.items() if name.startswith(start))
    return f'novasched lends plugins no {name}: {next(found, default)}'


class FilterScheduler:
    """Stands for nova's driver, which plugins may name but not derive from."""

    def __init_subclass__(cls) -> None:
        raise TypeError(
            'novasched serves no subclasses of FilterScheduler: derive '
            f'{cls.__name__} from nova.scheduler.driver.Scheduler'
        )


class CandidateFilterMixin:
    """Lets a filter drop allocation candidates of a host."""

    def filter_candidates(
        self, host_state: HostState, filter_func: Callable[[Any], bool]
    ) -> list[Any]:
        """Leave the host the candidates that pass, and return them."""
        name, kept = type(self).__name__, []
        for candidate in host_state.allocation_candidates:
            LOG.debug('%s tries allocation candidate: %s', name, candidate)
            passes = filter_func(candidate)
            verb = 'accepted' if passes else 'rejected'
            LOG.debug('%s %s allocation candidate: %s', name, verb, candidate)
            if passes:
                kept.append(candidate)
        host_state.allocation_candidates = kept
        return kept


class _Handler:
    """Finds and runs filters or weighers for plugins that do so themselves."""

    base: type
    get_all_classes: Classes

    def get_matching_classes(self, loadable_class_names: Iterable[str]) -> list[type]:
        """Return the objects that dotted paths name. Raises errors.ClassNotFound."""
        return [
            cls
            for path in loadable_class_names
            for cls in plugin_adapter.classes_at(path, self.base).values()
        ]


class HostFilterHandler(_Handler):
    """Runs the filters that it is given. Nova: filters.py."""

    base = BaseHostFilter

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


class HostWeightHandler(_Handler):
    """Asks the weighers that it is given. Nova: weights.py."""

    base = BaseHostWeigher

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
            raw = each.weigh_objects(weighed, weighing_properties)
            scaled = normalize(raw, each.minval, each.maxval)
            for host, weight in zip(weighed, scaled, strict=False):
                host.weight += each.weight_multiplier(host.obj) * weight
        return sorted(weighed, key=lambda host: host.weight, reverse=True)


def validate_num_values(
    vals: set[str],
    default: Any = None,
    cast_to: Callable[[str], Any] = int,
    based_on: Callable[[Iterable[Any]], Any] = min,
) -> Any:
    """Return the smallest of some values, or the default if there is none.

    Raises ValueError where one is no number.
    """
    if len(vals) > 1:
        LOG.info('%d values found, of which the minimum value will be used.', len(vals))
    return based_on([cast_to(value) for value in vals]) if vals else default


def get_weight_multiplier(
    host_state: HostState, multiplier_name: str, multiplier_config: float
) -> float:
    values = aggregate_values_from_key(host_state, multiplier_name)
    return aggregates.lowest(values, float, multiplier_config)


def aggregate_values_from_key(host_state: HostState, key_name: str) -> set[str]:
    return aggregates.values(host_state.aggregates, key_name)


def aggregate_metadata_get_by_host(
    host_state: HostState, key: str | None = None
) -> dict[str, set[str]]:
    return aggregates.metadata(host_state.aggregates, key)


def instance_uuids_overlap(host_state: HostState, uuids: str | Iterable[str]) -> bool:
    uuids = [uuids] if isinstance(uuids, str) else uuids
    return not set(uuids).isdisjoint(host_state.instances)


def other_types_on_host(host_state: HostState, instance_type_id: int) -> bool:
    return bool(others(host_state.instances, instance_type_id))


def normalize(
    weight_list: Iterable[float],
    minval: float | None = None,
    maxval: float | None = None,
) -> list[float]:
    weights = weighers.normalize(numbers(weight_list), minval, maxval)
    return [float(weight) for weight in weights]


def _as_is(text: str, user_locale: str | None = None) -> str:
    return text


def _knowing(handler: type, found: Classes) -> type:
    """Return a handler that also knows all that are installed."""
    return type(handler.__name__, (handler,), {'get_all_classes': staticmethod(found)})


def _knows(found: Classes) -> Callable[[str], bool]:
    """Return whether a name or dotted path is of one of the classes."""
    return lambda path: path.rpartition('.')[2] in {each.__name__ for each in found()}


def _objects() -> dict[str, Any]:
    """Return the objects of nova that there are, by name."""
    for each in pkgutil.iter_modules(objects.__path__):
        importlib.import_module(f'{objects.__name__}.{each.name}')
    known: dict[str, list[Any]] = NovaObjectRegistry.obj_classes()
    return {name: classes[0] for name, classes in known.items()}


def _named(*things: Any) -> dict[str, Any]:
    """Return classes and functions by the names that nova has for them."""
    return {thing.__name__: thing for thing in things}


def _contents(
    conf: Any, all_filters: Classes, all_weighers: Classes
) -> dict[str, dict[str, Any]]:
    """Return the objects of the modules that are more than built-ins."""
    filter_handler = _knowing(HostFilterHandler, all_filters)
    weight_handler = _knowing(HostWeightHandler, all_weighers)
    translations = dict.fromkeys(('_', '_LC', '_LE', '_LI', '_LW'), _as_is)
    return {
        'nova': {},
        'nova.conf': {'CONF': conf},
        'nova.availability_zones': availability_zones.functions(conf),
        'nova.context': _named(RequestContext, *nova_functions.CONTEXT),
        EXCEPTION: EXCEPTIONS,
        'nova.filters': {
            'BaseFilter': BaseHostFilter,
            'BaseFilterHandler': filter_handler,
        },
        'nova.i18n': {
            **translations,
            'DOMAIN': NOVA,
            'get_available_languages': lambda: ['en_US'],
            'translate': _as_is,
        },
        'nova.loadables': {'BaseLoader': _Handler},
        'nova.objects': _objects(),
        'nova.objects.fields': nova_functions.WORDS,
        'nova.utils': {
            **_named(*nova_functions.UTILS),
            'synchronized': nova_functions.synchronized,
        },
        'nova.openstack': {},
        COMMON: {},
        f'{COMMON}.gettextutils': translations,
        'nova.scheduler': {},
        'nova.scheduler.driver': _named(Scheduler),
        'nova.scheduler.filter_scheduler': _named(FilterScheduler),
        'nova.scheduler.host_manager': _named(HostState),
        FILTERS: {
            **_named(BaseHostFilter, CandidateFilterMixin, filter_handler),
            'all_filters': all_filters,
            'standard_filters': all_filters,
        },
        f'{FILTERS}.utils': _named(
            aggregate_metadata_get_by_host,
            aggregate_values_from_key,
            instance_uuids_overlap,
            other_types_on_host,
            validate_num_values,
        ),
        'nova.scheduler.utils': {
            **_named(get_weight_multiplier, *nova_functions.SCHEDULER_UTILS),
            'validate_filter': _knows(all_filters),
            'validate_weigher': _knows(all_weighers),
        },
        WEIGHTS: {
            **_named(BaseHostWeigher, WeighedHost, weight_handler),
            'all_weighers': all_weighers,
        },
        'nova.weights': {
            'BaseWeigher': BaseHostWeigher,
            'BaseWeightHandler': weight_handler,
            'WeighedObject': WeighedHost,
            'normalize': normalize,
        },
        OSLO: {},
    }


def _built_ins(name: str) -> tuple[str, ...]:
    """Return our modules that supply the names of a nova or old oslo module."""
    package, _, stem = name.rpartition('.')
    if name.startswith(f'{OSLO}.'):
        ours = [name.replace('.', '_', 1)]
    elif name in RENAMED or package not in OURS:
        return RENAMED.get(name, ())
    else:
        ours = [f'{each}.{stem.removesuffix("_filter")}' for each in OURS[package]]
    return tuple(each for each in ours if importlib.util.find_spec(each))


class NovaImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of nova, and refuses all others of its namespace."""

    def __init__(self, conf: Any, contents: Mapping[str, dict[str, Any]]) -> None:
        self.conf = conf
        self.beside = real_nova.is_wanted(conf)
        self._contents = contents

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = fullname.partition('.')[0]
        if top not in (NOVA, OSLO):
            return None
        if self.beside and top == NOVA and not real_nova.replaces(fullname):
            return None
        if fullname in self._contents or _built_ins(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        # Without a name: "from package import" would say less if it knew it.
        raise ModuleNotFoundError(_missing(fullname))

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        for ours in _built_ins(name):
            found = vars(importlib.import_module(ours))
            vars(module).update({k: found[k] for k in found if not k.startswith('__')})
        vars(module).update(self._contents.get(name, {}))

        def missing(attribute: str) -> Any:
            raise AttributeError(_missing(f'{name}.{attribute}'))

        vars(module)['__getattr__'] = missing


def install(conf: Any, all_filters: Classes, all_weighers: Classes) -> None:
    """Let plugins import nova from now on.

    ``conf`` is what they find as nova.conf.CONF; of several the last holds for what
    is imported after it. A process that imported the real nova before keeps that. With
    [novasched] plugins_use_nova it is started here; raises errors.OptionError.
    """
    installed = [each for each in sys.meta_path if isinstance(each, NovaImporter)]
    beside, nova = real_nova.is_wanted(conf), sys.modules.get(NOVA)
    is_left_alone = nova is not None and not _is_ours(nova) and not beside
    if any(each.conf is conf for each in installed) or is_left_alone:
        return
    for finder in installed:
        sys.meta_path.remove(finder)
    _forget()
    contents = _contents(conf, all_filters, all_weighers)
    sys.meta_path.insert(0, NovaImporter(conf, contents))
    if beside:
        real_nova.start(conf)


def _forget() -> None:
    for name, module in list(sys.modules.items()):
        if name.partition('.')[0] == NOVA and _is_ours(module):
            del sys.modules[name]


def _is_ours(module: ModuleType) -> bool:
    return isinstance(module.__loader__, NovaImporter)
