# SPDX-License-Identifier: Apache-2.0
"""Placement for other processes: in this one, over HTTP, or one that is there."""

from __future__ import annotations

import contextlib
import socketserver
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from wsgiref import simple_server

from novasched_lab.local.placement import EmbeddedPlacement, adapter_to, check


class _Server(socketserver.ThreadingMixIn, simple_server.WSGIServer):
    daemon_threads = True
    request_queue_size = 128


class _Handler(simple_server.WSGIRequestHandler):
    def address_string(self) -> str:
        """Return the address without asking for its name."""
        return str(self.client_address[0])

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the requests are those of our own programs."""


class _OneByOne:
    """Lets requests in one after the other, as SQLite has one writer."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self._lock = threading.Lock()

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        with self._lock:
            return list(self._application(environ, start_response))


@contextlib.contextmanager
def serving(url: str | None, directory: Path) -> Iterator[str]:
    """Return the URL of placement; without one, serve it while the context lasts.

    It takes the token ``admin``. Raises errors.OptionError and errors.SetupError.
    """
    if url is not None:
        with adapter_to(url) as adapter:
            check(adapter)
        yield url
        return
    embedded = EmbeddedPlacement(directory / 'placement.sqlite')
    with embedded:
        server = simple_server.make_server(
            '127.0.0.1', 0, _OneByOne(embedded.application), _Server, _Handler
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True)
        thread.start()
        try:
            yield f'http://127.0.0.1:{server.server_port}'
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
