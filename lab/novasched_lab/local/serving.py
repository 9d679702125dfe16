# SPDX-License-Identifier: Apache-2.0
"""A scheduler that serves in this process, and a client to ask it."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import uuid
from collections.abc import Iterator
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import app
from novasched.db import engines
from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc.client import SchedulerClient
from novasched.rpc.serializer import RequestSerializer
from novasched.rpc.server import SchedulerEndpoint
from novasched.rpc.transport import check, transport_from_conf
from novasched.scheduler.trace import Decision


class NoNotifications:
    """Says nothing: there is nobody to listen. Satisfies ports.Notifier."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None: ...


@dataclasses.dataclass(frozen=True)
class Served:
    """A scheduler that takes requests at ``target``; ``decisions`` so far."""

    conf: cfg.ConfigOpts
    transport: Any
    target: Any
    decisions: list[Decision]

    def ask(self, request: RequestSpec) -> list[Selection]:
        """Send select_destinations as a conductor does, for one instance.

        Returns the claimed host and its alternates. Raises faults.WireError or
        oslo.messaging's RemoteError when the scheduler has none.
        """
        client = SchedulerClient(self.conf, self.transport, self.target)
        context = RequestContext(
            user_id=request.user_id, project_id=request.project_id, overwrite=False
        )
        (selections,) = client.select_destinations(
            context, request, [request.instance_uuid]
        )
        return selections


@contextlib.contextmanager
def serving(conf: cfg.ConfigOpts, placement: Adapter) -> Iterator[Served]:
    """Compose a scheduler and let it serve until the context is left.

    Exchange and queue have a name of their own, lest requests of a cloud that
    uses the same broker come here; they go when the last connection does.
    """
    with contextlib.ExitStack() as stack:
        transport = transport_from_conf(conf)
        stack.callback(transport.cleanup)
        check(transport)
        if 'oslo_messaging_rabbit' in conf:
            conf.set_override('amqp_auto_delete', True, 'oslo_messaging_rabbit')
        api_engine = engines.api_engine(conf)
        stack.callback(api_engine.dispose)
        name = f'novasched-demo-{uuid.uuid4()}'
        target = oslo_messaging.Target(exchange=name, topic=name)
        served = Served(conf, transport, target, [])
        given = app.Dependencies(
            api_engine=api_engine,
            make_cell_engine=lambda url: engines.cell_engine(conf, url),
            placement=placement,
            transport=transport,
            notifier=NoNotifications(),
            clock=app.SystemClock(),
            rng=random.Random(),
            on_decision=served.decisions.append,
        )
        scheduler = app.compose(conf, given)
        scheduler = dataclasses.replace(
            scheduler,
            server=oslo_messaging.get_rpc_server(
                transport,
                served.target(server=name),
                [SchedulerEndpoint(scheduler.manager, None)],
                serializer=RequestSerializer(),
            ),
        )
        stack.callback(scheduler.stop)
        scheduler.start()
        yield served
