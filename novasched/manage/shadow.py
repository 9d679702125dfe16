# SPDX-License-Identifier: Apache-2.0
"""Checks of `upgrade check --shadow`: a shadow gets what it needs, and may only read.

They take the place of those that only a scheduler which serves needs.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from keystoneauth1 import exceptions as ksa

from novasched import app
from novasched.db import engines, tables
from novasched.db.privileges import privileges
from novasched.db.transactions import Database, location
from novasched.decisions import files
from novasched.manage.program import CommandProgram
from novasched.manage.verdict import SUCCESS, CheckVerdict, failure, warned
from novasched.observability.instrumentation import Instrumentation
from novasched.placement import session
from novasched.process.service import host_of
from novasched.rpc import tap_permissions, transport

READER = 'novasched_read'
LOOK = '/allocation_candidates?resources=VCPU:1&limit=1'
VERSION = {'OpenStack-API-Version': 'placement 1.36'}


def _databases(
    program: CommandProgram,
) -> Iterator[tuple[str, Database, list[str]]]:
    """Yield each database once: where it is named, and the tables that are read."""
    in_cells = list(tables.CELL.tables)
    with program.api() as api:
        yield engines.API, api, list(tables.API.tables)
    with program.main() as main:
        seen = {main.engine.url}
        yield engines.MAIN, main, in_cells
    for cell in program.all_cells():
        with program.cell(cell) as database:
            if database.engine.url not in seen:
                seen.add(database.engine.url)
                yield f'Cell {engines.label(cell)}', database, in_cells
    engine = engines.placement_engine(program.conf)
    if engine is not None:
        try:
            yield engines.PLACEMENT, Database(engine), []
        finally:
            engine.dispose()


def accounts(program: CommandProgram) -> CheckVerdict:
    """Look what the accounts of all databases may read, and whether they may write."""
    unreadable, writable = [], []
    missing: list[str] = []
    making: list[str] = []
    for named, database, needed in _databases(program):
        found = privileges(database, needed)
        user, where = database.engine.url.username, location(database.engine)
        if found.unreadable:
            why = next(iter(found.unreadable.values()))
            lacking = ', '.join(sorted(found.unreadable))
            unreadable.append(f'{named}: {where}: it may not read {lacking}: {why}.')
            missing.append(_grant(database.engine, user or ''))
        elif found.writable:
            writable.append(
                f'{named}: {where}: {user} may write, such as to {found.writable}.'
            )
            making += [_new(database.engine), _grant(database.engine, READER)]
    if unreadable:
        return failure(' '.join(unreadable), dict.fromkeys(missing))
    if writable:
        writable.append(
            'A shadow writes nothing, and its sessions are read-only. With an account '
            'of its own, which the commands make, the servers see to that. The account '
            'of a cell is named by its mapping: see "An account that may only read" in '
            'docs/reference/plan.md.'
        )
    return warned(writable, dict.fromkeys(making))


def _new(engine: sa.Engine) -> str:
    if engine.dialect.name == 'postgresql':
        return f'psql -c "CREATE ROLE {READER} LOGIN PASSWORD \'...\'"'
    return f"CREATE USER '{READER}'@'%' IDENTIFIED BY '...';"


def _grant(engine: sa.Engine, account: str) -> str:
    name = engine.url.database
    if engine.dialect.name == 'postgresql':
        granted = f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO {account}'
        return f'psql -d {name} -c "{granted}"'
    return f"GRANT SELECT ON {name}.* TO '{account}'@'%';"


def broker(program: CommandProgram) -> CheckVerdict:
    """Tap for a moment, and look whether the account may do more than that."""
    conf = program.conf
    app.use_names_of_release(conf)
    opened = transport.transport_from_conf(conf)
    try:
        transport.check(opened)
    finally:
        opened.cleanup()
    if not transport.is_rabbit(conf):
        return failure(f'{transport.OPTION}: a shadow needs RabbitMQ.')
    account = tap_permissions.account(conf)
    problem = tap_permissions.problem(conf, Instrumentation().requests, host_of(conf))
    if problem is None:
        return _excess(program, account)
    if 'NOT_FOUND' in problem:
        return warned(
            [
                f'{problem}. No nova-scheduler has made it yet, or [DEFAULT] '
                'control_exchange or the virtual host is another one than that of nova.'
            ]
        )
    return failure(
        f'{account} cannot tap: {problem}.', [tap_permissions.grant(conf, account)]
    )


def _excess(program: CommandProgram, account: str) -> CheckVerdict:
    found = tap_permissions.excess(program.conf)
    if not found:
        return SUCCESS
    return warned(
        [
            f'{account} may also {", ".join(found)}. A shadow does not: give it an '
            'account of its own, and name that in [DEFAULT] transport_url.'
        ],
        [
            f'rabbitmqctl add_user {tap_permissions.ACCOUNT} PASSWORD',
            tap_permissions.grant(program.conf),
        ],
    )


def placement(program: CommandProgram) -> CheckVerdict:
    """Ask placement what a shadow asks it."""
    adapter = session.from_conf(program.conf)
    try:
        answer = adapter.get(LOOK, headers=VERSION)
    except ksa.ClientException:
        return failure('Skipped: see Placement API.')
    finally:
        adapter.session.session.close()
    if answer.ok:
        return SUCCESS
    return failure(
        f'{answer.url} answers HTTP {answer.status_code}: the user of [placement] '
        'needs the role service, or admin.'
    )


def decisions(program: CommandProgram) -> CheckVerdict:
    """Look for the directory of the records, which must be the shadow's own."""
    path, warning = files.from_conf(program.conf)
    if path is None or warning:
        wanted = program.conf.novasched.decisions_dir or '/var/lib/novasched-shadow'
        command = f'install -d -o nova -g nova -m 0700 {wanted}'
        return failure(str(warning), [command])
    if _serves(Path(path)):
        return failure(
            f'{path} has the records of a novasched-scheduler that serves: set '
            f'[novasched] {files.OPTION} to a directory of the shadow alone.'
        )
    return SUCCESS


def _serves(directory: Path) -> bool:
    """Return whether the newest records in a directory are not of a shadow."""
    try:
        newest = files.numbered(directory)[-1:]
        for file in newest:
            with files.opened_to_read(file.path) as connection:
                has_records = connection.execute('SELECT 1 FROM decisions LIMIT 1')
                return bool(has_records.fetchone()) and not files.has_table(
                    connection, 'listened'
                )
    except (OSError, sqlite3.Error):
        pass  # there are none
    return False
