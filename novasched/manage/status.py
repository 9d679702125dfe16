# SPDX-License-Identifier: Apache-2.0
"""The program novasched-status: may a scheduler take over here?

Checks of `upgrade check` that nova-status has, too, have its names, its codes and
nearly its words.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import textwrap
from collections.abc import Callable, Mapping, Sequence

import prettytable
import requests
import sqlalchemy as sa
from keystoneauth1 import exceptions as ksa
from oslo_config import cfg

from novasched import app, errors, http
from novasched.app import preflight
from novasched.cluster import release
from novasched.cluster.heartbeat import BINARY
from novasched.cluster.release import FoundRelease
from novasched.compat import removed_options
from novasched.db import cells, engines, services, tables, transactions
from novasched.db.servers import SqlServers
from novasched.db.stores import SqlServiceStore
from novasched.db.transactions import Database
from novasched.external import attestation as trusted
from novasched.external import network, servicegroup
from novasched.inspection.questions import unchecked
from novasched.manage import shadow
from novasched.manage.program import FAILED, TRANSPORT_URL, Action, CommandProgram
from novasched.manage.verdict import SUCCESS, CheckCode, CheckVerdict, failure, warned
from novasched.observability import serving
from novasched.parsing import parse_json
from novasched.placement import session
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.ports import CELL0_UUID
from novasched.process import configuration, opts, service
from novasched.rpc import transport
from novasched.rpc.shared_picks import topics
from novasched.runtime.clock import SYSTEM_CLOCK

TITLE = 'Upgrade Check Results'
WIDTH = 60
PLACEMENT_VERSION = (1, 36)


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
NO_CREDENTIALS = (
    'No credentials specified for placement API in nova.conf. Set [placement] '
    'auth_type, and the options of the plugin that it names.'
)
WRONG_CREDENTIALS = 'Placement service credentials do not work.'
NOT_RUNNING = 'Placement API does not seem to be running.'
ONE_TRY = (
    "In placement's own configuration set [placement] allocation_conflict_retry_count "
    'to 1: with 10, the default, it lets claims through that put hosts over capacity.'
)
PLACEMENT_PROBLEMS = {
    ksa.MissingAuthPlugin: NO_CREDENTIALS,
    ksa.Unauthorized: WRONG_CREDENTIALS,
    ksa.EndpointNotFound: 'Placement API endpoint not found.',
    ksa.DiscoveryFailure: 'Discovery for placement API URI failed.',
}


class Status(CommandProgram):
    """Reads the whole configuration of the scheduler and looks at what it names."""

    NAME = 'novasched-status'
    DESCRIPTION = 'Tell whether novasched-scheduler can run in this cloud.'
    CONSOLE_MESSAGE_FORMAT = f'{NAME}: %(message)s'
    CONFIGURED_AS = 'nova-scheduler'

    def register_options(self, conf: cfg.ConfigOpts) -> None:
        """Register every option of the scheduler and of the log."""
        configuration.register(conf, opts.with_logging())

    def initialize_app(self, argv: Sequence[str]) -> None:
        """Read the configuration files; one that cannot be read is a failure."""
        try:
            super().initialize_app(argv)
        except (errors.NovaschedError, cfg.Error) as problem:
            self.report(problem)
            raise SystemExit(CheckCode.FAILURE) from problem


def cells_v2(program: Status) -> CheckVerdict:
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
    return CheckVerdict(CheckCode.SUCCESS, NO_HOSTS)


def _has_nodes(program: Status) -> bool:
    """Return whether some cell has a live compute node."""
    query = sa.select(sa.exists().where(tables.compute_nodes.c.deleted == 0))
    for cell in program.all_cells():
        with program.cell(cell) as database, database.read() as connection:
            if connection.execute(query).scalar():
                return True
    return False


def placement_api(program: Status) -> CheckVerdict:
    """Ask placement for its version."""
    adapter = session.from_conf(program.conf)
    if adapter.auth is None:
        return failure(NO_CREDENTIALS)
    try:
        answer = adapter.get('/')
        newest = parse_json(answer.content)['versions'][0]['max_version']
    except ksa.ClientException as problem:
        kinds = (kind for kind in PLACEMENT_PROBLEMS if isinstance(problem, kind))
        known = next((PLACEMENT_PROBLEMS[kind] for kind in kinds), NOT_RUNNING)
        why = http.failure_words(adapter, 'placement', problem)
        return failure(f'{known} {why[:1].upper()}{why[1:]}.')
    except (ValueError, LookupError, TypeError):
        known, option = NOT_RUNNING, 'endpoint_override or the endpoint in the service '
        option += 'catalog'
        if answer.status_code == requests.codes.unauthorized:
            known, option = WRONG_CREDENTIALS, 'auth_type and what it asks for'
        said = f'{answer.url} answers HTTP {answer.status_code}'
        return failure(f'{known} {said}: correct [placement] {option}.')
    finally:
        adapter.session.session.close()
    needed = '.'.join(map(str, PLACEMENT_VERSION))
    if tuple(map(int, newest.split('.'))) >= PLACEMENT_VERSION:
        return SUCCESS
    return failure(f'Placement API version {needed} needed, you have {newest}.')


def network_api(program: Status) -> CheckVerdict:
    """Ask the network service for its versions, if [neutron] has credentials.

    Also asks keystone for the token that goes along with a user's token.
    """
    adapter = network.adapter_from_conf(program.conf)
    adapter.connect_retries = 0
    group, auth = 'neutron', None
    try:
        if adapter.auth is not None:
            answer = adapter.get('/')
            if answer.status_code >= requests.codes.bad_request:
                return failure(
                    f'{answer.url} answers HTTP {answer.status_code}: correct '
                    '[neutron] endpoint_override or the endpoint in the service '
                    'catalog, and auth_type and what it asks for.'
                )
        auth = network.service_auth_from_conf(program.conf)
        if auth is not None:
            group = 'service_user'
            auth.get_token(adapter.session)
    except ksa.ClientException as problem:
        why = http.failure_words(adapter, group, problem, auth)
        return failure(f'[{group}]: {why}.')
    finally:
        adapter.session.session.close()
    return SUCCESS


def _release(program: Status) -> FoundRelease:
    """Return the release that the service will serve; see release.find()."""
    with program.main() as main:
        services_ = servicegroup.services(
            program.conf, SqlServiceStore(main.engine), SYSTEM_CLOCK
        )
        return release.find(program.conf, services_, SYSTEM_CLOCK)


def nova_release(program: Status) -> CheckVerdict:
    """Say which release of nova is served, and how that is known."""
    found = _release(program)
    if found.warning:
        return CheckVerdict(CheckCode.WARNING, f'{found}. {found.warning}')
    return CheckVerdict(CheckCode.SUCCESS, f'{found}.')


def computes(program: Status) -> CheckVerdict:
    """Look for computes that are older than supported, in every cell."""
    versions = []
    for cell in program.all_cells():
        with program.cell(cell) as database, database.read() as connection:
            versions.append(services.minimum_version(connection, services.COMPUTE))
    preflight.check_compute_version(
        min(filter(None, versions), default=0), False, _release(program)
    )
    return SUCCESS


def schedulers(program: Status) -> CheckVerdict:
    """Find out whether all other schedulers are newer than this program."""
    with program.main() as main:
        SqlServiceStore(main.engine).check_version(BINARY)
    return SUCCESS


def databases(program: Status) -> CheckVerdict:
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


def placement_copy(program: Status) -> CheckVerdict:
    """Read placement's database as the copy of it will be read, where it is named; say
    what placement should be told."""
    well = CheckVerdict(CheckCode.SUCCESS, ONE_TRY)
    engine = engines.placement_engine(program.conf)
    if engine is None:
        return well
    try:
        engines.check(engine, engines.PLACEMENT)
        contents = DatabaseReader(Database(engine)).read()
    except errors.StoreFailed as problem:
        return failure(
            f'{engines.PLACEMENT}: {problem}. It must name the database of placement, '
            'and an account that may SELECT from all its tables.'
        )
    finally:
        engine.dispose()
    if len(contents.providers) or not _has_nodes(program):
        return well
    return failure(
        f'{engines.PLACEMENT}: {transactions.location(engine)} has no resource '
        'providers, but there are compute nodes. Name the database of placement: '
        'that of the API of nova has tables of the same names.'
    )


def message_queue(program: Status) -> CheckVerdict:
    """Connect to the brokers as the service will, compare the queues that are there
    with those that it will declare, and close the connections again."""
    conf = program.conf
    if conf.transport_url in ('', TRANSPORT_URL.default):
        held = configuration.held(conf)
        if said := removed_options.broker_warning(held, opts.known()):
            return failure(said)
    app.use_names_of_release(conf)
    opened = transport.transport_from_conf(conf)
    try:
        transport.check(opened)
        transport.check_queues(opened, topics(conf), service.host_of(conf))
        if url := transport.notifications_url(conf):
            transport.check(opened, url=url, option=transport.NOTIFICATIONS)
    finally:
        opened.cleanup()
    return SUCCESS


def heartbeats(program: Status) -> CheckVerdict:
    """Look for the servers of memcached, where heartbeats are kept there."""
    servicegroup.check(program.conf)
    servicegroup.reach(program.conf)
    return SUCCESS


def addresses(program: Status) -> CheckVerdict:
    """Try to listen where health and metrics will be shown."""
    return warned(serving.held_by_schedulers(program.conf))


def scheduler(program: Status) -> CheckVerdict:
    """Make what answers requests, with its driver, filters and weighers, and connect
    to the attestation server where a filter asks it."""
    profile = preflight.load_plugins(program.conf)
    if any(each.name == trusted.TrustedFilter.__name__ for each in profile.filters):
        trusted.check(program.conf)
    with preflight.opened(program.conf, profile):
        return warned(preflight.deprecations(profile))


def policy(program: Status) -> CheckVerdict:
    """Look for demands of flavors, aggregates and server groups that no filter that is
    enabled checks."""
    profile = preflight.load_plugins(program.conf)
    enabled = unchecked.EnabledChecks.from_conf(program.conf, profile)
    with program.api() as database:
        try:
            said = unchecked.sentences_on_store(enabled, SqlServers(database.engine))
        except errors.StoreFailed as problem:
            said = [f'It cannot be looked at: {problem}']
    return warned(f'{each}.' for each in said)


def options(program: Status) -> CheckVerdict:
    """Look for values that are none, and for options that are misspelt, or set and do
    nothing here."""
    invalid = configuration.invalid(program.conf, opts.with_logging())
    if said := ' '.join(map(str, invalid)):
        return failure(said)
    return warned(preflight.warnings(program.conf))


CHECKS: dict[str, Callable[[Status], CheckVerdict]] = {
    'Cells v2': cells_v2,
    'Placement API': placement_api,
    'Nova release': nova_release,
    'Older than N-1 computes': computes,
    'Newer schedulers': schedulers,
    'Databases': databases,
    'Message queue': message_queue,
    'Network API': network_api,
    'Placement database': placement_copy,
    'Heartbeats': heartbeats,
    'Health and metrics': addresses,
    'Driver, filters and weighers': scheduler,
    'Policy': policy,
    'Options': options,
}

SHADOW: dict[str, Callable[[Status], CheckVerdict]] = {
    **{name: check for name, check in CHECKS.items() if name != 'Newer schedulers'},
    'Message queue': shadow.broker,
    'Accounts of databases': shadow.accounts,
    'Account of placement': shadow.placement,
    'Decisions': shadow.decisions,
}


def judge(
    program: Status, checks: Mapping[str, Callable[[Status], CheckVerdict]]
) -> dict[str, CheckVerdict]:
    """Run every check; one that cannot be made is a failure, not the end.

    A cause that an earlier check named is not repeated.
    """
    verdicts: dict[str, CheckVerdict] = {}
    first: dict[str, str] = {}
    for name, check in checks.items():
        try:
            verdicts[name] = check(program)
        except errors.NovaschedError as problem:
            before = first.setdefault(_cause(problem), name)
            said = str(problem) if before == name else f'Skipped: see {before}.'
            verdicts[name] = failure(said)
        except cfg.ConfigSourceValueError:
            verdicts[name] = failure('Skipped: see Options.')
        except Exception as problem:  # noqa: BLE001  the other checks still count
            program.report(problem)
            said = f'Unexpected: {type(problem).__name__}: {problem}'
            verdicts[name] = CheckVerdict(CheckCode.FAILURE, said, expected=False)
    return verdicts


def _cause(problem: errors.NovaschedError) -> str:
    """Return a key of the cause, so that one cause is shown once."""
    cause = problem.__cause__
    return str(cause if isinstance(cause, ImportError) else problem)


class UpgradeCheck(Action):
    """Look at the options, and at all that they have the service connect to.

    Exit codes are as of nova-status: 0 all is well, 1 warnings, 2 failures, which stop
    an upgrade, 255 something unexpected happened.
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
        parser.add_argument(
            '--shadow',
            action='store_true',
            help='Check for a shadow, which may only read. This is the default where '
            '[novasched] shadow is set.',
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        is_shadow = parsed_args.shadow
        with contextlib.suppress(cfg.ConfigSourceValueError):  # Options names it
            is_shadow = is_shadow or self.app.conf.novasched.shadow
        verdicts = judge(self.app, SHADOW if is_shadow else CHECKS)
        self.say((_json if parsed_args.format == 'json' else _table)(verdicts))
        if not all(verdict.expected for verdict in verdicts.values()):
            return FAILED
        return max(verdict.code for verdict in verdicts.values())


def _table(verdicts: Mapping[str, CheckVerdict]) -> str:
    table = prettytable.PrettyTable([TITLE], hrules=prettytable.HRuleStyle.ALL)
    table.align = 'l'
    commands: dict[str, None] = {}
    for name, (code, details, _, mending) in verdicts.items():
        commands.update(dict.fromkeys(mending))
        shown = details and '\n'.join(
            textwrap.wrap(details, WIDTH, subsequent_indent='  ')
        )
        table.add_row([f'Check: {name}\nResult: {code.name.title()}\nDetails: {shown}'])
    lines = ['Commands that mend this:', *commands] if commands else []
    return '\n'.join([str(table), *lines])


def _json(verdicts: Mapping[str, CheckVerdict]) -> str:
    checks = [
        {'check': name, 'result': int(code), 'details': details}
        | ({'commands': commands} if commands else {})
        for name, (code, details, _, commands) in verdicts.items()
    ]
    return json.dumps({'name': TITLE, 'checks': checks})
