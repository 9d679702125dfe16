# SPDX-License-Identifier: Apache-2.0
"""What nova chose for servers: by what their consumers hold in placement, and by their
rows in the cells."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from novasched.db.servers import ServerRow
from novasched.decisions.comparison import KnownBy, NovaChoice
from novasched.objects.context import RequestContext
from novasched.ports import Placement, QueryFailed

UNKNOWN = NovaChoice(None, KnownBy.UNKNOWN)
Holders = Mapping[str, frozenset[str]]
"""The hosts that servers hold something of, by uuid of the server."""


class ChoiceFinder:
    """Finds out what nova chose.

    ``hosts_by_node`` maps the uuid of a compute node to its host, and ``rows`` returns
    the rows of servers in all cells. Raises nothing: what cannot be asked is unknown.
    """

    def __init__(
        self,
        placement: Placement,
        hosts_by_node: Callable[[], Mapping[str, str]],
        rows: Callable[[Sequence[str]], Iterable[ServerRow]],
    ) -> None:
        self._placement = placement
        self._hosts_by_node = hosts_by_node
        self._rows = rows

    def held(self, context: RequestContext, uuids: Sequence[str]) -> Holders | None:
        """Return the hosts that servers hold something of now; None if placement does
        not say."""
        found = self._placement.holders(context, uuids, {})
        if isinstance(found, QueryFailed):
            return None
        hosts = self._hosts_by_node()
        return {
            uuid: frozenset(hosts[n] for n in found.get(uuid, ()) if n in hosts)
            for uuid in uuids
        }

    def choices(
        self, context: RequestContext, before: Holders, seen_s: float
    ) -> dict[str, NovaChoice]:
        """Return what is known by now of servers that held ``before`` when they were
        asked for."""
        now = self.held(context, list(before)) or {}
        found = {}
        for uuid, hosts in now.items():
            if new := _new(hosts, before[uuid]):
                found[uuid] = NovaChoice(new, KnownBy.ALLOCATION, seen_s)
        unfound = [uuid for uuid in before if uuid not in found]
        for row in self._rows(unfound) if unfound else ():
            if row.state == 'error':
                found[row.uuid] = NovaChoice(None, KnownBy.FAILED, seen_s)
            elif row.host and row.host not in before[row.uuid]:
                found[row.uuid] = NovaChoice(row.host, KnownBy.INSTANCE, seen_s)
        return found


def _new(now: Collection[str], before: Collection[str]) -> str | None:
    """Return the host that a server takes from now, and did not before."""
    return min(set(now) - set(before), default=None)
