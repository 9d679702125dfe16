# SPDX-License-Identifier: Apache-2.0
"""What users of a cloud ask for in an hour, and the scheduler that decides it.

The requests are real ones, answered by a whole scheduler from a copy of placement;
only its clock is set, so that the decision log has an hour of them.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import itertools
import random
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import app, errors
from novasched.cluster.host_picks import NUMBERS, SHAPES
from novasched.db import engines
from novasched.db.cells import UrlDefaults
from novasched.db.servers import SqlServers
from novasched.db.transactions import Database
from novasched.external.silent import SilentNotifier
from novasched.inspection.session.catalogue import flavor_of
from novasched.inspection.session.orders import BootOrder
from novasched.inspection.session.pci_aliases import PciAliases
from novasched.inspection.session.requests import RequestMaker
from novasched.inspection.session.servers import ServerFinder
from novasched.objects.context import RequestContext
from novasched.objects.flavor import Flavor
from novasched.placement_copy.readers.database import DatabaseReader
from novasched.rpc.transport import transport_from_conf
from novasched.runtime.clock import SYSTEM_CLOCK
from tests.browser import inventory
from tests.browser.clouds import PROJECT
from tests.browser.inventory import Shape
from tests.support.clouds.configuration import make_conf

HOUR_S = 3590
LAG_S = 20
"""How long ago the last request was."""
POPULARITY = (8, 4, 1, 1, 2, 1)
"""How often each flavor is asked for."""
AVX512 = 'trait:HW_CPU_X86_AVX512F'


class PastClock:
    """A clock that was set back, and is moved on by hand; its seconds are real."""

    def __init__(self, behind_s: float) -> None:
        self.behind_s = behind_s

    def utcnow(self):
        return SYSTEM_CLOCK.utcnow() - self._behind()

    def _behind(self):
        return datetime.timedelta(seconds=self.behind_s)

    def time(self) -> float:
        return SYSTEM_CLOCK.time() - self.behind_s

    def monotonic(self) -> float:
        return SYSTEM_CLOCK.monotonic()


Demand = tuple[Flavor, dict[str, str], BootOrder]
"""The flavor of new servers, their image, and what else is asked for."""


def orders(
    shape: Shape, rng: random.Random
) -> Iterator[tuple[*Demand, dict[str, list[str]]]]:
    """Yield what is asked for, and its hints; one in four has no place."""
    flavors, mark = inventory.flavors(shape.mark), shape.mark

    def other(flavor: Flavor, name: str, **specs: str) -> Flavor:
        return flavor.replaced(
            name=f'{name}{mark}', extra_specs={**flavor.extra_specs, **specs}
        )

    pinned = flavors[inventory.PINNED]
    huge = other(flavor_of('vcpus=192,ram=524288,disk=400'), 'x1.huge')
    plain = BootOrder()
    failing: list[Demand] = [
        (pinned.replaced(vcpus=14, name=f'm1.pinned.14{mark}'), {}, plain),
        (pinned.replaced(memory_mb=98304, name=f'r1.pinned{mark}'), {}, plain),
        (huge, {}, plain),
        (other(pinned, 'm1.avx', **{AVX512: 'required'}), {}, BootOrder(zone='nova')),
        (
            other(flavors[1], 'm1.xen', **{'capabilities:hypervisor_type': 'xen'}),
            {},
            plain,
        ),
        (
            other(flavors[5], 'g1.four', **{'pci_passthrough:alias': 'gpu:4'}),
            {},
            plain,
        ),
        (flavors[0], {'hw_architecture': 'aarch64'}, plain),
    ]
    if shape.hosts <= 16:
        apart = BootOrder(policy='anti-affinity', count=20)
        failing.append((flavors[0], {}, apart))
    for number in range(shape.decisions):
        flavor = rng.choices(flavors, POPULARITY)[0]
        order = BootOrder(
            count=rng.choice([1, 1, 1, 1, 2, 3]),
            zone=rng.choice(['', f'az{rng.randint(1, shape.zones)}{mark}']),
        )
        made: Demand = flavor, {}, order
        flavor, image, order = rng.choice(failing) if number % 4 == 3 else made
        hints = {f'queue{mark}': [f'low{mark}']} if mark or number % 9 == 0 else {}
        owned = replace(order, project_id=PROJECT, user_id=PROJECT)
        yield flavor, image, owned, hints


def times(shape: Shape, rng: random.Random) -> list[float]:
    """Return when it is asked for, in seconds: minutes are busy or quiet."""
    steps = [rng.choice([1, 3, 20]) for _ in range(shape.decisions)]
    until = HOUR_S - LAG_S
    return [until * each / sum(steps) for each in itertools.accumulate(steps)]


def decide(path: Path, shape: Shape, placement: Adapter, seed: int = 1) -> None:
    """Let a scheduler of this configuration decide what is asked for in an hour."""
    conf, rng = configured(path), random.Random(seed)
    clock = PastClock(HOUR_S)
    with contextlib.ExitStack() as stack:
        scheduler, maker = _scheduler(conf, placement, clock, rng, stack)
        for demand, at_s in zip(orders(shape, rng), times(shape, rng), strict=True):
            wanted = maker.boot(*demand)
            clock.behind_s = HOUR_S - at_s
            context = RequestContext(
                user_id=PROJECT,
                project_id=PROJECT,
                request_id=f'req-{uuid.UUID(int=rng.getrandbits(128))}',
                overwrite=False,
            )
            with contextlib.suppress(errors.NovaschedError):
                scheduler.manager.select_destinations(
                    context, wanted.request, wanted.uuids, True, True
                )


def configured(path: Path) -> cfg.ConfigOpts:
    """Return all options, as a file has them."""
    conf = make_conf()
    conf([f'--config-file={path}'], project='nova', default_config_dirs=[])
    return conf


def _scheduler(conf, placement, clock, rng, stack):
    """Compose a scheduler, and what makes requests for it."""
    broker = transport_from_conf(conf)
    stack.callback(broker.cleanup)
    api_engine = engines.api_engine(conf)
    stack.callback(api_engine.dispose)
    make_engine = functools.partial(engines.cell_engine, conf)
    copied = engines.placement_engine(conf)
    stack.callback(copied.dispose)
    scheduler = app.compose(
        conf,
        app.Dependencies(
            api_engine=api_engine,
            make_cell_engine=make_engine,
            placement=placement,
            providers=DatabaseReader(Database(copied)),
            transport=broker,
            notifier=SilentNotifier(),
            clock=clock,
            rng=rng,
        ),
    )
    stack.callback(scheduler.view.close)
    stack.callback(scheduler.close)
    scheduler.view.load()
    scheduler.copy.keep_up()
    assumed = scheduler.manager.driver.context.assumed
    assumed.counted, assumed.for_s = (*NUMBERS, *SHAPES), 600.0
    api = SqlServers(api_engine, UrlDefaults(conf.database.connection, 'fake://'))
    finder = ServerFinder(api, make_engine, ())
    stack.callback(finder.close)
    return scheduler, RequestMaker(api, finder, PciAliases.from_conf(conf))
