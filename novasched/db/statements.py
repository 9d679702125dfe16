# SPDX-License-Identifier: Apache-2.0
"""Compiled statements, shared by the engines of this process.

SQLAlchemy keeps them for each engine, and a cloud has an engine for each cell. To
compile a statement takes some ten milliseconds, so eighty cells would take a second for
each new statement.
"""

from __future__ import annotations

import weakref
from typing import Any

import sqlalchemy as sa

MOST = 1000
"""Statements that are kept; there are some dozens for each kind of server."""

_OF_ONE_DATABASE = frozenset({'default_schema_name'})
_PLAIN = (bool, int, str, tuple, type(None))


class CompiledStatements(dict[Any, Any]):
    """The execution option ``compiled_cache`` of engines.

    Its keys begin with the dialect of an engine. Here the settings of the dialect stand
    instead, such as the version of its server, as dialects are compared by these.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kinds: weakref.WeakKeyDictionary[sa.Dialect, Any] = (
            weakref.WeakKeyDictionary()
        )

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._alike(key), default)

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self) >= MOST:
            self.clear()
        super().__setitem__(self._alike(key), compiled)

    def _alike(self, key: Any) -> Any:
        """Return the key without the dialect, which has connected once by now."""
        if not isinstance(key, tuple) or not isinstance(key[0], sa.Dialect):
            return key
        dialect, *others = key
        kind = self._kinds.get(dialect)
        if kind is None:
            kind = self._kinds[dialect] = _kind(dialect)
        return kind, *others


def _kind(dialect: sa.Dialect) -> tuple[Any, ...]:
    settings = (
        (name, value)
        for name, value in sorted(vars(dialect).items())
        if isinstance(value, _PLAIN) and name not in _OF_ONE_DATABASE
    )
    return type(dialect), *settings


SHARED = CompiledStatements()
