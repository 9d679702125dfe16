# SPDX-License-Identifier: Apache-2.0
"""Deleting an instance: its row first, so that whoever is killed can be followed.

Nova: compute/manager.py, terminate_instance.
"""

from __future__ import annotations

import logging

from novasched.objects.context import RequestContext
from novasched_lab.compute.station import SILENCE, Parts, Station, tell
from novasched_lab.store.migrations import UNDER_WAY

LOG = logging.getLogger(__name__)


class Deletes:
    """Deletes instances from the hosts of a process."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def run(self, context: RequestContext, station: Station, uuid: str) -> None:
        """Delete an instance; one that moved away meanwhile is deleted there."""
        instance = station.servers.instance(uuid)
        if instance is not None and instance.host not in (None, station.name):
            self._pass_on(context, station, uuid, instance.host)
            return
        with station.working_on(uuid):
            station.servers.destroy(uuid)
            station.release(uuid)
            self._end_moves(context, station, uuid)
            self._parts.allocations.remove(context, uuid)
        tell(
            self._parts.news,
            lambda news: news.delete_instance_info(context, station.name, uuid),
            uuid,
        )
        LOG.info('Instance %s is deleted', uuid)

    def _pass_on(
        self, context: RequestContext, station: Station, uuid: str, host: str | None
    ) -> None:
        instance = station.servers.instance(uuid)
        if instance is None or host is None:
            return
        try:
            station.computes.terminate_instance(context, host, instance)
        except SILENCE as problem:
            LOG.warning('%s was not told to delete %s: %s', host, uuid, problem)

    def _end_moves(self, context: RequestContext, station: Station, uuid: str) -> None:
        statuses = (*UNDER_WAY, 'reverting')
        for move in station.servers.migrations_on([station.name], statuses):
            if move.instance_uuid == uuid and station.servers.update_migration(
                move.uuid, statuses, status='error'
            ):
                self._parts.allocations.remove(context, move.uuid)
