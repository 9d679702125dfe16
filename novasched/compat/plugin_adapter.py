# SPDX-License-Identifier: Apache-2.0
"""Adapter of classes written for nova: they become filters and weighers of ours."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import types
from collections.abc import Iterable
from typing import Any

from novasched import errors
from novasched.scheduler import hooks
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.weighers import BaseHostWeigher, Weigher

WRONG_TYPE = 'Not a class of the correct type'
FAMILIES: dict[type, tuple[type, tuple[str, ...]]] = {
    BaseHostFilter: (BaseHostFilter, (*hooks.FILTERS, 'apply')),
    BaseHostWeigher: (Weigher, (*hooks.WEIGHERS, 'weigh')),
}
"""By the base supplied to plugins for nova: the base of those written for novasched,
and the rules of which a class must define one."""


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
    return cls if known else _subclass(cls, base)


def _subclass(cls: type, base: type) -> type:
    names = {'__module__': cls.__module__, '__doc__': cls.__doc__}
    return types.new_class(
        cls.__name__, (cls, base), exec_body=lambda namespace: namespace.update(names)
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
    if hooks.is_ours(writer) or line.index(maker) <= line.index(writer):
        return None
    built_in = next(each for each in line if hooks.is_ours(each))
    taken = inspect.signature(cls).parameters
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in taken.values())
    given = inspect.signature(built_in).parameters.keys()
    if takes_any or given <= taken.keys() or inspect.isabstract(built_in):
        return None
    return built_in
