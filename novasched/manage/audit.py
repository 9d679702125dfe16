# SPDX-License-Identifier: Apache-2.0
"""What placement has that it must not have: who, since when, and what mends it."""

from __future__ import annotations

import argparse
import datetime
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import sqlalchemy as sa
from keystoneauth1.adapter import Adapter

from novasched import errors
from novasched.journal import recovery, store
from novasched.journal.store import OPEN, FileJournal, Record, abandoned
from novasched.manage.program import CommandProgram, Listing, Rows
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json
from novasched.placement import session
from novasched.placement.allocations import VERSION, held_by
from novasched.placement.rollback import claim_recovery
from novasched.ports import CELL0_UUID, QueryFailed
from novasched.process import configuration
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched.runtime.state_directory import OPTS as STATE_OPTS

FOUND, MENDED = 3, 4
ENDED = ('cancelled', 'completed', 'confirmed', 'done', 'error', 'failed', 'reverted')
"""States of migrations that need nothing any more, but for evacuations: the source
gives back what the server had there once it is up again."""
COLUMNS = ('Problem', 'Consumer', 'Provider', 'Details', 'Since', 'Command')
DELETE = 'openstack resource provider allocation delete {}'
UNSET = 'openstack resource provider allocation unset {}'
LIVE = 'openstack server migrate --live-migration {}'
MOVES = {'active': LIVE, 'paused': LIVE, 'stopped': 'openstack server migrate {}'}
"""Commands that move a server to another host, by its state; from others none does."""
HEAL = 'nova-manage placement heal_allocations --force --instance {}'
FIX = 'novasched-manage placement audit --fix'
DONE = 'undone'

_MAPPINGS = sa.text('SELECT instance_uuid, cell_id FROM instance_mappings')
_COMPUTES = sa.text('SELECT uuid FROM compute_nodes WHERE deleted = 0')
_SERVERS = sa.text(
    'SELECT i.uuid, n.uuid AS node, i.vm_state FROM instances i '
    'LEFT JOIN compute_nodes n ON n.host = i.host '
    'AND n.hypervisor_hostname = i.node AND n.deleted = 0 WHERE i.deleted = 0'
)
_MIGRATIONS = sa.text(
    'SELECT uuid, instance_uuid, status, migration_type FROM migrations'
)


class Finding(NamedTuple):
    """One row of the report; ``is_mended``: it was true, and is so no more."""

    problem: str
    consumer: str
    providers: Sequence[str]
    details: str
    command: str
    is_mended: bool = False


class Books:
    """Providers, and what consumers have taken of each."""

    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter
        self._context = RequestContext(is_admin=True, overwrite=False)
        self.taken: dict[str, dict[str, Mapping[str, int]]] = {}
        self.over: dict[str, list[str]] = {}
        listed = self._get('/resource_providers')['resource_providers']
        self.roots = {each['uuid']: each['root_provider_uuid'] for each in listed}
        for uuid in self.roots:
            self._read(uuid)

    def _get(self, path: str) -> Any:
        answer = session.ask(self._adapter, self._context, 'GET', path, VERSION)
        if isinstance(answer, session.NoAnswer) or answer.status_code != 200:
            raise errors.StoreFailed('Placement', session.failed(answer).text)
        return parse_json(answer.content)

    def _read(self, uuid: str) -> None:
        path, used = f'/resource_providers/{uuid}', Counter[str]()
        inventories = self._get(f'{path}/inventories')['inventories']
        for consumer, part in self._get(f'{path}/allocations')['allocations'].items():
            self.taken.setdefault(consumer, {})[uuid] = part['resources']
            used.update(part['resources'])
        for name, has in inventories.items():
            total, reserved = has['total'], has['reserved']
            if reserved >= total:  # nothing more may be taken; what was, may stay
                reserved = 0
            capacity = int((total - reserved) * has['allocation_ratio'])
            if used[name] > capacity:
                said = f'{used[name]} of {capacity} {name} are used'
                said += f', {reserved} of {total} are reserved' if reserved else ''
                self.over.setdefault(uuid, []).append(said)

    def age_s(self, consumer: str) -> float | None:
        """Return the age of what a consumer holds, or None if it holds nothing."""
        held = held_by(self._adapter, self._context, consumer)
        if isinstance(held, QueryFailed):
            raise errors.StoreFailed('Placement', held.text)
        return (held.age_s or 0.0) if held.allocations else None

    def newest(self, consumers: Iterable[str]) -> str:
        """Return the consumer whose allocations were changed last."""
        return min(consumers, key=lambda consumer: self.age_s(consumer) or 0.0)


class NovaConsumers:
    """Consumers as nova knows them."""

    def __init__(self, program: CommandProgram) -> None:
        # of live servers; None if no live compute has the node
        self.nodes: dict[str, str | None] = {}
        self.states: dict[str, str | None] = {}
        # moving: servers whose moves have not ended; known: may hold something
        self.computes, self.moving, self.known = set[str](), set[str](), set[str]()
        self.others: dict[str, str] = {}  # why they should hold nothing
        with program.api() as api, api.read() as connection:
            for uuid, cell_id in connection.execute(_MAPPINGS):
                self.others[uuid] = 'the server is deleted'
                self.known |= {uuid} if cell_id is None else set()
        for cell in program.all_cells():
            with program.cell(cell) as database, database.read() as connection:
                self._read(connection, cell.uuid == CELL0_UUID)
        self.known |= self.nodes.keys()

    def _read(self, connection: sa.Connection, is_cell0: bool) -> None:
        self.computes.update(connection.execute(_COMPUTES).scalars())
        for uuid, node, state in connection.execute(_SERVERS):
            if is_cell0:
                self.others[uuid] = 'the server is in cell0: no host was found for it'
            else:
                self.nodes[uuid], self.states[uuid] = node, state
        for uuid, server, status, kind in connection.execute(_MIGRATIONS):
            self.others[uuid] = f'migration of {server} that is {status}'
            if status not in ENDED or (kind, status) == ('evacuation', 'done'):
                self.moving.add(server)
            if status not in ENDED:
                self.known.add(uuid)

    def can_move(self, uuid: str, node: str) -> bool:
        """Return whether a server has settled on a node, and can be moved off it."""
        is_settled = self.nodes.get(uuid) == node and uuid not in self.moving
        return is_settled and self.states[uuid] in MOVES


def over_capacity(books: Books, cloud: NovaConsumers) -> Iterator[Finding]:
    for provider, said in books.over.items():
        root, command = books.roots[provider], ''
        holders = [uuid for uuid, held in books.taken.items() if provider in held]
        movable = [uuid for uuid in holders if cloud.can_move(uuid, root)]
        newest = books.newest(movable or holders)
        if movable:
            command = MOVES[str(cloud.states[newest])].format(newest)
        yield Finding('over capacity', newest, [provider], '; '.join(said), command)


def orphans(books: Books, cloud: NovaConsumers) -> Iterator[Finding]:
    for consumer, held in books.taken.items():
        if consumer not in cloud.known:
            why = cloud.others.get(consumer, 'no cell knows it, and no mapping')
            command = DELETE.format(consumer)
            yield Finding('orphan', consumer, [*held], why, command)


def doubled(books: Books, cloud: NovaConsumers) -> Iterator[Finding]:
    for consumer in books.taken.keys() & cloud.nodes.keys() - cloud.moving:
        held, own = books.taken[consumer], cloud.nodes[consumer]
        on = {books.roots[uuid] for uuid in held} & cloud.computes
        if len(on) < 2:
            continue
        others = [uuid for uuid in held if books.roots[uuid] in on - {own}]
        details = f'it is on {own or "no compute"}'
        command = (HEAL if own else DELETE).format(consumer)
        if own in on:
            named = ' '.join(f'--provider {uuid}' for uuid in others)
            command = UNSET.format(f'{named} {consumer}')
        yield Finding('doubled', consumer, others, details, command)


def dead_claims(
    path: str, adapter: Adapter, at_most_s: float, fix: bool
) -> Iterator[Finding]:
    """Yield the claims that stand of workers that were killed before they answered, by
    their journal; ``fix``: undo those that nobody else has made since."""
    claims = claim_recovery(adapter)

    def stands(record: Record) -> bool:
        consumer, generation = record.intent.consumer_uuid, record.intent.generation
        return claims.stands(consumer, record.holds(), generation)

    standing = [
        record
        for file in abandoned(path, lambda name, problem: None)
        for record in file.content().records
        if record.state == OPEN and record.added() and stands(record)
    ]
    if fix and standing:
        with closing(FileJournal(path)) as own:
            recovery.Recovery(own, claims, at_most_s).undo_left_claims()
    for record in standing:
        consumer, request_id = record.intent.consumer_uuid, record.intent.request_id
        details = f'request {request_id} was not answered'
        is_mended = fix and not stands(record)
        providers = record.added()
        yield Finding('dead claim', consumer, providers, details, FIX, is_mended)


class PlacementAudit(Listing):
    """List what placement must not have, and the command that mends it.

    Findings are providers over capacity, orphans of unknown or ended servers and
    migrations, and servers that hold several nodes without a move. The journal of this
    machine shows claims of killed workers. Exit codes: 0 nothing, 3 findings, 4 all
    mended, 255 placement or a database failed.
    """

    arguments = {
        '--fix': 'Undo the claims of killed workers: they are certainly ours, and hold '
        'what they were made with. Nothing else is changed.'
    }

    def run(self, parsed_args: argparse.Namespace) -> int:
        self.code = 0
        return super().run(parsed_args) or self.code

    def take_action(self, parsed_args: argparse.Namespace) -> Rows:
        conf = self.app.conf
        for options in (session.OPTS, store.OPTS, recovery.OPTS, STATE_OPTS):
            configuration.register(conf, options.items())
        adapter = session.from_conf(conf)
        found = list[Finding]()
        if path := store.directory_from_conf(conf).path:
            at_most_s = conf.novasched.journal_undo_within
            found += dead_claims(path, adapter, at_most_s, parsed_args.fix)
        books = Books(adapter)
        cloud = NovaConsumers(self.app)
        dead = {each.consumer for each in found}
        found += over_capacity(books, cloud)
        found += (each for each in orphans(books, cloud) if each.consumer not in dead)
        found += doubled(books, cloud)
        made = (_row(each, books.age_s(each.consumer)) for each in found)
        rows = [row for row in made if row]
        if rows:
            self.code = MENDED if all(row[-1] == DONE for row in rows) else FOUND
        return COLUMNS, rows


def _row(found: Finding, age_s: float | None) -> tuple[str, ...] | None:
    """Return the row of a finding, or None if it has ended by itself meanwhile."""
    if age_s is None and not found.is_mended:
        return None
    since = SYSTEM_CLOCK.utcnow() - datetime.timedelta(seconds=age_s or 0)
    return (
        found.problem,
        found.consumer,
        ' '.join(found.providers),
        found.details,
        '' if age_s is None else f'{since:%Y-%m-%dT%H:%M:%SZ}',
        DONE if found.is_mended else found.command,
    )
