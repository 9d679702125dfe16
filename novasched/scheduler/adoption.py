# SPDX-License-Identifier: Apache-2.0
"""Classes that were written for nova, made into filters and weighers of ours."""

from __future__ import annotations

import importlib
import inspect
import types
from typing import Any

from novasched import errors
from novasched.scheduler import filters, weighers
from novasched.scheduler.filters import BaseHostFilter
from novasched.scheduler.weighers import BaseHostWeigher, Weigher

OURS = __name__.partition('.')[0] + '.'
WRONG_TYPE = 'Not a class of the correct type'
FAMILIES: dict[type, tuple[type, tuple[str, ...]]] = {
    BaseHostFilter: (BaseHostFilter, (*filters.HOOKS, 'apply')),
    BaseHostWeigher: (Weigher, (*weighers.HOOKS, 'weigh')),
}
"""By what is lent: what those that know us are, and of what one must be defined."""


def at(path: str, base: type) -> dict[str, type]:
    """Return what classes() finds at a dotted path. Raises errors.ClassNotFound."""
    module, _, name = path.rpartition('.')
    try:
        return classes(getattr(importlib.import_module(module), name), base)
    except Exception as problem:  # a module may raise anything
        raise errors.ClassNotFound(path, repr(problem)) from problem


def classes(thing: Any, base: type) -> dict[str, type]:
    """Return by name a class, or those that a function gives, ready for use.

    Raises TypeError where one is neither filter nor weigher; what ``base`` is.
    """
    if inspect.isfunction(thing):
        found = [each for each in thing() if inspect.isclass(each)]
    else:
        found = [thing] if inspect.isclass(thing) and thing.__name__[0] != '_' else []
    if not found:
        raise TypeError(WRONG_TYPE)
    return {cls.__name__: adopt(cls, base) for cls in found}


def adopt(cls: type, base: type) -> type:
    """Return a class with what it lacks from ``base``.

    One that knows nothing of ours becomes a subclass of both. Raises TypeError if
    it is not what ``base`` is.
    """
    family, rules = FAMILIES[base]
    known = issubclass(cls, family)
    lent = base if known else object
    defined = [getattr(cls, r, None) is not getattr(lent, r, None) for r in rules]
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
    constructor of the built-in.
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
    return plugin


def _built_in_of(cls: type) -> Any:
    """Return the built-in whose arguments the plugin's constructor does not take."""
    line = cls.__mro__
    writer = next(each for each in line if '__init__' in vars(each))
    maker = next(each for each in line if 'from_conf' in vars(each))
    if writer.__module__.startswith(OURS) or line.index(maker) <= line.index(writer):
        return None
    built_in = next(each for each in line if each.__module__.startswith(OURS))
    taken = inspect.signature(cls).parameters
    takes_any = any(each.kind is each.VAR_POSITIONAL for each in taken.values())
    given = inspect.signature(built_in).parameters.keys()
    if takes_any or given <= taken.keys() or inspect.isabstract(built_in):
        return None
    return built_in
