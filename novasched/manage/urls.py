# SPDX-License-Identifier: Apache-2.0
"""URLs of cell mappings: their check, and their form without passwords."""

from __future__ import annotations

from urllib import parse

import oslo_messaging  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched.db.transactions import mask
from novasched.rpc.transport import HOW_TO_WRITE


def check_transport(url: str) -> str | None:
    """Return what is wrong with the URL of a message queue; None: nothing."""
    try:
        oslo_messaging.TransportURL.parse(cfg.ConfigOpts(), url)
    except oslo_messaging.InvalidTransportURL as problem:
        return str(problem)
    except ValueError as problem:
        # Where there is a password, the text may hold a part of it.
        return HOW_TO_WRITE if '@' in url else str(problem)
    return None


def concealed(url: str) -> str:
    """Return a URL as nova-manage shows it: put together again, without password.

    So slashes before an absent host are fewer, and of a list of hosts the last
    one is shown. Passwords in its query are masked, too.
    """
    try:
        parts = parse.urlparse(url)
        if parts.password is not None:
            host = parts.netloc.rpartition('@')[2]
            place = f'{parts.username or ""}:****@{host}'
            parts = parts._replace(netloc=place)
        return mask(parts.geturl())
    except ValueError:
        return mask(url)
