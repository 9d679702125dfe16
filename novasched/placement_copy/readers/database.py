# SPDX-License-Identifier: Apache-2.0
"""Reads what placement's database says of providers, packed by the server.

The server joins rows into texts, and numpy parses them: a tenth of what it costs to
fetch row by row. Placement's tables are never written.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from novasched import errors
from novasched.db.transactions import Database
from novasched.providers.contents import NOTHING, Contents
from novasched.providers.generation_cache import GenerationCache
from novasched.providers.hints import NO_HINTS, CloudHints
from novasched.providers.rows import by_provider, unpaired
from novasched.scheduler.columns import Floats, Ints

BUCKET = 2000
"""Provider ids that are packed into one text."""

MAX_TEXT = 64 * 1024 * 1024
"""Bytes of a packed text; MySQL cuts longer ones."""

LONG_TEXTS = 'novasched_long_texts'
"""What connections know of the longest text that was asked for."""

MAX_LISTED = 2000
"""Ids in a statement; for more all providers are read."""

READ_WHOLE = 'novasched_read_whole'
"""Set on connections by which all was read. Another one may lead to another server,
which may have given the same ids and generations to other providers."""

SNAPSHOT = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ'
"""Said first in a transaction, which sees one state of the database then."""

SETTLED_AFTER = datetime.timedelta(seconds=10)
"""A longer transaction may go unnoticed by mark()."""

AT_ONCE = 500
"""Consumers in one statement."""

_HOLDERS = sa.text(
    'SELECT DISTINCT a.consumer_id, p.uuid FROM allocations a '
    'JOIN resource_providers p ON p.id = a.resource_provider_id '
    'WHERE a.consumer_id IN :consumers'
).bindparams(sa.bindparam('consumers', expanding=True))

_USAGES = sa.text(
    'SELECT p.uuid, c.name, SUM(a.used), '
    'MAX(CASE WHEN a.consumer_id IN :consumers THEN 1 ELSE 0 END) '
    'FROM resource_providers p JOIN allocations a ON a.resource_provider_id = p.id '
    'JOIN resource_classes c ON c.id = a.resource_class_id '
    'WHERE p.uuid IN :providers GROUP BY p.uuid, c.name'
).bindparams(
    sa.bindparam('consumers', expanding=True), sa.bindparam('providers', expanding=True)
)

_UPDATE_TIMES = """
SELECT NOW() AS now, UPDATE_TIME AS updated FROM information_schema.TABLES
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN
('resource_providers', 'allocations', 'resource_provider_aggregates')
ORDER BY TABLE_NAME
"""

_RATIOS = {
    'sqlite': 2 * ("printf('%!.17g', allocation_ratio)",),
    'mysql': ('allocation_ratio', 'CAST(allocation_ratio AS DOUBLE)'),
    'mariadb': ('allocation_ratio', 'CAST(allocation_ratio AS DOUBLE)'),
}
"""The ratio as clients read it, and as the server computes with it."""

_SAME = ('allocation_ratio', 'allocation_ratio')

_PROVIDER = (
    'id',
    'COALESCE(generation, 0)',
    'COALESCE(root_provider_id, 0)',
    'COALESCE(parent_provider_id, 0)',
)
_TRAIT = ('resource_provider_id', 'trait_id')
_AGGREGATE = ('resource_provider_id', 'aggregate_id')
"""Columns of Contents; see _inventory() for the others."""


class DatabaseReader:
    """Reads placement's database, in one snapshot at a time.

    Satisfies ports.ProviderStore. Every method raises errors.StoreFailed for whatever
    the driver raises, and for tables that are not placement's.
    """

    reads_fast = True
    behind_s = 0.0

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, hints: CloudHints = NO_HINTS) -> Contents:
        with self._snapshot() as connection:
            return self._whole(connection)

    def read_since(
        self,
        before: Contents,
        include_unversioned: bool,
        recheck: Collection[int] = (),
        hints: CloudHints = NO_HINTS,
    ) -> Contents:
        with self._snapshot() as connection:
            if not connection.info.get(READ_WHOLE):
                return self._whole(connection)
            reader = _ContentsReader(connection)
            providers = reader.providers()
            changed = before.changed(providers, recheck)
            if len(changed) > MAX_LISTED or before.has_regressed(providers):
                return reader.contents(providers)
            after = before
            if len(changed) or not np.array_equal(providers, before.providers):
                fresh = reader.changed(before, providers, changed)
                after = before.updated(fresh, changed)
            return reader.silent_changes(after) if include_unversioned else after

    def trees(
        self,
        known: Contents,
        roots: Collection[int],
        with_aggregates: bool = True,
        terms: str | None = None,
        generations: GenerationCache | None = None,
    ) -> Contents | None:
        """Look by one statement; by some more where what it shows is not known."""
        with self._database.read() as connection:
            shown = _shown_trees(connection, known, roots)
            if known.trees(roots).says_the_same(shown):
                return None
        with self._snapshot() as connection:
            reader = _ContentsReader(connection)
            providers = reader.providers(roots)
            found = reader.changed(known, providers, providers[:, 0])
            return replace(found, usage=NOTHING.usage)

    def read_tree(self, uuid: str) -> Contents:
        with self._snapshot() as connection:
            return _ContentsReader(connection).tree(uuid)

    def holders(self, consumers: Collection[str]) -> dict[str, set[str]]:
        named, found = list(dict.fromkeys(consumers)), dict[str, set[str]]()
        with self._database.read() as connection:
            for start in range(0, len(named), AT_ONCE):
                part = {'consumers': named[start : start + AT_ONCE]}
                for consumer, provider in connection.execute(_HOLDERS, part):
                    found.setdefault(consumer, set()).add(provider)
        return found

    def usages(self, mine: Mapping[str, str]) -> Mapping[str, dict[str, int]] | None:
        named = {'consumers': [*{*mine.values()}], 'providers': [*mine]}
        found, showing = dict[str, dict[str, int]](), set[str]()
        with self._database.read() as connection:
            for uuid, name, used, is_shown in connection.execute(_USAGES, named):
                found.setdefault(uuid, {})[name] = int(used)
                showing |= {uuid} if is_shown else set()
        return found if showing == mine.keys() else None

    def change_token(self) -> object | None:
        with self._database.read() as connection:
            return _quiet_since(connection)

    @staticmethod
    def _whole(connection: sa.Connection) -> Contents:
        reader = _ContentsReader(connection)
        contents = reader.contents(reader.providers())
        connection.info[READ_WHOLE] = True
        return contents

    def close(self) -> None:
        """Do nothing: each statement is bounded, and the engine belongs to others."""

    @contextmanager
    def _snapshot(self) -> Iterator[sa.Connection]:
        with self._database.read() as connection:
            if connection.dialect.name == 'sqlite':
                connection.begin()  # oslo.db's engines begin in the database, too
                if not connection.connection.in_transaction:
                    connection.exec_driver_sql('BEGIN')
            else:
                connection.exec_driver_sql(SNAPSHOT)
            yield connection


def _quiet_since(connection: sa.Connection) -> object | None:
    """Return when the tables that show every change were last written.

    None if that was just now, or the server does not say. The time may be the start of
    a transaction, in whole seconds.
    """
    if connection.dialect.name not in ('mysql', 'mariadb'):
        return None
    if not connection.dialect.is_mariadb:  # type: ignore[attr-defined]
        connection.exec_driver_sql('SET SESSION information_schema_stats_expiry = 0')
    rows = connection.execute(sa.text(_UPDATE_TIMES)).all()
    times = [time for _, time in rows]
    if len(rows) < 3 or None in times or rows[0].now - max(times) < SETTLED_AFTER:
        return None
    return tuple(times)


class _ContentsReader:
    """Reads tables of placement in one transaction."""

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self._dialect = connection.dialect.name
        self._is_mysql = self._dialect in ('mysql', 'mariadb')
        _take_long_texts(connection)

    def contents(self, providers: Ints) -> Contents:
        """Return all that is said of these providers, which are all."""
        return Contents(
            providers=providers,
            inventories=self._inventories(),
            usage=self.usage(),
            traits=self._traits(),
            aggregates=self._aggregates(),
            uuids=self._names('resource_providers', 'uuid'),
            class_names=self._names('resource_classes', 'name'),
            trait_names=self._names('traits', 'name'),
            aggregate_uuids=self._names('placement_aggregates', 'uuid'),
        )

    def tree(self, uuid: str) -> Contents:
        """Return all that is said of the tree that a provider is in."""
        statement = sa.text(
            'SELECT root_provider_id FROM resource_providers WHERE uuid = :uuid'
        )
        id_ = self._connection.execute(statement, {'uuid': uuid}).scalar()
        providers = self.providers([] if id_ is None else [id_])
        return self.changed(NOTHING, providers, providers[:, 0])

    def changed(self, before: Contents, providers: Ints, ids: Ints) -> Contents:
        """Return the rows of the providers of these ids.

        The server never uses an id of a trait or aggregate again. So their names are
        read only if there are ids that ``before`` lacks.
        """
        listed = ids.tolist()
        inventories, usage = self._inventories(listed), self.usage(listed)
        traits, aggregates = self._traits(listed), self._aggregates(listed)
        return Contents(
            providers=providers,
            inventories=inventories,
            usage=usage,
            traits=traits,
            aggregates=aggregates,
            uuids=self._names('resource_providers', 'uuid', listed),
            class_names=self._names('resource_classes', 'name'),
            trait_names=self._known(before.trait_names, [traits], 'traits', 'name'),
            aggregate_uuids=self._known(
                before.aggregate_uuids, [aggregates], 'placement_aggregates', 'uuid'
            ),
        )

    def _known(
        self,
        names: Mapping[int, str],
        rows: Iterable[NDArray[Any]],
        table: str,
        column: str,
    ) -> Mapping[int, str]:
        """Return the names by id; read again if rows have others in column 1."""
        ids = set().union(*(set(each[:, 1].tolist()) for each in rows))
        return names if ids <= names.keys() else self._names(table, column)

    def providers(self, roots: Collection[int] | None = None) -> Ints:
        """Return all providers, or the providers of some trees, by id; see Contents."""
        source = _of('resource_providers', roots, 'root_provider_id')
        found: Ints = self._packed(source, _PROVIDER)
        return found[np.argsort(found[:, 0])]

    def silent_changes(self, contents: Contents) -> Contents:
        """Return contents with what may change without a new generation."""
        usage, aggregates = self.usage(), self._aggregates()
        if len(unpaired(usage, contents.usage)):
            contents = replace(contents, usage=usage)
        if len(unpaired(aggregates, contents.aggregates)):
            known = contents.aggregate_uuids
            uuids = self._known(known, [aggregates], 'placement_aggregates', 'uuid')
            contents = replace(contents, aggregates=aggregates, aggregate_uuids=uuids)
        return contents

    def usage(self, ids: Sequence[int] | None = None) -> Ints:
        """Return the usage of each inventory; see Contents."""
        sums = (
            'SELECT resource_provider_id, resource_class_id, SUM(used) AS used '
            f'FROM {_of("allocations", ids)} '
            'GROUP BY resource_provider_id, resource_class_id'
        )
        columns = ['resource_provider_id', 'resource_class_id', 'used']
        found: Ints = self._packed(f'({sums}) AS sums', columns)
        return found

    def _traits(self, ids: Sequence[int] | None = None) -> Ints:
        return by_provider(self._packed(_of('resource_provider_traits', ids), _TRAIT))

    def _aggregates(self, ids: Sequence[int] | None = None) -> Ints:
        found: Ints = self._packed(_of('resource_provider_aggregates', ids), _AGGREGATE)
        return found

    def _inventories(self, ids: Sequence[int] | None = None) -> Floats:
        columns = _inventory(self._dialect)
        return by_provider(self._packed(_of('inventories', ids), columns, np.float64))

    def _packed(
        self, source: str, columns: Sequence[str], dtype: Any = np.int64
    ) -> Any:
        """Return columns of what stands after FROM, the provider's id first; shape
        (rows, columns)."""
        key, joined = columns[0], _joined(self._dialect, columns)
        division = 'DIV' if self._is_mysql else '/'
        statement = (
            f'SELECT COUNT(*), {joined} FROM {source} '
            f'GROUP BY {key} {division} {BUCKET}'
        )
        rows = self._connection.exec_driver_sql(statement).all()
        parts = [np.fromstring(text, dtype, sep=',') for _, text in rows]
        found = np.concatenate([np.zeros(0, dtype), *parts])
        if len(found) != sum(count for count, _ in rows) * len(columns):
            raise errors.StoreFailed('Placement', f'{source} gave a text that was cut')
        return found.reshape(-1, len(columns))

    def _names(
        self, table: str, column: str, ids: Sequence[int] | None = None
    ) -> dict[int, str]:
        statement = f'SELECT id, {column} FROM {_of(table, ids, "id")}'
        rows = self._connection.exec_driver_sql(statement).all()
        return dict(map(tuple, rows))


def _inventory(dialect: str) -> list[str]:
    """Return the columns of an inventory; see Contents."""
    return [
        'resource_provider_id',
        'resource_class_id',
        'total',
        'reserved',
        'min_unit',
        'max_unit',
        'step_size',
        *_RATIOS.get(dialect, _SAME),
    ]


def _joined(dialect: str, columns: Sequence[str]) -> str:
    """Return the expression that joins columns of all rows into one text."""
    row = " || ',' || ".join(f'CAST({column} AS TEXT)' for column in columns)
    if dialect == 'sqlite':
        return f"group_concat({row}, ',')"
    if dialect == 'postgresql':
        return f"string_agg({row}, ',')"
    return f"GROUP_CONCAT(CONCAT_WS(',', {', '.join(columns)}) SEPARATOR ',')"


def _take_long_texts(connection: sa.Connection) -> None:
    """Have a MySQL server cut no text, once for each connection."""
    is_mysql = connection.dialect.name in ('mysql', 'mariadb')
    if is_mysql and connection.info.get(LONG_TEXTS) != MAX_TEXT:
        connection.exec_driver_sql(f'SET SESSION group_concat_max_len = {MAX_TEXT}')
        connection.info[LONG_TEXTS] = MAX_TEXT


def _shown_trees(
    connection: sa.Connection, known: Contents, roots: Collection[int]
) -> Contents:
    """Return the trees of some roots as one statement shows them, by the names that are
    known."""
    _take_long_texts(connection)
    dialect = connection.dialect.name
    parts = [
        f'(SELECT {_joined(dialect, columns)} FROM {table} '
        'WHERE resource_provider_id = resource_providers.id)'
        for table, columns in (
            ('inventories', _inventory(dialect)),
            ('resource_provider_traits', _TRAIT),
            ('resource_provider_aggregates', _AGGREGATE),
        )
    ]
    rows = connection.exec_driver_sql(
        f'SELECT uuid, {", ".join([*_PROVIDER, *parts])} '
        f'FROM {_of("resource_providers", roots, "root_provider_id")}'
    ).all()
    inventories, traits, aggregates = (
        _parsed((row[5 + at] for row in rows), width, dtype)
        for at, (width, dtype) in enumerate(
            ((9, np.float64), (2, np.int64), (2, np.int64))
        )
    )
    return replace(
        known,
        providers=np.array([row[1:5] for row in rows], np.int64).reshape(-1, 4),
        inventories=inventories,
        usage=NOTHING.usage,
        traits=traits,
        aggregates=aggregates,
        uuids={row[1]: row[0] for row in rows},
    )


def _parsed(texts: Iterable[str | None], width: int, dtype: Any) -> Any:
    """Return the rows that texts say; shape (rows, width)."""
    found = np.fromstring(','.join(filter(None, texts)), dtype, sep=',')
    return found.reshape(-1, width)


def _of(
    table: str, ids: Iterable[int] | None, key: str = 'resource_provider_id'
) -> str:
    """Return a table, or the part of it that is about some providers."""
    if ids is None:
        return table
    # Literals: to bind each one would cost more than to read its row.
    return f'{table} WHERE {key} IN ({", ".join(map(str, ids)) or "NULL"})'
