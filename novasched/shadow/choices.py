# SPDX-License-Identifier: Apache-2.0
"""What nova chose for servers: by what their consumers hold in placement, and by their
rows in the cells."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from novasched.db.servers import ServerRow
from novasched.decisions.comparison import KnownBy, NovaChoice
from novasched.objects.context import RequestContext
from novasched.ports import Placement, QueryFailed

UNKNOWN = NovaChoice(None, KnownBy.UNKNOWN)
Holders = Mapping[str, frozenset[str]]
"""The hosts that servers hold something of, by uuid of the server."""
BUILDING = 'building'
SKEW_S = 5.0
"""Clocks of nova's databases may differ from ours by so much."""
REBUILD_S = 3.0
"""A rebuild is certainly scheduled, or its server in error, after so long."""


class ServersOfCells(Protocol):
    """Servers in all cells that answer, those that found no host included."""

    def rows(self, uuids: Sequence[str]) -> Iterable[ServerRow]:
        """Return the rows of servers that are there."""

    def faults(
        self, uuids: Sequence[str], since: datetime.datetime
    ) -> Mapping[str, str]:
        """Return the text of the last fault of each server that had one since then."""


@dataclass(eq=False)
class ChoiceFinder:
    """Finds out what nova chose.

    ``hosts_by_node`` maps the uuid of a compute node to its host. Raises nothing: what
    cannot be asked is unknown.
    """

    placement: Placement
    hosts_by_node: Callable[[], Mapping[str, str]]
    servers: ServersOfCells

    def held(self, context: RequestContext, uuids: Sequence[str]) -> Holders | None:
        """Return the hosts of which servers hold something; None if placement fails."""
        found = self.placement.holders(context, uuids, {})
        if isinstance(found, QueryFailed):
            return None
        hosts = self.hosts_by_node()
        return {
            uuid: frozenset(hosts[n] for n in found.get(uuid, ()) if n in hosts)
            for uuid in uuids
        }

    def rows(self, uuids: Sequence[str]) -> dict[str, ServerRow]:
        """Return the row of each server that is there."""
        return {row.uuid: row for row in self.servers.rows(uuids)} if uuids else {}

    def fault(self, uuid: str, since_s: float) -> str:
        """Return the text of a server's last fault since then; '' if it had none."""
        since = datetime.datetime.fromtimestamp(since_s - SKEW_S, datetime.UTC)
        found = self.servers.faults([uuid], since.replace(tzinfo=None))
        return found.get(uuid, '')


def claimed(
    now: Holders, before: Holders, choices: Mapping[str, NovaChoice], seen_s: float
) -> dict[str, NovaChoice]:
    """Return the choices for servers that hold a host ``now``, and did not before."""
    found = {}
    for uuid, hosts in now.items():
        new = min(hosts - before[uuid], default=None)
        if uuid not in choices and new is not None:
            found[uuid] = NovaChoice(new, KnownBy.ALLOCATION, seen_s)
    return found


def settled(
    row: ServerRow | None,
    choice: NovaChoice | None,
    before: Collection[str],
    seen_s: float,
) -> NovaChoice | None:
    """Return the choice for a server that was booted, once its row says what became of
    it; None until then."""
    if row is None:
        return None
    if row.state == 'error':
        if choice is None:
            return NovaChoice(None, KnownBy.FAILED, seen_s)
        return replace(choice, refused=[choice.host or ''])
    # A compute that refuses a server has its name there until then.
    if row.host is None or row.host in before or row.state == BUILDING:
        return None
    if choice is None:
        return NovaChoice(row.host, KnownBy.INSTANCE, seen_s)
    refused = [] if choice.host == row.host else [choice.host or '']
    return replace(choice, refused=refused)


def rebuilt(
    row: ServerRow | None, fault: Callable[[], str], seen_s: float
) -> NovaChoice | None:
    """Return the choice for a server that is rebuilt where it is, or has a new fault.

    A server may have been in error before.
    """
    if row is None or seen_s < REBUILD_S:
        return None
    if row.state == 'error' and fault():
        return NovaChoice(None, KnownBy.FAILED, seen_s)
    return NovaChoice(row.host, KnownBy.INSTANCE, seen_s)
