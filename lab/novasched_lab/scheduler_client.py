# SPDX-License-Identifier: Apache-2.0
"""A client of the scheduler's RPC interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched.objects.context import RequestContext
from novasched.objects.request_spec import RequestSpec
from novasched.objects.selection import Selection
from novasched.rpc.serializer import RequestSerializer, decode

TARGET = oslo_messaging.Target(topic='scheduler')


class ClientSerializer(RequestSerializer):
    """Also turns results into objects."""

    def deserialize_entity(self, ctxt: RequestContext, entity: Any) -> Any:
        return decode(entity, ctxt)


class SchedulerClient:
    """Calls whatever scheduler serves the topic of the target.

    Errors arrive as oslo.messaging's RemoteError, with the class of the error in
    ``exc_type``.
    """

    def __init__(
        self, conf: cfg.ConfigOpts, transport: Any, target: Any = TARGET
    ) -> None:
        self._conf = conf
        self._client = oslo_messaging.get_rpc_client(
            transport, target(version='4.0'), serializer=ClientSerializer()
        )
        self._base = oslo_messaging.get_rpc_client(
            transport,
            target(namespace='baseapi', version='1.0'),
            serializer=RequestSerializer(),
        )

    def select_destinations(
        self,
        context: RequestContext,
        request: RequestSpec,
        instance_uuids: Sequence[str],
        return_alternates: bool = True,
    ) -> list[list[Selection]]:
        """Return per instance the claimed host and its alternates."""
        call = self._client.prepare(
            version='4.5',
            timeout=self._conf.long_rpc_timeout,
            call_monitor_timeout=self._conf.rpc_response_timeout,
        )
        answer: list[list[Selection]] = call.call(
            context,
            'select_destinations',
            spec_obj=request,
            instance_uuids=list(instance_uuids),
            return_objects=True,
            return_alternates=return_alternates,
        )
        return answer

    def ping(self, context: RequestContext, arg: Any, timeout_s: float) -> Any:
        """Return the answer of the scheduler to a ping."""
        return self._base.prepare(timeout=timeout_s).call(context, 'ping', arg=arg)
