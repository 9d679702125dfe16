# SPDX-License-Identifier: Apache-2.0
"""Which of nova's hooks a plugin has of its own."""

from __future__ import annotations

import functools
import inspect


@functools.cache
def nearer(cls: type, hook: str, rule: str) -> bool:
    """Return True if a hook was written by a subclass of whoever wrote the rule."""
    line = [vars(each) for each in cls.__mro__]
    return [hook in each for each in line].index(True) < (
        [rule in each for each in line].index(True)
    )


@functools.cache
def takes_host(cls: type, hook: str) -> bool:
    """Return True if a hook can be called with a host; some of old take none."""
    try:
        inspect.signature(getattr(cls, hook)).bind('self', 'host')
    except TypeError:
        return False
    return True
