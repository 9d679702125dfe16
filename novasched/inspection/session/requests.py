# SPDX-License-Identifier: Apache-2.0
"""Requests of dry runs, for new servers and for moves.

Nova's API makes requests for new servers alike, and its conductor requests for moves.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from novasched import errors
from novasched.db.server_groups import ServerGroup
from novasched.db.servers import SqlServers
from novasched.decisions.request_summary import FlavorSummary, RequestSummary
from novasched.inspection.session import catalogue
from novasched.inspection.session.guest_topology import numa_topology_of
from novasched.inspection.session.orders import BootOrder
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import (
    destined,
    grouped,
    moved,
    request_spec,
)
from novasched.inspection.session.servers import FoundServer, ServerFinder
from novasched.objects.flavor import Flavor
from novasched.objects.request_spec import RequestSpec

ONCE = ('requested_destination', 'ignore_hosts', 'retry', 'limits')
"""Fields of a request that hold for one attempt only."""


NO_MORE = BootOrder()


@dataclass(frozen=True)
class DryRequest:
    """A request as a conductor would send it; ``notes`` say what it lacks."""

    request: RequestSpec
    uuids: Sequence[str]
    name: str = ''
    notes: Sequence[str] = ()

    @property
    def flavor_name(self) -> str:
        return self.request.flavor.if_set('name') or ''

    def only_on(self, host: str) -> DryRequest:
        """Return the same, for servers that must go to a host."""
        return replace(self, request=destined(self.request, host))


class RequestMaker:
    """Makes requests from what the databases keep. Raises errors.StoreFailed."""

    def __init__(
        self, api: SqlServers, finder: ServerFinder, aliases: PciAliases
    ) -> None:
        self._api = api
        self._finder = finder
        self._aliases = aliases

    def boot(
        self,
        flavor: Flavor,
        image: Mapping[str, Any] | None = None,
        order: BootOrder = NO_MORE,
        hints: Mapping[str, Sequence[str]] | None = None,
    ) -> DryRequest:
        """Return the request for new servers; ``order`` says what else is asked for,
        but its hints if ``hints`` are given. Raises errors.InvalidDemand, and
        errors.OptionError for a group that does not exist, and a hint that is no
        pair."""
        uuids = _new(order.count)
        group = self._group(order, uuids)
        if hints is None:
            hints = catalogue.pairs(order.hints, '--hint')
        if group is not None:
            hints = {**hints, 'group': [group.uuid]}
        request = request_spec(
            uuids[0],
            flavor,
            image or {},
            project_id=order.project_id or None,
            user_id=order.user_id or None,
            num_instances=order.count,
            availability_zone=order.zone,
            hints=hints,
            aliases=self._aliases,
        )
        if order.boot_from_volume:
            request = request.replaced(is_bfv=True)
        return DryRequest(self._with(request, group), uuids)

    def like(
        self, kept: RequestSummary, project_id: str | None, count: int = 1
    ) -> DryRequest:
        """Return the request that a decision record keeps, for new servers."""
        assert kept.flavor is not None
        image = vars(kept.image) if kept.image is not None else {}
        hints = kept.known_hints
        order = BootOrder(
            boot_from_volume=kept.image is not None and not kept.image.id,
            count=count,
            zone=kept.zone or '',
            project_id=project_id or '',
        )
        counts = (
            (kept.ports, 'ports'),
            (kept.requested_resources, 'groups of resources'),
        )
        notes = [
            f'the record keeps {number} {words}, but not which: left out'
            for number, words in counts
            if number
        ]
        notes += [
            f'the record keeps no value of hint {name}: left out'
            for name, values in kept.hints.items()
            if not values
        ]
        if kept.group is not None:
            group_uuid = str(kept.group.uuid)
            if self._api.server_group(group_uuid, None) is None:
                notes.append(f'server group {group_uuid} is gone: left out')
                hints.pop('group', None)
            else:
                order = replace(order, group=group_uuid)
        made = self.boot(
            flavor_from(kept.flavor),
            {k: v for k, v in image.items() if v is not None},
            order,
            hints,
        )
        request = made.request
        if kept.forced:
            request = request.replaced(force_hosts=list(kept.forced))
        elif kept.named is not None and kept.named.host:
            request = destined(request, kept.named.host)
        if kept.ignored:
            request = request.replaced(ignore_hosts=list(kept.ignored))
        return DryRequest(request, made.uuids, notes=notes)

    def like_server(self, server: FoundServer, count: int = 1) -> DryRequest:
        """Return the request that a server was made by, for new servers."""
        uuids = _new(count)
        made = self._kept(server).replaced(
            instance_uuid=uuids[0], num_instances=count, **dict.fromkeys(ONCE)
        )
        group = self._api.server_group_of(server.uuid)
        if group is not None:
            group = group._replace(members=(*group.members, *uuids))
        return DryRequest(self._with(made, group), uuids)

    def move(
        self,
        server: FoundServer,
        leaves: Sequence[str] = (),
        flavor: Flavor | None = None,
        to: str | None = None,
    ) -> DryRequest:
        """Return the request to move a server, or to resize it.

        It must not stay where it is, nor go to the hosts that ``leaves`` names. Raises
        errors.OptionError where it is on no host, and errors.RequestNotKept.
        """
        row, cell = server.row, server.cell
        if row.host is None:
            raise errors.OptionError(
                'SERVER',
                f'{server.name} is on no host',
                f'See novasched plan boot --like {row.uuid}',
            )
        made = self._kept(server)
        request = moved(
            made.for_instance(row.uuid),
            flavor=flavor or row.flavor or made.flavor,
            project_id=row.project_id,
            user_id=row.user_id,
            cell=(cell.uuid, cell.name),
            leaves=list(dict.fromkeys([row.host, *leaves])),
            host=to,
        )
        if flavor is not None:
            devices = self._aliases.requests_of(request)
            request = request.replaced(
                numa_topology=numa_topology_of(request),
                pci_requests=devices,
                requested_resources=self._aliases.groups_of(devices),
            )
        group = self._api.server_group_of(row.uuid)
        if group is not None:
            hosts = self._finder.hosts_of(group.members, cell)
            request = grouped(request, group.as_object(), hosts)
        return DryRequest(request, [row.uuid], server.name)

    def _kept(self, server: FoundServer) -> RequestSpec:
        found = self._api.request_spec(server.uuid)
        if found is None:
            raise errors.RequestNotKept(
                'SERVER',
                f'no request spec of server {server.name} is kept',
                'Try its flavor: novasched plan boot --flavor FLAVOR',
            )
        groups = self._aliases.groups_of(found.if_set('pci_requests'))
        return found.replaced(requested_resources=groups)

    def _group(self, order: BootOrder, uuids: Sequence[str]) -> ServerGroup | None:
        """Return the group that the servers join, with them."""
        project, user = order.project_id or None, order.user_id or None
        if order.group:
            found = self._api.server_group(order.group, project)
            if found is None:
                raise errors.OptionError(
                    '--group', f'there is no server group {order.group}',
                    'Give its uuid, or its name and --project-id',
                )  # fmt: skip
            return found._replace(members=(*found.members, *uuids))
        if not order.policy:
            return None
        members = tuple(uuids)
        return ServerGroup(_new(1)[0], 'plan', project, user, order.policy, {}, members)

    def _with(self, request: RequestSpec, group: ServerGroup | None) -> RequestSpec:
        if group is None:
            return request
        hosts = self._finder.hosts_of(group.members)
        return grouped(request, group.as_object(), hosts)


def flavor_from(kept: FlavorSummary) -> Flavor:
    """Return a flavor as a decision record keeps it."""
    made = Flavor(id=0, flavorid=kept.name, **vars(kept))
    made.obj_reset_changes()
    return made


def _new(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]
