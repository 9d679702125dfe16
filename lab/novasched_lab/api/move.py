# SPDX-License-Identifier: Apache-2.0
"""Servers moved to another host, resized or not. Nova: compute/api.py, resize."""

from __future__ import annotations

from typing import NamedTuple

import oslo_messaging  # type: ignore[import-untyped]

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.rpc import faults
from novasched_lab.api.boot import NoConductorAnswers
from novasched_lab.api.request_spec import destined
from novasched_lab.api.servers import Server, Servers
from novasched_lab.api.service import ApiContext
from novasched_lab.failures import summary

OVER = ('confirmed', 'error', 'reverted')


class MoveRefused(errors.RequestError):
    """The conductor did not begin a move."""

    def __str__(self) -> str:
        return f'The server stays where it is: {self.args[0]}'


class MoveProgress(NamedTuple):
    """How far a move is; ``status`` is that of its migration."""

    status: str
    source: str | None
    destination: str | None


class MoveRequest:
    """Moves one server; raises errors.StoreFailed."""

    def __init__(
        self, api: ApiContext, context: RequestContext, server: Server
    ) -> None:
        self._api = api
        self._context = context
        self._server = server
        self._servers = Servers(api, lambda line: None)

    def begin(self, host: str | None, flavor: Flavor | None) -> None:
        """Have the server moved, to a host if one is named.

        Raises MoveRefused, NoConductorAnswers and errors.OptionError.
        """
        uuid, name = self._server.uuid, self._server.name
        found = self._servers.located(self._server)
        if found is None or self._server.status != 'ACTIVE' or self._server.task:
            raise errors.OptionError(
                'NAME', f'{name} is {self._server.status}', 'Wait until it is ACTIVE'
            )
        link, instance = found
        if host is not None and self._api.database.host_cell(host) != link.cell.uuid:
            raise errors.OptionError(
                '--to',
                f'{host} is not in {link.cell.name or link.cell.uuid}, the cell of '
                f'{name}',
                'Name a host of that cell: see novasched-manage cell_v2 list_hosts',
            )
        request = None if host is None else self._api.database.request_spec(uuid)
        if host is not None and request is not None:
            request = destined(request, host)
        try:
            self._api.conductor.migrate_server(self._context, instance, flavor, request)
        except (oslo_messaging.RemoteError, faults.WireError) as problem:
            raise MoveRefused(summary(problem)) from problem
        except oslo_messaging.MessagingException as problem:
            raise NoConductorAnswers(str(problem)) from problem

    def progress(self) -> MoveProgress | None:
        """Return how far the last move of the server is; None if there is none."""
        link = self._api.cells.of_instance(self._server.uuid)
        if link is None:
            return None
        moves = link.servers.moves(self._server.uuid)
        if not moves:
            return None
        last, _ = moves[-1]
        return MoveProgress(last.status, last.source_compute, last.dest_compute)

    def is_over(self) -> bool:
        """Return True when nothing is held for the last move any more."""
        progress = self.progress()
        return progress is not None and progress.status in OVER

    def failure(self) -> str | None:
        """Return the newest fault of the server; None if it has none."""
        link = self._api.cells.of_instance(self._server.uuid)
        fault = None if link is None else link.servers.last_fault(self._server.uuid)
        return None if fault is None else fault.message
