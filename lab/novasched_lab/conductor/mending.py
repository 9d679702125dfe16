# SPDX-License-Identifier: Apache-2.0
"""What a conductor that was killed left half done is ended by another.

Nobody can be at work any more on what is older than the longest wait for a scheduler:
it is failed, and what it holds in placement is given back.
"""

from __future__ import annotations

import datetime
import logging
import threading

import sqlalchemy as sa

from novasched import errors
from novasched.db import tables
from novasched.objects.context import RequestContext, admin
from novasched.objects.instance import Instance
from novasched_lab.cells import Link
from novasched_lab.conductor.burial import EVENT, bury, fail
from novasched_lab.conductor.move import NOT_BEGUN, give_back
from novasched_lab.conductor.parts import Parts
from novasched_lab.db import server_tables
from novasched_lab.failures import Interrupted, fault_of
from novasched_lab.store import instances, migrations
from novasched_lab.store.stores import now

LOG = logging.getLogger(__name__)

LONGEST_PAUSE_S = 60.0
LOST = 'The conductor that worked on it has ended.'
NO_VALID_HOST = 'No valid host was found'
"""How the fault of an instance begins for which nothing was claimed."""


class Mending:
    """Looks for work that was left, at the start and then every minute.

    ``after_s`` is how long nothing happened to such work; the pause is no longer.
    """

    def __init__(self, parts: Parts, after_s: float) -> None:
        self._parts = parts
        self._pause_s = min(after_s, LONGEST_PAUSE_S)
        self._after = datetime.timedelta(seconds=after_s)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name='mending', daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()

    def _run(self) -> None:
        while True:
            try:
                self.mend()
            except errors.NovaschedError as problem:
                LOG.warning('What was left half done is not looked for: %s', problem)
            if self._ended.wait(self._pause_s):
                return

    def mend(self) -> None:
        """End what is old. Raises errors.StoreFailed."""
        context, before = admin(), now() - self._after
        links = self._parts.cells.with_computes()
        for instance in self._parts.api.waiting(before):
            self._bury(context, links, instance)
        for link in links:
            self._fail_unsent(context, link, before)
            self._end_moves(context, link, before)
        self._undo_late_claims(context, before)

    def _bury(
        self, context: RequestContext, links: list[Link], instance: Instance
    ) -> None:
        """Bury an instance, in the cell that has it already, if one does."""
        uuid = instance.uuid
        for link in links:
            if link.servers.instance(uuid) is not None:
                self._parts.api.map_to_cell(uuid, link.cell.uuid)
        LOG.warning('Instance %s was not built: %s', uuid, LOST)
        self._parts.allocations.remove(context, uuid)
        bury(self._parts, context, instance, Interrupted(LOST))

    def _fail_unsent(
        self, context: RequestContext, link: Link, before: datetime.datetime
    ) -> None:
        """Fail what was written to a cell, and never sent to a host."""
        i = tables.instances.c
        with link.servers.database.read() as connection:
            found = instances.read(
                connection,
                i.host.is_(None),
                i.vm_state == 'building',
                i.created_at < before,
                (i.updated_at < before) | i.updated_at.is_(None),
            )
        for instance in found:
            LOG.warning('Instance %s was not built: %s', instance.uuid, LOST)
            fault = fault_of(Interrupted(LOST))
            if fail(self._parts, link, instance.uuid, fault, EVENT):
                self._parts.allocations.remove(context, instance.uuid)

    def _end_moves(
        self, context: RequestContext, link: Link, before: datetime.datetime
    ) -> None:
        m = server_tables.migrations.c
        with link.servers.database.read() as connection:
            found = migrations.read(
                connection,
                m.status.in_(NOT_BEGUN),
                sa.func.coalesce(m.updated_at, m.created_at) < before,
            )
        for migration in found:
            LOG.warning('Move %s has not begun: %s', migration.uuid, LOST)
            give_back(self._parts, context, link, migration)

    def _undo_late_claims(
        self, context: RequestContext, before: datetime.datetime
    ) -> None:
        """Free what was claimed for an instance after nobody waited for it any more.

        A scheduler that was too slow to answer may have gone on; nobody else would
        ever find what it holds, as no host has the instance.
        """
        cell0, pause = self._parts.cells.cell0(), datetime.timedelta(0, self._pause_s)
        i, f = tables.instances.c, server_tables.instance_faults.c
        query = (
            sa.select(i.uuid)
            .join_from(
                tables.instances,
                server_tables.instance_faults,
                f.instance_uuid == i.uuid,
            )
            .where(i.created_at.between(before - 3 * pause, before))
            .where(f.message.not_like(f'{NO_VALID_HOST}%'))
        )
        with cell0.servers.database.read() as connection:
            found = connection.execute(query.distinct()).scalars().all()
        for uuid in found:
            self._parts.allocations.remove(context, uuid)
