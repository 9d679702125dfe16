# SPDX-License-Identifier: Apache-2.0
"""Adapter of plugins: what the pipeline calls, whichever hooks of nova they define.

A class written for nova becomes a filter or weigher of ours, and its object is wrapped
in PluginFilter or PluginWeigher, which decide once by which of its methods it goes.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.host_limit import HostLimit
from novasched.scheduler.hosts import Floats, HostTable
from novasched.scheduler.warnings import PluginWarning, names
from novasched.scheduler.weighers import BaseHostWeigher, Weigher, numbers

OURS = __name__.partition('.')[0] + '.'
FILTER_HOOKS = ('host_passes', '_filter_one', 'filter_all')
WEIGHER_HOOKS = ('_weigh_object', 'weigh_objects')
HOOKS = {*FILTER_HOOKS, *WEIGHER_HOOKS}
WRONG_TYPE = 'Not a class of the correct type'
FAMILIES: dict[type, tuple[type, tuple[str, ...]]] = {
    BaseHostFilter: (BaseHostFilter, (*FILTER_HOOKS, 'apply')),
    BaseHostWeigher: (Weigher, (*WEIGHER_HOOKS, 'weigh')),
}
"""By the base supplied to plugins for nova: the base of those written for novasched,
and the rules of which a class must define one."""


@BaseHostFilter.register
class PluginFilter:
    """A plugin's filter as the pipeline calls it; all else is the plugin's own."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name = type(plugin).__name__
        self.apply = _ours(plugin, 'apply')
        if _goes_host_by_host(plugin):
            self.apply = types.MethodType(BaseHostFilter.apply, plugin)
        self.config_warnings = _ours(plugin, 'config_warnings')
        self._request_warnings = _ours(plugin, 'request_warnings')
        self._filters_all = type(plugin).filter_all is not BaseHostFilter.filter_all

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plugin, name)

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterator[PluginWarning]:
        """Yield also what is odd in the hosts that filter_all() gave; nova takes
        them."""
        if self._filters_all:
            rows, places = np.unique(after.rows, return_index=True)
            if len(rows) < len(after):
                repeated = after[np.delete(np.arange(len(after)), places)]
                text = f'{self.name} gave more than once'
                yield PluginWarning(text, hosts=names(repeated))
            strange = after.without(before)
            if len(strange):
                text = f'{self.name} gave what was rejected before'
                yield PluginWarning(text, hosts=names(strange))
        yield from self._request_warnings(before, after, request)


@Weigher.register
class PluginWeigher:
    """A plugin's weigher as the pipeline calls it; all else is the plugin's own."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name = type(plugin).__name__
        by_host = any(_goes_by(plugin, hook, 'weigh') for hook in WEIGHER_HOOKS)
        weights = BaseHostWeigher.weights if by_host else Weigher.weights
        self.weights = types.MethodType(weights, plugin)
        self.multipliers = plugin.aggregate_multipliers
        if _goes_by(plugin, 'weight_multiplier', 'aggregate_multipliers'):
            takes_host = _takes_host(plugin.weight_multiplier)
            self.multipliers = self._by_host if takes_host else self._by_plugin
        self.config_warnings = _ours(plugin, 'config_warnings')

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plugin, name)

    def _by_host(self, hosts: HostTable) -> Floats:
        return numbers([self.plugin.weight_multiplier(host) for host in hosts.states()])

    def _by_plugin(self, hosts: HostTable) -> Floats:
        """Return one multiplier for all: before the Stein release none took a host."""
        (multiplier,) = numbers([self.plugin.weight_multiplier()])
        return np.broadcast_to(multiplier, len(hosts))


def adapted(extension: Any) -> Any:
    """Return a filter or weigher as the pipeline calls it: ours as it is."""
    if _is_ours(type(extension)):
        return extension
    is_filter = isinstance(extension, BaseHostFilter)
    return PluginFilter(extension) if is_filter else PluginWeigher(extension)


def _goes_host_by_host(plugin: Any) -> bool:
    """Return True for a subclass of a built-in that overrides a hook of nova's."""
    if isinstance(plugin, HostLimit) and _goes_by(
        plugin, f'_get_{plugin.key}', 'limits'
    ):
        return True
    return isinstance(plugin, ColumnFilter) and any(
        _goes_by(plugin, hook, 'mask') for hook in FILTER_HOOKS
    )


def _goes_by(plugin: Any, hook: str, rule: str) -> bool:
    """Return True if a plugin has a hook of its own that comes before our rule.

    Where one class has both, the hook holds: the other name is one of its own.
    """
    if hook in vars(plugin):
        return True
    line = type(plugin).__mro__
    hooked = next(cls for cls in line if hook in vars(cls))
    ruled = next(cls for cls in line if rule in vars(cls))
    return not _is_ours(hooked) and line.index(hooked) <= line.index(ruled)


def _ours(plugin: Any, name: str) -> Any:
    """Return a method of ours, bound to a plugin."""
    cls = type(plugin)
    return _meant(cls, name).__get__(plugin, cls)


def _meant(cls: type, name: str) -> Any:
    """Return what a class has under a name of ours.

    What a plugin with one of nova's hooks calls so is its own, and is passed over.
    """
    line: Iterable[type] = cls.__mro__
    strangers = [each for each in line if not _is_ours(each)]
    if any(HOOKS & vars(each).keys() for each in strangers):
        line = [each for each in line if _is_ours(each)]
    return next(vars(each)[name] for each in line if name in vars(each))


def _is_ours(cls: type) -> bool:
    return cls.__module__.startswith(OURS)


def _takes_host(hook: Any) -> bool:
    try:
        inspect.signature(hook).bind('host')
    except TypeError:
        return False
    return True


def at(path: str, base: type) -> dict[str, type]:
    """Return what classes() finds at a dotted path. Raises errors.ClassNotFound."""
    module, _, name = path.rpartition('.')
    if not module:
        raise errors.ClassNotFound(path, 'it is no dotted path')
    try:
        return classes(getattr(importlib.import_module(module), name), base)
    except Exception as problem:  # a module may raise anything
        raise errors.ClassNotFound(path, repr(problem)) from problem


def classes(thing: Any, base: type) -> dict[str, type]:
    """Return by name a class, or those that a function gives, ready for use.

    Raises TypeError if there is none. What else a function gives is left out: it may
    be there for another purpose, and enabling it is an error with its name.
    """
    if inspect.isfunction(thing):
        found = _adopted(thing(), base)
    elif inspect.isclass(thing) and thing.__name__[0] != '_':
        found = {thing.__name__: adopt(thing, base)}
    else:
        found = {}
    if not found:
        raise TypeError(WRONG_TYPE)
    return found


def _adopted(given: Iterable[Any], base: type) -> dict[str, type]:
    found: dict[str, type] = {}
    for cls in filter(inspect.isclass, given):
        with contextlib.suppress(TypeError):
            found[cls.__name__] = adopt(cls, base)
    return found


def adopt(cls: type, base: type) -> type:
    """Return a class with what it lacks from ``base``.

    One that knows nothing of ours becomes a subclass of both. Raises TypeError if
    it is not what ``base`` is.
    """
    family, rules = FAMILIES[base]
    known = issubclass(cls, family)
    supplied = base if known else object
    defined = [getattr(cls, r, None) is not getattr(supplied, r, None) for r in rules]
    strange = not known and issubclass(cls, BaseHostFilter | Weigher)
    if strange or not any(defined) or inspect.isabstract(cls):
        raise TypeError(WRONG_TYPE)
    cls = cls if known else _subclass(cls, base)
    return _with_option_of_ours(cls) if issubclass(cls, Weigher) else cls


def _with_option_of_ours(cls: type[Weigher]) -> type:
    option = _meant(cls, 'option')
    if cls.option == option:
        return cls
    return _subclass(cls, multiplier_option=classmethod(lambda _: option))


def _subclass(cls: type, *bases: type, **names: Any) -> type:
    names |= {'__module__': cls.__module__, '__doc__': cls.__doc__}
    return types.new_class(
        cls.__name__, (cls, *bases), exec_body=lambda namespace: namespace.update(names)
    )


def make(cls: Any, conf: Any, option: str) -> Any:
    """Make a filter or weigher that an option of [filter_scheduler] names.

    Raises errors.ClassNotFound if that is what it is instead of a class, and
    errors.OptionError if the class raises.
    """
    try:
        if isinstance(cls, errors.ClassNotFound):
            raise cls
        return _made(cls, conf)
    except errors.NovaschedError:
        raise
    except Exception as problem:  # a plugin may raise anything
        text = f'{cls.__name__}: {problem!r}'
        raise errors.OptionError(
            f'[filter_scheduler] {option}', text, 'Mend or remove the class'
        ) from problem


def _made(cls: Any, conf: Any) -> Any:
    """Make a plugin from the options.

    A subclass of a built-in whose constructor takes nothing, as in nova, finds what
    the built-in would have read set on itself, before and after it calls the
    constructor of the built-in; by super(), or by its name, which sets the defaults.
    """
    built_in = _built_in_of(cls)
    if built_in is None:
        return cls.from_conf(conf)
    read = vars(built_in.from_conf(conf))

    def __init__(self: Any) -> None:  # noqa: N807
        vars(self).update(read)

    configured = type(built_in.__name__, (built_in,), {'__init__': __init__})
    made_of: Any = _subclass(cls, configured)
    plugin = made_of.__new__(made_of)
    vars(plugin).update(read)
    plugin.__init__()
    for name, default in _defaults(built_in).items():
        if _alike(vars(plugin).get(name), default):
            setattr(plugin, name, read[name])
    return plugin


def _defaults(built_in: Any) -> dict[str, Any]:
    """Return what a built-in sets on itself without options, if it can do without."""
    defaults: dict[str, Any] = {}
    with contextlib.suppress(TypeError):
        defaults = vars(built_in())
    return defaults


def _alike(value: object, default: object) -> bool:
    """Return True if a value may be the default; objects without == are not told
    apart."""
    if type(value) is not type(default):
        return False
    return type(default).__eq__ is object.__eq__ or bool(value == default)


def _built_in_of(cls: type) -> Any:
    """Return the built-in whose arguments the plugin's constructor does not take."""
    line = cls.__mro__
    writer = next(each for each in line if '__init__' in vars(each))
    maker = next(each for each in line if 'from_conf' in vars(each))
    if _is_ours(writer) or line.index(maker) <= line.index(writer):
        return None
    built_in = next(each for each in line if _is_ours(each))
    taken = inspect.signature(cls).parameters
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in taken.values())
    given = inspect.signature(built_in).parameters.keys()
    if takes_any or given <= taken.keys() or inspect.isabstract(built_in):
        return None
    return built_in
