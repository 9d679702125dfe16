# SPDX-License-Identifier: Apache-2.0
"""Adapter of plugins: what the pipeline calls, whichever hooks of nova they define.

A class written for nova becomes a filter or weigher of ours. PluginFilter or
PluginWeigher wraps its object, and decides once which of its methods to call.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from novasched import errors
from novasched.compat import availability_zones
from novasched.objects.request_spec import RequestSpec
from novasched.releases import Release
from novasched.scheduler.filters import BaseHostFilter, ColumnFilter
from novasched.scheduler.filters.host_limit import HostLimit
from novasched.scheduler.hosts import Floats, HostState, HostTable
from novasched.scheduler.warnings import PluginWarning, names
from novasched.scheduler.weighers import BaseHostWeigher, Weigher, numbers

PACKAGE = __name__.partition('.')[0] + '.'
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


class _Adapter:
    """A plugin as the pipeline calls it; all else that is asked of it is its own."""

    def __init__(self, plugin: Any) -> None:
        self.plugin = plugin
        self.name = type(plugin).__name__
        self.config_warnings = _our_method(plugin, 'config_warnings')

    def depends_on(self, request: RequestSpec) -> None:
        """Return None, as the columns of a plugin are unknown."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.plugin, name)


@BaseHostFilter.register
class PluginFilter(_Adapter):
    """A plugin's filter, which goes by its mask() or by nova's hooks."""

    def __init__(self, plugin: Any) -> None:
        super().__init__(plugin)
        hooks = [(hook, 'mask') for hook in FILTER_HOOKS]
        if isinstance(plugin, HostLimit):
            hooks.append((f'_get_{plugin.key}', 'limits'))
        cls = type(plugin)
        self.apply = _our_method(plugin, 'apply')
        if isinstance(plugin, ColumnFilter):
            by_host = any(_overrides(plugin, *each) for each in hooks)
        else:
            by_host = _our_attribute(cls, 'apply') is BaseHostFilter.apply
        if by_host:
            self.apply = self._apply_by_host
        self._filters_all = cls.filter_all is not BaseHostFilter.filter_all
        self._filters_one = cls._filter_one is not BaseHostFilter._filter_one
        self._request_warnings = _our_method(plugin, 'request_warnings')

    def of_release(self, release: Release) -> PluginFilter:
        """Return the plugin in an adapter, as a release has what it is made of."""
        found = _our_method(self.plugin, 'of_release')(release)
        return self if found is self.plugin else PluginFilter(found)

    def runs_on_rebuild(self) -> bool:
        """Return whether a hook is for rebuilds; also for those that recognise them."""
        own = self._filters_all or self._filters_one
        return own or bool(self.plugin.runs_on_rebuild())

    def _apply_by_host(self, hosts: HostTable, request: RequestSpec) -> Any:
        """Return the hosts that the nearest of nova's hooks passes, in its order.

        Raises TypeError when filter_all() gives something else than hosts.
        """
        with availability_zones.deciding(hosts):
            return self._passed(hosts, request)

    def _passed(self, hosts: HostTable, request: RequestSpec) -> Any:
        plugin = self.plugin
        if self._filters_all:
            given = plugin.filter_all(list(hosts.states()), request)
            if given is None:
                return None
            return hosts.keep(_host_of(hosts, each) for each in given)
        passes = plugin._filter_one if self._filters_one else plugin.host_passes
        return hosts.keep(host for host in hosts.states() if passes(host, request))

    def request_warnings(
        self, before: HostTable, after: HostTable, request: RequestSpec
    ) -> Iterator[PluginWarning]:
        """Yield also what is odd in what filter_all() gave; nova takes it."""
        if self._filters_all:
            _, places = np.unique(after.rows, return_index=True)
            repeated = after[np.delete(np.arange(len(after)), places)]
            for odd, text in (
                (repeated, 'gave more than once'),
                (after.without(before), 'gave what was rejected before'),
            ):
                if len(odd):
                    yield PluginWarning(f'{self.name} {text}', hosts=names(odd))
        yield from self._request_warnings(before, after, request)


@Weigher.register
class PluginWeigher(_Adapter):
    """A plugin's weigher, which goes by its weigh() or by nova's hooks."""

    def __init__(self, plugin: Any) -> None:
        super().__init__(plugin)
        by_host = any(_overrides(plugin, hook, 'weigh') for hook in WEIGHER_HOOKS)
        weights = BaseHostWeigher.weights if by_host else Weigher.weights
        self._weights = types.MethodType(weights, plugin)
        self.multipliers = plugin.aggregate_multipliers
        if _overrides(plugin, 'weight_multiplier', 'aggregate_multipliers'):
            self.multipliers = self._multipliers
            plugin.effective_multipliers = self._multipliers
            self._takes_host = _takes_host(plugin.weight_multiplier)

    def weights(self, hosts: HostTable, request: RequestSpec) -> Any:
        with availability_zones.deciding(hosts):
            return self._weights(hosts, request)

    def _multipliers(self, hosts: HostTable) -> Floats:
        """Return one multiplier per host; before the Stein release none was given."""
        multiplier = self.plugin.weight_multiplier
        if self._takes_host:
            return numbers([multiplier(host) for host in hosts.states()])
        return np.broadcast_to(numbers([multiplier()]), len(hosts))


def adapted(extension: Any) -> Any:
    """Return a filter or weigher as the pipeline calls it: ours as it is."""
    if _is_built_in(type(extension)):
        return extension
    is_filter = isinstance(extension, BaseHostFilter)
    return PluginFilter(extension) if is_filter else PluginWeigher(extension)


def _host_of(hosts: HostTable, given: object) -> HostState:
    """Return the host that a plugin gave, or raise TypeError.

    A host that an earlier filter rejected is one, too: the plugin remembered it.
    """
    if isinstance(given, HostState):
        known = hosts.snapshot.raw('host')
        if given._snapshot.raw('host') is known:
            return given
    raise TypeError(f'filter_all gave {given!r}, which is no host of this request')


def _overrides(plugin: Any, hook: str, rule: str) -> bool:
    """Return whether a plugin has a hook of its own that comes before our rule.

    Where one class has both, the hook holds: the other name is one of its own.
    """
    if hook in vars(plugin):
        return True
    line = type(plugin).__mro__
    hooked = next(cls for cls in line if hook in vars(cls))
    ruled = next(cls for cls in line if rule in vars(cls))
    return not _is_built_in(hooked) and line.index(hooked) <= line.index(ruled)


def _our_method(plugin: Any, name: str) -> Any:
    """Return a method of ours, bound to a plugin."""
    cls = type(plugin)
    return _our_attribute(cls, name).__get__(plugin, cls)


def _our_attribute(cls: type, name: str) -> Any:
    """Return the attribute of a class under a name of ours.

    What a plugin with one of nova's hooks calls so is its own, and is passed over.
    """
    ours = [each for each in cls.__mro__ if _is_built_in(each)]
    others = [each for each in cls.__mro__ if not _is_built_in(each)]
    for_nova = any(HOOKS & vars(each).keys() for each in others)
    line = ours if for_nova else cls.__mro__
    return next(vars(each)[name] for each in line if name in vars(each))


def _is_built_in(cls: type) -> bool:
    return cls.__module__.startswith(PACKAGE)


def _takes_host(hook: Any) -> bool:
    try:
        inspect.signature(hook).bind('host')
    except (TypeError, ValueError):
        return False
    return True


def classes_at(path: str, base: type) -> dict[str, type]:
    """Return the result of classes() for a dotted path. Raises errors.ClassNotFound."""
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
    found: dict[str, type] = {}
    if inspect.isfunction(thing):
        for cls in filter(inspect.isclass, thing()):
            with contextlib.suppress(TypeError):
                found[cls.__name__] = adopt(cls, base)
    elif inspect.isclass(thing) and thing.__name__[0] != '_':
        found[thing.__name__] = adopt(thing, base)
    if not found:
        raise TypeError(WRONG_TYPE)
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
    if issubclass(cls, Weigher) and cls.option != _our_attribute(cls, 'option'):
        option = _our_attribute(cls, 'option')
        cls = _subclass(cls, multiplier_option=classmethod(lambda _: option))
    return cls


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

    Constructors of plugins may take nothing, as in nova. A subclass of a built-in finds
    the built-in's options set on itself, before and after it calls the built-in's
    constructor. It may call that by super(), or by name, which sets the defaults.
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
    defaults: dict[str, object] = {}
    with contextlib.suppress(TypeError):  # some cannot do without arguments
        defaults = vars(built_in())
    for name, default in defaults.items():
        value = vars(plugin).get(name)
        comparable = type(default).__eq__ is not object.__eq__
        if type(value) is type(default) and (not comparable or value == default):
            setattr(plugin, name, read[name])
    return plugin


def _built_in_of(cls: type) -> Any:
    """Return the built-in whose arguments the plugin's constructor does not take."""
    line = cls.__mro__
    writer = next(each for each in line if '__init__' in vars(each))
    maker = next(each for each in line if 'from_conf' in vars(each))
    if _is_built_in(writer) or line.index(maker) <= line.index(writer):
        return None
    built_in = next(each for each in line if _is_built_in(each))
    taken = inspect.signature(cls).parameters
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in taken.values())
    given = inspect.signature(built_in).parameters.keys()
    if takes_any or given <= taken.keys() or inspect.isabstract(built_in):
        return None
    return built_in
