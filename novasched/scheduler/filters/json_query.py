# SPDX-License-Identifier: Apache-2.0
"""Filter hosts by a query in JSON.

A query is ``[command, argument, ...]``. An argument is a query, text such as
``$free_ram_mb`` or ``$stats.gpu`` that stands for what the host has, or a literal.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.parsing import NestedTooDeep, parse_json
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import (
    Categories,
    Column,
    HostState,
    HostTable,
    Mask,
    Objects,
)
from novasched.scheduler.reasons import Code, Reason

MOST_CHARACTERS = 128 * 1024
"""Nova's API takes no request that is longer."""
MOST_WORDS = 1000
MOST_NESTED = 50

Values = NDArray[Any]
"""One value per host: bool where a command gave it, else Python objects."""

Command = Callable[[Sequence[Values], int], Values]
"""Takes the arguments that are not null and the number of hosts."""


def _same(value: Any, count: int) -> Objects:
    column = np.empty(count, object)
    column.fill(value)
    return column


def _combined(combine: np.ufunc, values: Iterable[Values], count: int) -> Mask:
    """Return for each host whether all, or any, of the values hold."""
    columns = [np.full(count, combine.identity), *(v.astype(bool) for v in values)]
    combined: Mask = combine.reduce(columns)
    return combined


def _comparison(compare: Callable[[Any, Any], Any]) -> Command:
    """Compare the first argument with every other; there must be one."""

    def command(arguments: Sequence[Values], count: int) -> Values:
        if len(arguments) < 2:
            return np.zeros(count, bool)
        compared = (compare(arguments[0], other) for other in arguments[1:])
        return _combined(np.logical_and, compared, count)

    return command


def _among(arguments: Sequence[Values], count: int) -> Values:
    same = (arguments[0] == other for other in arguments[1:])
    return _combined(np.logical_or, same, count)


def _negations(arguments: Sequence[Values], count: int) -> Values:
    """Return a tuple per host; in another command it is true unless it is empty."""
    if not arguments:
        return np.fromiter(itertools.repeat((), count), object, count)
    negated = [(~argument.astype(bool)).tolist() for argument in arguments]
    return np.fromiter(zip(*negated, strict=True), object, count)


COMMANDS: dict[str, Command] = {
    '=': _comparison(operator.eq),
    '<': _comparison(operator.lt),
    '>': _comparison(operator.gt),
    '<=': _comparison(operator.le),
    '>=': _comparison(operator.ge),
    'in': _among,
    'not': _negations,
    'and': functools.partial(_combined, np.logical_and),
    'or': functools.partial(_combined, np.logical_or),
}


def parsed(text: str) -> Any:
    """Return the query in a text.

    Each word costs a column. Raises errors.NoValidHost for a query that is too large,
    which the caller gets, and ValueError for what is no JSON.
    """
    if len(text) > MOST_CHARACTERS:
        raise _too_large(f'{MOST_CHARACTERS} characters')
    try:
        query = parse_json(text)
    except NestedTooDeep:
        raise _too_large(f'{MOST_NESTED} nested queries') from None
    words, level = 0, [query]
    for _ in range(MOST_NESTED):
        level = [word for part in level if isinstance(part, list) for word in part]
        words += len(level)
        if words > MOST_WORDS:
            raise _too_large(f'{MOST_WORDS} commands and arguments')
    if any(isinstance(word, list) for word in level):
        raise _too_large(f'{MOST_NESTED} nested queries')
    return query


def _too_large(bound: str) -> errors.NoValidHost:
    return errors.NoValidHost(f'The hint "query" has more than {bound}.')


def evaluate(query: Any, hosts: HostTable) -> Values:
    """Return the result of a query, per host. Raises on nonsense, as nova does."""
    if not query:
        return np.ones(len(hosts), bool)
    command = COMMANDS[query[0]]
    arguments = [_argument(argument, hosts) for argument in query[1:]]
    null = _same(None, len(hosts))
    there = [(argument != null).astype(bool) for argument in arguments]
    if all(column.all() for column in there):
        return command(arguments, len(hosts))
    values = np.empty(len(hosts), object)
    patterns, which = np.unique(np.stack(there, 1), axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.reshape(-1) == number)
        left = [a[rows] for a, kept in zip(arguments, pattern, strict=True) if kept]
        values[rows] = command(left, len(rows))
    return values


def _argument(argument: Any, hosts: HostTable) -> Values:
    if isinstance(argument, list):
        return evaluate(argument, hosts)
    if isinstance(argument, str) and argument.startswith('$'):
        name, *path = argument[1:].split('.')
        return _column(name, path, hosts)
    return _same(None if argument == '' else argument, len(hosts))


def _column(name: str, path: Sequence[str], hosts: HostTable) -> Objects:
    """Return the values of hosts under a name and a path of keys; None if missing."""
    column = getattr(HostTable, name, None)
    if not isinstance(column, Column):
        own = _same(None, len(hosts))
        for position, value in hosts.set_by_plugins(name).items():
            own[position] = _follow(value, path)
        return own
    values: Any = getattr(hosts, name)
    if isinstance(values, Categories):
        return values.map(lambda value: _follow(value, path), object)
    if column.decode or path:
        decode = column.decode or (lambda value: value)
        found = (_follow(decode(value), path) for value in values.tolist())
        return np.fromiter(found, object, len(hosts))
    whole: Objects = values.astype(object)
    return whole


def _follow(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        if value is None:
            break
        value = value.get(key)
    return value


class JsonFilter(ColumnFilter):
    """Pass hosts that satisfy the query in the hint ``query``.

    A query is a JSON list, as in ``["and", [">=", "$free_ram_mb", 1024], ["=",
    "$stats.gpu", "1"]]``. Its commands are ``= < > <= >= in not and or``. A ``not``
    holds if one argument does not; inside another command it always holds. Raises for
    an invalid query or comparison. No host passes beyond 1000 commands and arguments,
    50 nested queries or 128 KiB. Nova: scheduler/filters/json_filter.py.
    """

    codes = (Code.QUERY_NOT_SATISFIED,)

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        query = request.hint('query')
        if not query or not len(hosts):
            return np.ones(len(hosts), bool)
        values = evaluate(parsed(query), hosts)
        if values.dtype == bool:
            return values
        return np.array(
            [any(v) if isinstance(v, tuple) else bool(v) for v in values.tolist()], bool
        )

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        query = request.hint('query')
        return Reason(Code.QUERY_NOT_SATISFIED, f'does not satisfy {query:.200}')
