# SPDX-License-Identifier: Apache-2.0
"""Clients that give up, when the broker cannot be reached, and say so in one way."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import oslo_messaging  # type: ignore[import-untyped]
from kombu.exceptions import KombuError

from novasched.rpc.serializer import RequestSerializer
from novasched.rpc.transport import CONNECTION_ERRORS

SEND_ATTEMPTS = 3

UNSENT: tuple[type[Exception], ...] = (
    OSError,
    KombuError,
    oslo_messaging.MessageUndeliverable,
    *CONNECTION_ERRORS,
)


@contextlib.contextmanager
def sending() -> Iterator[None]:
    """Raise MessageDeliveryFailure for whatever keeps a message from its queue."""
    try:
        yield
    except UNSENT as problem:
        raise oslo_messaging.MessageDeliveryFailure(
            f'{type(problem).__name__}: {problem}'
        ) from problem


def client(transport: Any, target: Any) -> Any:
    """Return an RPC client that tries a few times to reach the broker."""
    return oslo_messaging.get_rpc_client(
        transport, target, serializer=RequestSerializer(), retry=SEND_ATTEMPTS
    )
