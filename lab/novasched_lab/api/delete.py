# SPDX-License-Identifier: Apache-2.0
"""Servers deleted: whatever they are, and wherever.

Nova: compute/api.py, _delete. Other than in nova, a claim is looked for in any case.
"""

from __future__ import annotations

import enum

import oslo_messaging  # type: ignore[import-untyped]

from novasched.objects.context import RequestContext
from novasched.objects.instance import Instance
from novasched_lab.api.service import ApiContext
from novasched_lab.cells import CellLink


class Outcome(enum.Enum):
    """How far a deletion got."""

    DELETED = 'deleted'
    TOLD = 'its host was told'


class DeleteRequest:
    """Deletes servers; ``force`` does not ask their hosts.

    Every method raises errors.StoreFailed.
    """

    def __init__(
        self, api: ApiContext, context: RequestContext, force: bool = False
    ) -> None:
        self._api = api
        self._context = context
        self._force = force

    def run(self, uuid: str) -> Outcome:
        """Delete a server; TOLD: its host does it, then see is_done()."""
        if self._api.database.delete_build(uuid):
            # A conductor that works on it finds that out, and lets go of it.
            self._wipe(uuid)
            return Outcome.DELETED
        link = self._api.cells.of_instance(uuid)
        found = None if link is None else link.servers.instance(uuid)
        if link is None or found is None:
            self._wipe(uuid)
            return Outcome.DELETED
        if self._is_summary(link, found):
            return Outcome.TOLD
        self._wipe(uuid)
        return Outcome.DELETED

    def is_done(self, uuid: str) -> bool:
        """Say whether the host has deleted a server; then nothing is left of it."""
        link = self._api.cells.of_instance(uuid)
        if link is not None and link.servers.instance(uuid) is not None:
            return False
        self._wipe(uuid)
        return True

    def _is_summary(self, link: CellLink, instance: Instance) -> bool:
        """Tell the host of an instance, if it has one that listens."""
        uuid, host = instance.uuid, instance.host
        if host is None or link.computes is None or self._force:
            return False
        link.servers.update(uuid, task_state='deleting')
        link.servers.start_action(self._context, uuid, 'delete')
        try:
            # An administrator, as computes of nova ask Neutron in their own name then.
            link.computes.terminate_instance(self._context.elevated(), host, instance)
        except oslo_messaging.MessagingException:
            return False
        return True

    def _wipe(self, uuid: str) -> None:
        """Take away all rows of a server, wherever it got meanwhile, and its claims."""
        api, admin = self._api, self._context.elevated()
        link = api.cells.of_instance(uuid)
        api.database.forget(uuid)
        for each in (link, api.cells.cell0()):
            if each is not None:
                each.servers.destroy(uuid)
        api.groups.leave([uuid])
        api.allocations.remove(admin, uuid)
        if link is not None:
            self._end_moves(link, uuid)

    def _end_moves(self, link: CellLink, uuid: str) -> None:
        """Let go of what moves hold whose instance is no more."""
        for move, _ in link.servers.moves(uuid):
            if move.status not in ('confirmed', 'error', 'completed'):
                link.servers.update_migration(move.uuid, status='error')
                self._api.allocations.remove(self._context.elevated(), move.uuid)
