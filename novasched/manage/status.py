# SPDX-License-Identifier: Apache-2.0
"""The program novasched-status: may a scheduler take over here?

Checks of `upgrade check` that nova-status has, too, have its names, its codes and
nearly its words.
"""

from __future__ import annotations

import argparse
import enum
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import prettytable
import requests
import sqlalchemy as sa
from keystoneauth1 import exceptions as ksa
from oslo_config import cfg

from novasched import errors, opts, preflight
from novasched.cluster.heartbeat import BINARY, SERVICE_VERSION
from novasched.cluster.services import OLDEST_COMPUTE_VERSION, OLDEST_RELEASE
from novasched.db import cells, services, tables
from novasched.db.stores import SqlServiceStore
from novasched.manage.program import Action, CommandProgram
from novasched.parsing import parse_json
from novasched.placement import session
from novasched.ports import CELL0_UUID
from novasched.rpc import transport

TITLE = 'Upgrade Check Results'
WIDTH = 60
PLACEMENT_VERSION = (1, 36)


class CheckCode(enum.IntEnum):
    """How a check ends, and the exit code of all of them: the highest."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


class Verdict(NamedTuple):
    """The outcome of a check; ``details`` say what was found and what to do."""

    code: CheckCode
    details: str | None = None


SUCCESS = Verdict(CheckCode.SUCCESS)

FEW_CELLS = (
    'There needs to be at least two cell mappings, one for cell0 and one for your '
    "first cell. Run commands 'novasched-manage cell_v2 map_cell0' and "
    "'novasched-manage cell_v2 create_cell' and then retry."
)
NO_CELL0 = (
    "No cell0 mapping found. Run command 'novasched-manage cell_v2 map_cell0' and "
    'then retry.'
)
NO_MAPPINGS = (
    'No host mappings found but there are compute nodes. Run command '
    "'novasched-manage cell_v2 discover_hosts' and then retry."
)
NO_HOSTS = (
    'No host mappings or compute nodes were found. Remember to run command '
    "'novasched-manage cell_v2 discover_hosts' when new compute hosts are deployed."
)
NO_CREDENTIALS = 'No credentials specified for placement API in nova.conf.'
WRONG_CREDENTIALS = 'Placement service credentials do not work.'
NOT_RUNNING = 'Placement API does not seem to be running.'
PLACEMENT_PROBLEMS = {
    ksa.MissingAuthPlugin: NO_CREDENTIALS,
    ksa.Unauthorized: WRONG_CREDENTIALS,
    ksa.EndpointNotFound: 'Placement API endpoint not found.',
    ksa.DiscoveryFailure: 'Discovery for placement API URI failed.',
}


def failure(details: str) -> Verdict:
    """Return the verdict that something stops an upgrade."""
    return Verdict(CheckCode.FAILURE, details)


class Status(CommandProgram):
    """Reads the whole configuration of the scheduler and looks at what it names."""

    NAME = 'novasched-status'
    DESCRIPTION = 'Tell whether novasched-scheduler can run in this cloud.'
    CONSOLE_MESSAGE_FORMAT = f'{NAME}: %(message)s'
    CONFIGURED_AS = 'nova-scheduler'

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register every option of the scheduler."""
        opts.register(conf)


def cells_v2(program: Status) -> Verdict:
    """Look for cell0, a first cell, and host mappings if there are computes."""
    with program.api() as api, api.read() as connection:
        uuids = {cell.uuid for cell in cells.read(connection, program.url_defaults)}
        mapped = cells.mapped_hosts(connection)
    if len(uuids) < 2:
        return failure(FEW_CELLS)
    if CELL0_UUID not in uuids:
        return failure(NO_CELL0)
    if mapped:
        return SUCCESS
    if _has_nodes(program):
        return failure(NO_MAPPINGS)
    return Verdict(CheckCode.SUCCESS, NO_HOSTS)


def _has_nodes(program: Status) -> bool:
    """Say whether some cell has a live compute node."""
    query = sa.select(sa.exists().where(tables.compute_nodes.c.deleted == 0))
    for cell in program.all_cells():
        with program.cell(cell) as database, database.read() as connection:
            if connection.execute(query).scalar():
                return True
    return False


def placement_api(program: Status) -> Verdict:
    """Ask placement for its version."""
    adapter = session.from_conf(program.conf)
    if adapter.auth is None:
        return failure(NO_CREDENTIALS)
    try:
        answer = adapter.get('/')
        newest = parse_json(answer.content)['versions'][0]['max_version']
    except ksa.ClientException as problem:
        kinds = (kind for kind in PLACEMENT_PROBLEMS if isinstance(problem, kind))
        known = [PLACEMENT_PROBLEMS[kind] for kind in kinds]
        return failure(known[0] if known else f'{NOT_RUNNING} {problem}')
    except (ValueError, LookupError, TypeError):
        refused = answer.status_code == requests.codes.unauthorized
        return failure(WRONG_CREDENTIALS if refused else NOT_RUNNING)
    finally:
        adapter.session.session.close()
    needed = '.'.join(map(str, PLACEMENT_VERSION))
    if tuple(map(int, newest.split('.'))) >= PLACEMENT_VERSION:
        return SUCCESS
    return failure(f'Placement API version {needed} needed, you have {newest}.')


def computes(program: Status) -> Verdict:
    """Look for computes that are older than supported, in every cell."""
    versions = []
    for cell in program.all_cells():
        with program.cell(cell) as database, database.read() as connection:
            versions.append(services.minimum_version(connection, services.COMPUTE))
    oldest = min(filter(None, versions), default=OLDEST_COMPUTE_VERSION)
    if oldest >= OLDEST_COMPUTE_VERSION:
        return SUCCESS
    return failure(
        f'Current Nova version does not support computes older than {OLDEST_RELEASE} '
        f'but the minimum compute service level in your system is {oldest} and the '
        f'oldest supported service level is {OLDEST_COMPUTE_VERSION}.'
    )


def schedulers(program: Status) -> Verdict:
    """Find out whether all other schedulers are newer than this program."""
    with program.main() as main:
        SqlServiceStore(main.engine).check_version(BINARY, SERVICE_VERSION)
    return SUCCESS


def databases(program: Status) -> Verdict:
    """Look for the tables and columns that are read, in every database."""
    missing: list[str] = []
    with program.api() as api:
        missing += tables.lacking(api, tables.API)
    with program.main() as main:
        missing += tables.lacking(main, tables.CELL)
    for cell in program.all_cells():
        with program.cell(cell) as database:
            missing += tables.lacking(database, tables.CELL)
    return failure(f'{"; ".join(dict.fromkeys(missing))}.') if missing else SUCCESS


def message_queue(program: Status) -> Verdict:
    """Connect to the broker of transport_url, and close the connection again."""
    opened = transport.transport_from_conf(program.conf)
    try:
        transport.check(opened)
    finally:
        opened.cleanup()
    return SUCCESS


def scheduler(program: Status) -> Verdict:
    """Make what answers requests, with its driver, filters and weighers."""
    profile = preflight.load_plugins(program.conf)
    with preflight.opened(program.conf, profile):
        return _warned(preflight.deprecations(profile))


def options(program: Status) -> Verdict:
    """Look for options that are misspelt, or set and do nothing here."""
    return _warned(preflight.warnings(program.conf))


def _warned(lines: Iterable[str]) -> Verdict:
    text = ' '.join(lines)
    return Verdict(CheckCode.WARNING, text) if text else SUCCESS


CHECKS: dict[str, Callable[[Status], Verdict]] = {
    'Cells v2': cells_v2,
    'Placement API': placement_api,
    'Older than N-1 computes': computes,
    'Newer schedulers': schedulers,
    'Databases': databases,
    'Message queue': message_queue,
    'Driver, filters and weighers': scheduler,
    'Options': options,
}


def judge(program: Status) -> dict[str, Verdict]:
    """Run every check; one that cannot be made is a failure, not the end.

    A cause that an earlier check named is not repeated.
    """
    verdicts: dict[str, Verdict] = {}
    first: dict[str, str] = {}
    for name, check in CHECKS.items():
        try:
            verdicts[name] = check(program)
        except errors.NovaschedError as problem:
            before = first.setdefault(_cause(problem), name)
            said = str(problem) if before == name else f'Skipped: see {before}.'
            verdicts[name] = failure(said)
    return verdicts


def _cause(problem: errors.NovaschedError) -> str:
    """Return a key of the cause, so that one cause is shown once."""
    cause = problem.__cause__
    return str(cause if isinstance(cause, ImportError) else problem)


class UpgradeCheck(Action):
    """Look at the cells, placement, the services, the databases and the options.

    Exit codes are those of nova-status: 0 all is well, 1 there are warnings, 2 there
    are failures, which stop an upgrade, and 255 something unexpected happened.
    """

    app: Status

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '-f',
            '--format',
            choices=('table', 'json'),
            default='table',
            help='The output format, defaults to table.',
        )
        parser.add_argument(
            '--json', dest='format', action='store_const', const='json', help='-f json'
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        verdicts = judge(self.app)
        self.say((_json if parsed_args.format == 'json' else _table)(verdicts))
        return max(verdict.code for verdict in verdicts.values())


def _table(verdicts: Mapping[str, Verdict]) -> str:
    table = prettytable.PrettyTable([TITLE], hrules=prettytable.HRuleStyle.ALL)
    table.align = 'l'
    for name, (code, details) in verdicts.items():
        shown = details and '\n'.join(
            textwrap.wrap(details, WIDTH, subsequent_indent='  ')
        )
        table.add_row([f'Check: {name}\nResult: {code.name.title()}\nDetails: {shown}'])
    return str(table)


def _json(verdicts: Mapping[str, Verdict]) -> str:
    checks = [
        {'check': name, 'result': int(code), 'details': details}
        for name, (code, details) in verdicts.items()
    ]
    return json.dumps({'name': TITLE, 'checks': checks})
