# SPDX-License-Identifier: Apache-2.0
"""Names to classes: stevedore entry points first, then dotted paths.

Names of nova's own filters and weighers lead to ours.
"""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Iterable
from typing import Any

import stevedore
from oslo_config import cfg

from novasched import errors
from novasched.drivers import Driver, Parts
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers import Weigher

DRIVERS = 'novasched.scheduler.driver'
FILTERS = 'novasched.scheduler.filters'
WEIGHERS = 'novasched.scheduler.weighers'
NOVA_FILTERS = 'nova.scheduler.filters.'
NOVA_WEIGHERS = 'nova.scheduler.weights.'
NOVA_DRIVERS = {
    'nova.scheduler.filter_scheduler.FilterScheduler': 'filter_scheduler',
}

OPTS: dict[str, list[cfg.Opt]] = {
    'filter_scheduler': [
        cfg.MultiStrOpt(
            'available_filters',
            default=[f'{NOVA_FILTERS}all_filters'],
            deprecated_name='scheduler_available_filters',
            deprecated_group='DEFAULT',
            help='Dotted paths of filter classes that enabled_filters may name. '
            '``nova.scheduler.filters.all_filters`` stands for all that are '
            'installed; a value replaces it, so name it again beside your own.',
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
            help='Class names of the filters that every request goes through, in '
            'this order.',
        ),
        cfg.ListOpt(
            'weight_classes',
            default=[f'{NOVA_WEIGHERS}all_weighers'],
            deprecated_name='scheduler_weight_classes',
            deprecated_group='DEFAULT',
            help='Dotted paths of weigher classes, in the order in which their '
            'weights are summed. ``nova.scheduler.weights.all_weighers`` stands for '
            'all that are installed.',
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
    """Load the filters and weighers that the options name.

    Raises errors.FilterNotFound and errors.ClassNotFound.
    """
    group = conf.filter_scheduler
    available = _by_name(group.available_filters, FILTERS, NOVA_FILTERS, BaseHostFilter)
    missing = [name for name in group.enabled_filters if name not in available]
    if missing:
        raise errors.FilterNotFound(missing)
    weighers = _by_name(group.weight_classes, WEIGHERS, NOVA_WEIGHERS, Weigher)
    made = {name: available[name].from_conf(conf) for name in group.enabled_filters}
    return Profile(
        filters=tuple(made[name] for name in group.enabled_filters),
        weighers=tuple(weigher.from_conf(conf) for weigher in weighers.values()),
        host_subset_size=group.host_subset_size,
        shuffle_best=group.shuffle_best_same_weighed_hosts,
    )


def driver_from_conf(conf: Any, parts: Parts) -> Driver:
    """Load the driver that the option names. Raises errors.OptionError."""
    name = NOVA_DRIVERS.get(conf.scheduler.driver, conf.scheduler.driver)
    installed = _installed(DRIVERS)
    if name not in installed:
        raise errors.OptionError(
            '[scheduler] driver',
            f'no driver is called {name}',
            f'Set it to one of: {", ".join(sorted(installed))}.',
        )
    driver: Driver = installed[name](parts)
    return driver


def _installed(namespace: str) -> dict[str, Any]:
    manager: Any = stevedore.ExtensionManager(namespace, invoke_on_load=False)
    return {e.name: e.plugin for e in sorted(manager, key=lambda e: e.name)}


def _by_name(
    paths: Iterable[str], namespace: str, novas: str, kind: Any
) -> dict[str, Any]:
    """Return classes by bare name; of two with one name the later wins."""
    found: dict[str, Any] = {}
    for path in paths:
        module, _, name = path.rpartition('.')
        if path.startswith(novas):
            installed = _installed(namespace)
            if name in installed:
                found[name] = installed[name]
                continue
            if f'{module}.' == novas and name.startswith(('all_', 'standard_')):
                found.update(installed)
                continue
        found.update((cls.__name__, cls) for cls in _at(path, kind))
    return found


def _at(path: str, kind: Any) -> list[Any]:
    """Return the class at a dotted path, or those that the function there gives."""
    try:
        thing = pkgutil.resolve_name(path)
    except (ImportError, AttributeError, ValueError) as problem:
        raise errors.ClassNotFound(path, str(problem)) from problem
    if inspect.isclass(thing) and issubclass(thing, kind):
        return [thing]
    if inspect.isfunction(thing):
        return list(thing())
    raise errors.ClassNotFound(path, 'Not a class of the correct type')
