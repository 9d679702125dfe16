# SPDX-License-Identifier: Apache-2.0
"""Names to classes: stevedore entry points, also by nova's names; dotted paths."""

from __future__ import annotations

import inspect
import pkgutil
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import stevedore
from oslo_config import cfg

from novasched import errors
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers import BaseHostWeigher, Weigher


class _Kind(NamedTuple):
    """Where plugins of a kind are found, and what those for nova are lent."""

    namespace: str
    novas: str
    base: type


FILTERS = _Kind(
    'novasched.scheduler.filters', 'nova.scheduler.filters.', BaseHostFilter
)
WEIGHERS = _Kind(
    'novasched.scheduler.weighers', 'nova.scheduler.weights.', BaseHostWeigher
)

OPTS: dict[str, list[cfg.Opt]] = {
    'filter_scheduler': [
        cfg.MultiStrOpt(
            'available_filters',
            default=['nova.scheduler.filters.all_filters'],
            deprecated_name='scheduler_available_filters',
            deprecated_group='DEFAULT',
            help='Dotted paths of filter classes that enabled_filters may name; '
            '``nova.scheduler.filters.all_filters`` are all that are installed.',
        ),
        cfg.ListOpt(
            'enabled_filters',
            default=[
                'ComputeFilter',
                'ComputeCapabilitiesFilter',
                'ImagePropertiesFilter',
                'ServerGroupAntiAffinityFilter',
                'ServerGroupAffinityFilter',
            ],
            deprecated_name='scheduler_default_filters',
            deprecated_group='DEFAULT',
            help='Class names of the filters, in the order in which they run.',
        ),
        cfg.ListOpt(
            'weight_classes',
            default=['nova.scheduler.weights.all_weighers'],
            deprecated_name='scheduler_weight_classes',
            deprecated_group='DEFAULT',
            help='Dotted paths of weigher classes, in the order of summing; '
            '``nova.scheduler.weights.all_weighers`` are all that are installed.',
        ),
        cfg.IntOpt(
            'host_subset_size',
            default=1,
            min=1,
            deprecated_name='scheduler_host_subset_size',
            deprecated_group='DEFAULT',
            help='One of so many of the best hosts is taken by chance. More than 1 '
            'lets several schedulers collide less.',
        ),
        cfg.BoolOpt(
            'shuffle_best_same_weighed_hosts',
            default=False,
            help='Shuffle the hosts that share the best weight.',
        ),
    ]
}


def profile_from_conf(conf: Any) -> Profile:
    """Load the filters and weighers that the options name. Raises errors.SetupError."""
    group = conf.filter_scheduler
    available = _by_name(group.available_filters, FILTERS)
    if missing := [name for name in group.enabled_filters if name not in available]:
        raise errors.FilterNotFound(missing)
    weighers = _by_name(group.weight_classes, WEIGHERS)
    made = {name: _made(available[name], conf) for name in group.enabled_filters}
    return Profile(
        filters=tuple(made[name] for name in group.enabled_filters),
        weighers=tuple(_made(cls, conf) for cls in weighers.values()),
        host_subset_size=group.host_subset_size,
        shuffle_best=group.shuffle_best_same_weighed_hosts,
        fitting=Fitting.from_conf(conf),
    )


def _made(cls: Any, conf: Any) -> Any:
    try:
        return cls.from_conf(conf)
    except errors.NovaschedError:
        raise
    except Exception as problem:  # a plugin may raise anything
        option = ('weight_classes', 'enabled_filters')[issubclass(cls, BaseHostFilter)]
        option, text = f'[filter_scheduler] {option}', f'{cls.__name__}: {problem!r}'
        raise errors.OptionError(option, text, 'Mend or remove the class') from problem


def _by_name(paths: Iterable[str], kind: _Kind) -> dict[str, Any]:
    """Return classes by bare name; of two with one name the later wins."""
    manager: Any = stevedore.ExtensionManager(kind.namespace, invoke_on_load=False)
    installed = {e.name: e.plugin for e in sorted(manager, key=lambda e: e.name)}
    found: dict[str, Any] = {}
    for path in paths:
        is_novas, name = path.startswith(kind.novas), path.rpartition('.')[2]
        if is_novas and name.startswith(('all_', 'standard_')):
            classes = list(installed.values())
        elif is_novas and name in installed:
            classes = [installed[name]]
        else:
            classes = _at(path, kind.base)
        found.update((cls.__name__, cls) for cls in classes)
    return found


def _at(path: str, base: type) -> list[Any]:
    """Return the class at a dotted path, or those that the function there gives.

    One that was written for nova gets from ``base`` what it lacks.
    """
    try:
        thing = pkgutil.resolve_name(path)
        things = list(thing()) if inspect.isfunction(thing) else [thing]
    except Exception as problem:  # a module may raise anything
        raise errors.ClassNotFound(path, repr(problem)) from problem
    classes = [
        each
        if issubclass(each, BaseHostFilter | Weigher)
        else types.new_class(each.__name__, (each, base))
        for each in things
        if inspect.isclass(each) and not each.__name__.startswith('_')
    ]
    if not classes or any(inspect.isabstract(each) for each in classes):
        raise errors.ClassNotFound(path, 'Not a class of the correct type')
    return classes
