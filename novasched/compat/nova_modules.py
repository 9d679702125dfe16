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
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from novasched import errors
from novasched.compat import handlers
from novasched.compat.legacy_driver import Scheduler
from novasched.objects import context
from novasched.objects.context import RequestContext
from novasched.objects.selection import Selection
from novasched.scheduler import aggregates
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.filters.legacy.type_affinity import others
from novasched.scheduler.hosts import HostState
from novasched.scheduler.weighers import (
    BaseHostWeigher,
    WeighedHost,
    normalize,
    numbers,
)

LOG = logging.getLogger(__name__)

NOVA, OSLO = 'nova', 'oslo'
COMMON = 'nova.openstack.common'
EXCEPTION = 'nova.exception'
FILTERS, WEIGHTS = 'nova.scheduler.filters', 'nova.scheduler.weights'
OURS = {
    FILTERS: ('novasched.scheduler.filters', 'novasched.scheduler.filters.legacy'),
    WEIGHTS: ('novasched.scheduler.weighers',),
}
RENAMED: dict[str, tuple[str, ...]] = {
    f'{FILTERS}.affinity_filter': (
        'novasched.scheduler.filters.affinity',
        'novasched.scheduler.filters.legacy.group_affinity',
    ),
    f'{FILTERS}.exact_core_filter': ('novasched.scheduler.filters.legacy.exact',),
    f'{FILTERS}.exact_disk_filter': ('novasched.scheduler.filters.legacy.exact',),
    f'{FILTERS}.exact_ram_filter': ('novasched.scheduler.filters.legacy.exact',),
    f'{FILTERS}.extra_specs_ops': ('novasched.scheduler.extra_specs',),
    f'{FILTERS}.legacy': (),  # a package of ours only
    f'{FILTERS}.json_filter': ('novasched.scheduler.filters.json_query',),
    f'{FILTERS}.trusted_filter': ('novasched.attestation.trusted',),
    f'{FILTERS}.type_filter': (
        'novasched.scheduler.filters.aggregate_type_affinity',
        'novasched.scheduler.filters.legacy.type_affinity',
    ),
    f'{WEIGHTS}.compute': ('novasched.scheduler.weighers.build_failures',),
    f'{COMMON}.jsonutils': ('oslo_serialization.jsonutils',),
    f'{COMMON}.log': ('oslo_log.log',),
    f'{COMMON}.timeutils': ('oslo_utils.timeutils',),
}
Classes = Callable[[], list[type]]


class NovaException(Exception):
    """Base of the errors of nova, and of those that plugins have of their own.

    A subclass has a text ``msg_fmt`` for the keywords that it is made with.
    """

    __module__ = EXCEPTION
    msg_fmt = 'An unknown exception occurred.'
    code = 500

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        self.kwargs = {'code': self.code, **kwargs}
        try:
            self.message = message or self.msg_fmt % self.kwargs
        except KeyError:
            self.message = self.msg_fmt
        super().__init__(self.message)

    def __str__(self) -> str:
        return self.message

    def format_message(self) -> str:
        """Return the text."""
        return self.message


class NoValidHost(NovaException, errors.NoValidHost):
    """No host can take the request; made as nova's is."""

    __module__ = EXCEPTION
    msg_fmt = 'No valid host was found. %(reason)s'

    def __init__(self, message: str | None = None, **kwargs: Any) -> None:
        super().__init__(message, **kwargs)
        self.reason = kwargs.get('reason', message or '')


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
            if filter_func(candidate):
                LOG.debug('%s accepted allocation candidate: %s', name, candidate)
                kept.append(candidate)
            else:
                LOG.debug('%s rejected allocation candidate: %s', name, candidate)
        host_state.allocation_candidates = kept
        return kept


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


def _get_weight_multiplier(
    host_state: HostState, multiplier_name: str, multiplier_config: float
) -> float:
    values = _values(host_state, multiplier_name)
    return aggregates.lowest(values, float, multiplier_config)


def _instance_uuids_overlap(host_state: HostState, uuids: str | Iterable[str]) -> bool:
    uuids = [uuids] if isinstance(uuids, str) else uuids
    return not set(uuids).isdisjoint(host_state.instances)


def _other_types_on_host(host_state: HostState, instance_type_id: int) -> bool:
    return bool(others(host_state.instances, instance_type_id))


def _normalize(
    weight_list: Sequence[float],
    minval: float | None = None,
    maxval: float | None = None,
) -> list[float]:
    found: list[float] = normalize(numbers(weight_list), minval, maxval).tolist()
    return found


def _as_is(text: str) -> str:
    return text


def _admin_context(read_deleted: str = 'no') -> RequestContext:
    return context.admin()


def _knowing(handler: type, found: Classes) -> type:
    """Return a handler that also knows all that are installed."""
    namespace = {'get_all_classes': lambda self: found()}
    return type(handler.__name__, (handler,), namespace)


def _contents(
    conf: Any, all_filters: Classes, all_weighers: Classes
) -> dict[str, dict[str, Any]]:
    """Return what the modules hold that are more than built-ins."""
    filters = {'BaseFilter': BaseHostFilter}
    weighers = {
        'BaseWeigher': BaseHostWeigher,
        'WeighedObject': WeighedHost,
        'normalize': _normalize,
    }
    translations = dict.fromkeys(('_', '_LC', '_LE', '_LI', '_LW'), _as_is)
    return {
        'nova': {},
        'nova.conf': {'CONF': conf},
        'nova.context': {
            'RequestContext': RequestContext,
            'get_admin_context': _admin_context,
        },
        EXCEPTION: {'NoValidHost': NoValidHost, 'NovaException': NovaException},
        'nova.filters': filters,
        'nova.i18n': translations,
        'nova.objects': {'Selection': Selection},
        'nova.openstack': {},
        COMMON: {},
        f'{COMMON}.gettextutils': translations,
        'nova.scheduler': {},
        'nova.scheduler.driver': {'Scheduler': Scheduler},
        'nova.scheduler.filter_scheduler': {'FilterScheduler': FilterScheduler},
        'nova.scheduler.host_manager': {'HostState': HostState},
        FILTERS: {
            'BaseHostFilter': BaseHostFilter,
            'CandidateFilterMixin': CandidateFilterMixin,
            'HostFilterHandler': _knowing(handlers.HostFilterHandler, all_filters),
            'all_filters': all_filters,
            'standard_filters': all_filters,
        },
        f'{FILTERS}.utils': {
            'aggregate_metadata_get_by_host': _metadata,
            'aggregate_values_from_key': _values,
            'instance_uuids_overlap': _instance_uuids_overlap,
            'other_types_on_host': _other_types_on_host,
            'validate_num_values': validate_num_values,
        },
        'nova.scheduler.utils': {'get_weight_multiplier': _get_weight_multiplier},
        WEIGHTS: {
            'BaseHostWeigher': BaseHostWeigher,
            'HostWeightHandler': _knowing(handlers.HostWeightHandler, all_weighers),
            'WeighedHost': WeighedHost,
            'all_weighers': all_weighers,
        },
        'nova.weights': weighers,
        OSLO: {},
    }


def _values(host_state: HostState, key_name: str) -> set[str]:
    return aggregates.values(host_state.aggregates, key_name)


def _metadata(host_state: HostState, key: str | None = None) -> dict[str, set[str]]:
    return aggregates.metadata(host_state.aggregates, key)


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
        self._contents = contents

    def find_spec(
        self, fullname: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        top = fullname.partition('.')[0]
        if top not in (NOVA, OSLO):
            return None
        if fullname in self._contents or _built_ins(fullname):
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        # Without a name: "from package import" would say less if it knew it.
        raise ModuleNotFoundError(f'novasched lends plugins no {fullname}')

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        for ours in _built_ins(name):
            vars(module).update(
                (key, value)
                for key, value in vars(importlib.import_module(ours)).items()
                if not key.startswith('__')
            )
        vars(module).update(self._contents.get(name, {}))

        def missing(attribute: str) -> Any:
            raise AttributeError(f'novasched lends plugins no {name}.{attribute}')

        vars(module)['__getattr__'] = missing


def install(conf: Any, all_filters: Classes, all_weighers: Classes) -> None:
    """Let plugins import nova from now on.

    ``conf`` is what they find as nova.conf.CONF; of several the last holds for what
    is imported after it. A process that imported the real nova before keeps that.
    """
    installed = [each for each in sys.meta_path if isinstance(each, NovaImporter)]
    if any(each.conf is conf for each in installed) or _is_real(sys.modules.get(NOVA)):
        return
    for finder in installed:
        sys.meta_path.remove(finder)
    for name in [each for each in sys.modules if each.partition('.')[0] == NOVA]:
        del sys.modules[name]
    contents = _contents(conf, all_filters, all_weighers)
    sys.meta_path.insert(0, NovaImporter(conf, contents))


def _is_real(nova: ModuleType | None) -> bool:
    return nova is not None and not isinstance(nova.__loader__, NovaImporter)
