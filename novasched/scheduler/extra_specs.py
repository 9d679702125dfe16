# SPDX-License-Identifier: Apache-2.0
"""The operators in flavor extra specs. Nova: scheduler/filters/extra_specs_ops.py."""

from __future__ import annotations

import operator
from collections.abc import Callable

Compare = Callable[[str, str], bool]


def _numeric(compare: Callable[[float, float], bool]) -> Compare:
    return lambda value, wanted: compare(float(value), float(wanted))


OPERATORS: dict[str, Compare] = {
    '=': _numeric(operator.ge),
    '==': _numeric(operator.eq),
    '!=': _numeric(operator.ne),
    '>=': _numeric(operator.ge),
    '<=': _numeric(operator.le),
    's==': operator.eq,
    's!=': operator.ne,
    's<': operator.lt,
    's<=': operator.le,
    's>': operator.gt,
    's>=': operator.ge,
    '<in>': lambda value, wanted: wanted in value,
}


def match(value: str | None, requirement: str) -> bool:
    """Return whether a value satisfies what an extra spec asks.

    Without an operator the texts must be equal. ``=`` means "at least"; there
    is no numeric ``<`` or ``>``. Raises ValueError where a numeric operator
    meets text, IndexError for ``<or>`` with nothing behind it, as nova does.
    """
    words = requirement.split()
    name = words[0] if words else ''
    if name not in OPERATORS and name not in ('<or>', '<all-in>'):
        return value == requirement
    if value is None:
        return False
    if name == '<or>':
        if len(words) < 2:
            raise IndexError('<or> needs at least one alternative')
        return value in words[1::2]  # those between are not looked at
    if len(words) < 2:
        return False
    if name == '<all-in>':
        return all(word in value for word in words[1:])
    return OPERATORS[name](value, words[1])
