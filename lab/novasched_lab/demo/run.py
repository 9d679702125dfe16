# SPDX-License-Identifier: Apache-2.0
"""The run of the demo on its cloud: boots, a move, a look at placement, deletes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from novasched import errors
from novasched.inspection.session import catalogue
from novasched.objects.context import RequestContext
from novasched_lab.api import boot
from novasched_lab.api.boot import Order
from novasched_lab.api.servers import (
    DeleteRequest,
    MoveRequest,
    Servers,
    ended,
)
from novasched_lab.commands.command import wait
from novasched_lab.demo import cloud
from novasched_lab.demo.cloud import REFUSED, RunningCloud
from novasched_lab.local.databases import GivenServers
from novasched_lab.local.placement import adapter_to
from novasched_lab.resource_providers import held_on

PATIENCE_S = 300.0
MOST_APART = 10
HUGE = 'huge'


@dataclass
class DemoResult:
    """What came of it; ``hosts_agree`` counts servers where placement has them."""

    hosts: int
    servers: list[dict[str, str | None]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    hosts_agree: int = 0
    group_hosts: int = 0
    moved: dict[str, str | None] | None = None
    left_in_placement: int = 0
    boot_seconds: float = 0.0
    total_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """All is as it must be: what is too big fails, all else runs and is freed.

        One that was refused wherever it went fails, too, and says so.
        """
        failed = [each for each in self.servers if each['status'] == 'ERROR']
        running = self.statuses.get('ACTIVE', 0)
        return (
            any(each['name'] == HUGE for each in failed)
            and all(each['fault'] for each in failed)
            and len(failed) + running == len(self.servers)
            and self.hosts_agree == running
            and self.left_in_placement == 0
        )

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), 'is_good': self.is_good}


def run(
    servers: GivenServers, hosts: int, progress: Callable[[str], None]
) -> DemoResult:
    started = time.monotonic()
    result = DemoResult(hosts)
    with cloud.running(servers, hosts, progress) as made:
        _Visit(made, progress).run(result)
    result.total_seconds = round(time.monotonic() - started, 1)
    return result


def orders(hosts: int, group: Any) -> Iterator[Order]:
    """Yield what is asked for: some apart, many, and one that fits nowhere."""
    image = catalogue.image_of('cirros')
    small = catalogue.flavor_of('m1.small')
    apart = max(1, min(MOST_APART, hosts // 2))
    yield Order('web', small, image, apart, group=group)
    yield Order('app', catalogue.flavor_of(REFUSED), image, max(1, hosts // 2))
    huge = catalogue.flavor_of('vcpus=512,ram=2048,disk=20,name=x1.huge')
    yield Order(HUGE, huge, image)


class _Visit:
    def __init__(self, made: RunningCloud, progress: Callable[[str], None]) -> None:
        self._cloud, self._api = made, made.api
        self._progress = progress
        self._servers = Servers(made.api, progress)
        self._context = RequestContext(
            user_id='demo', project_id='demo', overwrite=False
        )

    def run(self, result: DemoResult) -> None:
        api, context = self._api, self._context
        group = boot.group_for(api, context, 'web', 'anti-affinity')
        uuids: list[str] = []
        started = time.monotonic()
        for order in orders(len(self._cloud.hosts), group):
            self._progress(f'booting {order.count} {order.name}')
            uuids += boot.boot(api, context, order)
        _wait(lambda: len(ended(self._servers.some(uuids))) == len(uuids), 'built')
        result.boot_seconds = round(time.monotonic() - started, 1)
        result.moved = self._move(uuids)
        found = self._servers.some(uuids)
        fields = ('uuid', 'name', 'status', 'host', 'zone', 'fault')
        result.servers = [{f: getattr(s, f) for f in fields} for s in found]
        result.statuses = dict(Counter(each.status for each in found))
        result.group_hosts = len({s.host for s in found if s.name.startswith('web')})
        held = self._held()
        result.hosts_agree = sum(
            held.get(each.uuid) == {each.host}
            for each in found
            if each.status == 'ACTIVE'
        )
        self._progress(f'deleting {len(uuids)} servers')
        self._delete(uuids)
        result.left_in_placement = len(self._held())

    def _move(self, uuids: Sequence[str]) -> dict[str, str | None] | None:
        """Move the first server that runs, which no host refuses; return how."""
        running = [s for s in self._servers.some(uuids) if s.status == 'ACTIVE']
        if not running or len(self._cloud.hosts) < 2:
            return None
        name = running[0].name
        self._progress(f'moving {name}')
        task = MoveRequest(self._api, self._context, running[0])
        task.begin(None, None)
        _wait(task.is_over, 'moved')
        progress = task.progress()
        return {'name': name, **progress._asdict()} if progress else None

    def _delete(self, uuids: Sequence[str]) -> None:
        task = DeleteRequest(self._api, self._context)
        left = {uuid for uuid in uuids if not task.run(uuid)}

        def gone() -> bool:
            left.difference_update([uuid for uuid in left if task.is_done(uuid)])
            return not left

        _wait(gone, 'deleted')

    def _held(self) -> dict[str, set[str]]:
        """Return which hosts each consumer holds something of, as placement says."""
        found: dict[str, set[str]] = {}
        with adapter_to(self._cloud.placement) as adapter:
            for host in self._cloud.hosts:
                for consumer in held_on(adapter, host.uuid):
                    found.setdefault(consumer, set()).add(host.name)
        return found


def _wait(look: Callable[[], bool], what: str) -> None:
    if not wait(look, PATIENCE_S):
        raise errors.SetupError(f'not all are {what} after {PATIENCE_S:.0f} s')
