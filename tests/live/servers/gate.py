# SPDX-License-Identifier: Apache-2.0
"""A proxy in front of placement that knows what was asked, and can hold it back."""

import http.server
import threading

import requests

PASSED_ON = ('X-Auth-Token', 'Accept', 'Content-Type', 'OpenStack-API-Version')


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def _forward(self):
        gate = self.server.gate
        gate.seen.append((self.command, self.path))
        length = int(self.headers.get('Content-Length', 0))
        body = self.rfile.read(length) if length else None
        if self.command in gate.held:
            gate.arrived.set()
            gate.opened.wait(60)
        headers = {
            name: self.headers[name] for name in PASSED_ON if name in self.headers
        }
        answer = requests.request(
            self.command,
            gate.target + self.path,
            data=body,
            headers=headers,
            timeout=30,
        )
        self.send_response(answer.status_code)
        for name in ('Content-Type', 'openstack-api-version'):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        if answer.status_code != 204:
            self.send_header('Content-Length', str(len(answer.content)))
        self.end_headers()
        self.wfile.write(answer.content)

    def do_GET(self):
        self._forward()

    def do_PUT(self):
        self._forward()

    def do_POST(self):
        self._forward()

    def do_DELETE(self):
        self._forward()

    def log_message(self, format, *args):
        """Keep quiet."""


class Gate:
    """Forward requests to `target`; those that change it, as only a request for servers
    does, while the gate is open.

    `seen` has the method and the path of each.
    """

    held = ('POST', 'PUT', 'DELETE')

    def __init__(self, target):
        self.target = target
        self.seen = []
        self.opened = threading.Event()
        self.arrived = threading.Event()
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
        self._server.daemon_threads = True
        self._server.gate = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.open()

    @property
    def url(self):
        """What `endpoint_override` names."""
        return f'http://127.0.0.1:{self._server.server_address[1]}'

    def open(self):
        """Let requests pass, those held back included."""
        self.opened.set()

    def close(self):
        """Hold requests back from now on; `arrived` tells when one has come."""
        self.opened.clear()
        self.arrived.clear()

    def start(self):
        """Serve from now on."""
        self._thread.start()

    def stop(self):
        """Serve no more."""
        self.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
