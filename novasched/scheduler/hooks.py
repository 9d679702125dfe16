# SPDX-License-Identifier: Apache-2.0
"""Nova's hooks that a plugin overrides, and names that it shares with ours."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

OURS = __name__.partition('.')[0] + '.'
FILTERS = ('host_passes', '_filter_one', 'filter_all')
WEIGHERS = ('_weigh_object', 'weigh_objects')


def is_ours(cls: type) -> bool:
    """Return True if a class is one of novasched, and no plugin."""
    return cls.__module__.startswith(OURS)


def overridden(plugin: object, hook: str, rule: str) -> bool:
    """Return True if a plugin has a hook of its own that comes before the rule."""
    cls: type = type(plugin)
    return hook in vars(plugin) or nearer(cls, hook, rule)


@functools.cache
def nearer(cls: type, hook: str, rule: str) -> bool:
    """Return True if a hook was written by a subclass of the class with the rule.

    A plugin that has both goes by the hook: the other name is one of its own.
    """
    hooked, ruled = _place(cls, hook), _place(cls, rule)
    return hooked < ruled or (hooked == ruled and not is_ours(cls.__mro__[hooked]))


def _place(cls: type, name: str) -> int:
    return [name in vars(each) for each in cls.__mro__].index(True)


@functools.cache
def meant(cls: type, name: str) -> Any:
    """Return what a class has under a name of ours: a plain function, or a value.

    What a plugin with one of nova's hooks calls so is none of it; None where there
    is nothing else.
    """
    strangers = [each for each in cls.__mro__ if not is_ours(each)]
    for_nova = any(
        hook in vars(each) for each in strangers for hook in (*FILTERS, *WEIGHERS)
    )
    for each in cls.__mro__:
        if name in vars(each) and not (for_nova and each in strangers):
            return vars(each)[name]
    return None


def takes_host(hook: Callable[..., Any]) -> bool:
    """Return True if a bound hook can be called with a host; some of old take none."""
    try:
        inspect.signature(hook).bind('host')
    except TypeError:
        return False
    return True
