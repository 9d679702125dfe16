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
from novasched.rpc.serializer import ClientSerializer, RequestSerializer
from novasched.rpc.server import SchedulerEndpoint
from novasched.rpc.transport import check, transport_from_conf
from novasched.scheduler.trace import Decision

RPC_VERSION = '4.5'
REPLY_TIMEOUT_S = 60


class NoNotifications:
    """Says nothing: there is nobody to listen. Satisfies ports.Notifier."""

    def select_destinations(
        self, context: RequestContext, spec: RequestSpec, phase: str
    ) -> None: ...


@dataclasses.dataclass(frozen=True)
class Served:
    """A scheduler that takes requests at ``target``; ``decisions`` so far."""

    transport: Any
    target: Any
    decisions: list[Decision]

    def ask(self, request: RequestSpec) -> list[Selection]:
        """Send select_destinations as a conductor does, for one instance.

        Returns the claimed host and its alternates. Raises faults.WireError or
        oslo.messaging's RemoteError when the scheduler has none.
        """
        client = oslo_messaging.get_rpc_client(
            self.transport,
            self.target(version=RPC_VERSION),
            timeout=REPLY_TIMEOUT_S,
            serializer=ClientSerializer(),
        )
        context = RequestContext(
            user_id=request.user_id, project_id=request.project_id, overwrite=False
        )
        (selections,) = client.call(
            context,
            'select_destinations',
            spec_obj=request,
            instance_uuids=[request.instance_uuid],
            return_objects=True,
            return_alternates=True,
        )
        return list(selections)


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
        served = Served(transport, oslo_messaging.Target(exchange=name, topic=name), [])
        given = app.Given(
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
