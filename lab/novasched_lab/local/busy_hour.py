# SPDX-License-Identifier: Apache-2.0
"""An hour on the hosts of the walk-through: the real manager decides on requests."""

from __future__ import annotations

import contextlib
import datetime
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from keystoneauth1.adapter import Adapter

from novasched import app, errors
from novasched.db.server_groups import ServerGroup
from novasched.inspection.session.catalogue import image_of
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.server_request import destined, grouped, request_spec
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.objects.instance import Instance
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.runtime.clock import SYSTEM_CLOCK
from novasched_lab.api.new_instance import instance_of
from novasched_lab.compute.resource_tracker import Demand, ResourcesUnavailable
from novasched_lab.compute.rows import HostRows
from novasched_lab.local.busy_hosts import BusyHost
from novasched_lab.local.cluster import OWNER
from novasched_lab.local.rival import RivalPlacement
from novasched_lab.local.wishes import Wish
from novasched_lab.resource_providers import VERSION

BEAT_S = 20.0
MOST_ALIVE = 90
"""Servers that there are at a time; the oldest are deleted."""
DISABLED, DISABLED_AT_S = 'sh11-compute-fc1-10e5e12e14', 1500.0
DOWN, DOWN_AT_S = 'sh11-compute-fc1-10e5e12e16', 2700.0


class SetClock:
    """The clocks of this machine, with the time of day set. Satisfies clock.Clock."""

    def __init__(self, time_s: float) -> None:
        self.time_s = time_s

    def time(self) -> float:
        return self.time_s

    def utcnow(self) -> datetime.datetime:
        found = datetime.datetime.fromtimestamp(self.time_s, datetime.UTC)
        return found.replace(tzinfo=None)

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


@dataclass(frozen=True)
class PlacedServer:
    """A server on its host."""

    instance: Instance
    request: RequestSpec
    host: BusyHost


def beating(hosts: Iterable[str], at_s: float) -> list[str]:
    """Return the hosts that send heartbeats so many seconds after the hour began."""
    return [name for name in hosts if name != DOWN or at_s < DOWN_AT_S]


@dataclass
class BusyHour:
    """Lets a manager decide on the requests of an hour.

    There are no computes: servers that get a host use it from then on. ``disable`` is
    called when a host is to be disabled. ``alive`` are the servers of the end.
    """

    hosts: Mapping[str, BusyHost]
    node_ids: Mapping[str, int]
    rows: HostRows
    adapter: Adapter
    clock: SetClock
    reader: app.Reader
    rival: RivalPlacement
    flavors: Mapping[str, Flavor]
    aliases: PciAliases
    disable: Callable[[str], None]
    alive: list[PlacedServer] = field(default_factory=list)
    _beaten_s: float = float('-inf')

    def pass_by(self, asked: Sequence[Wish]) -> None:
        """Let the hour pass, and all that is asked for be decided."""
        began_s = self.clock.time_s
        for wish in asked:
            self.clock.time_s = began_s + wish.at_s
            if wish.at_s - self._beaten_s >= BEAT_S:
                self._beat(wish.at_s)
            self._decide(wish)
            while len(self.alive) > MOST_ALIVE:
                self._delete(self.alive.pop(0))

    def _beat(self, at_s: float) -> None:
        self.rows.beat(beating(self.hosts, at_s))
        if self._beaten_s < DISABLED_AT_S <= at_s:
            self.disable(DISABLED)
        self._beaten_s = at_s

    def _decide(self, wish: Wish) -> None:
        """Ask as a conductor does; why there is no host is in the record."""
        uuids = [str(uuid.uuid4()) for _ in range(wish.count)]
        request = self._request(wish, uuids)
        self.rival.is_faster = wish.has_rival
        with contextlib.suppress(errors.RequestError):
            found = self._asked(request, uuids)
            for number, (each, selections) in enumerate(zip(uuids, found, strict=True)):
                name = wish.name if wish.count == 1 else f'{wish.name}-{number + 1}'
                self._place(name, request.for_instance(each), selections[0])
            if wish.comes_twice:
                self._asked(request, uuids)
        if wish.has_rival:
            self.rival.give_back()

    def _asked(
        self, request: RequestSpec, uuids: Sequence[str]
    ) -> Sequence[Sequence[Selection]]:
        context = RequestContext(user_id=OWNER, project_id=OWNER, overwrite=False)
        manager = self.reader.manager
        found = manager.select_destinations(context, request, uuids, True, True)
        return [each for each in found if isinstance(each, list)]

    def _request(self, wish: Wish, uuids: Sequence[str]) -> RequestSpec:
        request = request_spec(
            uuids[0],
            self.flavors[wish.flavor],
            image_of('cirros'),
            project_id=OWNER,
            user_id=OWNER,
            num_instances=wish.count,
            availability_zone=wish.zone,
            aliases=self.aliases,
        )
        if wish.host is not None:
            request = destined(request, wish.host)
        if wish.policy is not None:
            group = ServerGroup(
                str(uuid.uuid4()), wish.name, OWNER, OWNER, wish.policy, {}, (*uuids,)
            )
            request = grouped(request, group.as_object(), ())
        return request

    def _place(self, name: str, request: RequestSpec, chosen: Selection) -> None:
        """Have a host build a server."""
        host = self.hosts[chosen.service_host]
        with contextlib.suppress(ResourcesUnavailable):
            claim = host.claim(request.instance_uuid, Demand.of_request(request, None))
            instance = instance_of(request, name).replaced(
                host=host.host.name,
                node=host.host.name,
                vm_state='active',
                task_state=None,
                launched_at=self.clock.utcnow().replace(microsecond=0),
                numa_topology=claim.topology,
            )
            self.alive.append(PlacedServer(instance, request, host))
            self._publish(host)

    def _publish(self, host: BusyHost) -> None:
        self.rows.write_usage(self.node_ids[host.host.name], host.usage())

    def _delete(self, server: PlacedServer) -> None:
        url = f'/allocations/{server.instance.uuid}'
        self.adapter.delete(url, microversion=VERSION)
        server.host.release(server.instance.uuid)
        self._publish(server.host)
