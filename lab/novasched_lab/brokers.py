# SPDX-License-Identifier: Apache-2.0
"""One transport per broker, ours and those of the cells."""

from __future__ import annotations

import threading
from typing import Any

from oslo_config import cfg

from novasched.rpc.transport import transport_from_conf

OPTION = 'cell_mappings.transport_url'


class Brokers:
    """Makes transports when they are first needed; they connect when they are used."""

    def __init__(self, conf: cfg.ConfigOpts, own: Any = None) -> None:
        self._conf = conf
        self.own = transport_from_conf(conf) if own is None else own
        self._made: dict[str, Any] = {}
        self._lock = threading.Lock()

    def transport(self, url: str | None) -> Any:
        """Return the transport of a URL; None, and the configured one, give our own.

        Raises errors.OptionError for a URL that makes no sense.
        """
        if not url or url == self._conf.transport_url:
            return self.own
        with self._lock:
            if url not in self._made:
                self._made[url] = transport_from_conf(self._conf, url, OPTION)
            return self._made[url]

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            made, self._made = list(self._made.values()), {}
        for transport in (*made, self.own):
            transport.cleanup()
