# SPDX-License-Identifier: Apache-2.0
"""HTTP servers of this process that stand for services of the cloud."""

import http.server
import json
import threading
from typing import Any


class JsonHandler(http.server.BaseHTTPRequestHandler):
    """Answers in JSON and logs nothing; `self.server.service` is the HttpServer.

    A subclass has `get`, `post` and `delete`, as far as it is asked.
    """

    server: Any
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def do_GET(self):
        self.get()

    def do_POST(self):
        self.post()

    def do_DELETE(self):
        self.delete()

    do_HEAD = do_GET  # noqa: N815

    def body(self):
        return self.rfile.read(int(self.headers.get('Content-Length', 0)))

    def answer(self, status, said=None, **headers):
        content = b'' if said is None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(content)))
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    def log_message(self, *_):
        """Keep quiet."""


class _QueueingServer(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # else clients that come at once wait for seconds


class HttpServer:
    """Serves at a free port, from start() to stop() or while its context lasts."""

    def __init__(self, handler, path=''):
        self._server: Any = _QueueingServer(('127.0.0.1', 0), handler)
        self._server.service = self
        self.url = f'http://127.0.0.1:{self._server.server_port}{path}'
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def start(self):
        self._thread.start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
