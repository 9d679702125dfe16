# SPDX-License-Identifier: Apache-2.0
"""Plugins by name: stevedore entry points, also by nova's names, and dotted paths."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from oslo_config import cfg
from stevedore import ExtensionManager

from novasched import errors
from novasched.compat import nova_modules, plugin_adapter
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.fit.fitting import Fitting
from novasched.scheduler.pipeline import Profile
from novasched.scheduler.weighers import BaseHostWeigher


class _Kind(NamedTuple):
    """A kind of plugin: where it is found, and the base supplied to those for nova."""

    option: str
    namespace: str
    novas: str
    base: type


FILTERS = _Kind(
    'enabled_filters',
    'novasched.scheduler.filters',
    'nova.scheduler.filters.',
    BaseHostFilter,
)
WEIGHERS = _Kind(
    'weight_classes',
    'novasched.scheduler.weighers',
    'nova.scheduler.weights.',
    BaseHostWeigher,
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


def install_nova_modules(conf: Any) -> None:
    """Let plugins import nova from now on; what it holds are the installed ones."""
    nova_modules.install(conf, lambda: _all(FILTERS), lambda: _all(WEIGHERS))


def profile_from_conf(conf: Any, seen: Any = None) -> Profile:
    """Load the filters and weighers that the options name; ``seen`` is what plugins
    see, if another one. Raises errors.SetupError."""
    group = conf.filter_scheduler
    install_nova_modules(seen or conf)
    available = _by_name(group.available_filters, FILTERS)
    weighers = _by_name(group.weight_classes, WEIGHERS)
    bare_metal = group.use_baremetal_filters
    enabled = group.baremetal_enabled_filters if bare_metal else group.enabled_filters
    if missing := [name for name in enabled if name not in available]:
        raise errors.FilterNotFound(missing, sorted(available))
    made = {name: _made(available[name], conf, FILTERS) for name in enabled}
    return Profile(
        filters=tuple(made[name] for name in enabled),
        weighers=tuple(_made(each, conf, WEIGHERS) for each in weighers.values()),
        host_subset_size=group.host_subset_size,
        shuffle_best=group.shuffle_best_same_weighed_hosts,
        fitting=Fitting.from_conf(conf),
    )


def _made(cls: Any, conf: Any, kind: _Kind) -> Any:
    return plugin_adapter.adapted(plugin_adapter.make(cls, conf, kind.option))


def _by_name(paths: Iterable[str], kind: _Kind) -> dict[str, Any]:
    """Return classes by bare name; of two with one name the later wins."""
    installed = _installed(kind)
    found: dict[str, Any] = {}
    for path in paths:
        name = path.rpartition('.')[2]
        if path.startswith(kind.novas) and name.startswith(('all_', 'standard_')):
            found |= installed
            continue
        try:
            found |= plugin_adapter.classes_at(path, kind.base)
        except errors.ClassNotFound as problem:
            names = sorted(installed)
            raise errors.ClassNotFound(path, problem.problem, names) from problem
    return found


def _installed(kind: _Kind) -> dict[str, Any]:
    """Load entry points; those that cannot be loaded are errors.ClassNotFound."""
    found: dict[str, Any] = {}

    def fail(manager: object, point: Any, problem: BaseException) -> None:
        found[point.name] = errors.ClassNotFound(point.value, repr(problem))

    manager: Any = ExtensionManager(kind.namespace, on_load_failure_callback=fail)
    for each in sorted(manager, key=lambda e: e.name):
        try:
            found |= plugin_adapter.classes(each.plugin, kind.base)
        except Exception as problem:  # noqa: BLE001 a plugin may raise anything
            fail(manager, each.entry_point, problem)
    return found


def _all(kind: _Kind) -> list[type]:
    return [cls for cls in _installed(kind).values() if isinstance(cls, type)]
