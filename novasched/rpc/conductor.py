# SPDX-License-Identifier: Apache-2.0
"""Backports of objects that are too new for us, made by a conductor."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched.objects.context import RequestContext
from novasched.rpc.serializer import Primitive, RequestSerializer

TARGET = oslo_messaging.Target(topic='conductor', version='3.0')

OPTS: dict[str, list[cfg.Opt]] = {
    'upgrade_levels': [
        cfg.StrOpt(
            'conductor',
            help="""
The newest version of nova-conductor's RPC interface that is used.

A version such as ``3.0``, or the name of a release; a name, and ``auto``, set no
limit here, as the one method that the scheduler calls is older than all of them.
""",
        ),
    ],
}


class ConductorBackport:
    """Asks a conductor for an object in the versions that we know.

    ``client`` is an oslo.messaging RPC client for TARGET.
    """

    def __init__(self, client: Any) -> None:
        self._client = client

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, transport: Any) -> ConductorBackport:
        """Make one; it waits ``rpc_response_timeout`` for an answer."""
        cap = conf.upgrade_levels.conductor
        return cls(
            oslo_messaging.get_rpc_client(
                transport,
                TARGET,
                version_cap=cap if re.fullmatch(r'\d+\.\d+', cap or '') else None,
                serializer=RequestSerializer(),
            )
        )

    def __call__(
        self, context: RequestContext, primitive: Primitive, versions: Mapping[str, str]
    ) -> Primitive:
        """Return the primitive in these versions, by name of object.

        Raises oslo.messaging's MessagingException when the conductor does not
        answer or cannot do it.
        """
        answer: Primitive = self._client.call(
            context,
            'object_backport_versions',
            objinst=primitive,
            object_versions=dict(versions),
        )
        return answer
