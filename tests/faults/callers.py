# SPDX-License-Identifier: Apache-2.0
"""Callers of the tests of faults, over a real broker."""

from __future__ import annotations

import time
import uuid

import amqp

from novasched.rpc.broker import BROKERS_TIME
from tests.live import wire as wire_
from tests.live.servers.process import wait_until
from tests.live.wire import Wire

CLAIM = '^/allocations/'
WAIT_S = 60


class Impatient(Wire):
    """Its messages expire soon, as those of a caller that waits no longer.

    They bear the time of a broker whose clock is ``behind_s`` behind.
    """

    expires_s = 30
    behind_s = 0

    def publish(self, body):
        self._channel.basic_publish(
            amqp.Message(
                body,
                content_type='application/json',
                content_encoding='utf-8',
                expiration=str(self.expires_s * 1000),
                application_headers={
                    BROKERS_TIME: int((time.time() - self.behind_s) * 1000)
                },
            ),
            exchange=wire_.EXCHANGE,
            routing_key=wire_.TOPIC,
        )


def boot(caller, timeout_s=None):
    """Ask for a host; return the uuid of the server, and the id of the call."""
    consumer = str(uuid.uuid4())
    inner = wire_.message(args=wire_.boot_args([consumer]))
    return consumer, caller.send(inner, timeout_s)


def until(check, what):
    return wait_until(check, WAIT_S, what)
