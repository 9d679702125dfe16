# SPDX-License-Identifier: Apache-2.0
"""The two Keystone calls that a service makes on its way to placement.

Every password but `WRONG` is accepted; the token is the word that placement's
`noauth2` strategy takes for an administrator.
"""

import http.server
import json
import threading

WRONG = 'wrong-password'
TOKEN = 'admin'


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def do_GET(self):
        version = {
            'id': 'v3.14',
            'status': 'stable',
            'links': [{'rel': 'self', 'href': f'{self.server.keystone.url}/'}],
        }
        if self.path.startswith('/v3'):
            self._answer(200, {'version': version})
        else:
            self._answer(300, {'versions': {'values': [version]}})

    def do_POST(self):
        asked = self.rfile.read(int(self.headers.get('Content-Length', 0)))
        if self.server.keystone.is_unavailable:
            self._answer(503, {'error': {'code': 503, 'title': 'Unavailable'}})
        elif WRONG in asked.decode():
            self._answer(401, {'error': {'code': 401, 'title': 'Unauthorized'}})
        else:
            self._answer(201, {'token': self.server.keystone.token()})

    def _answer(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(payload)))
        self.send_header('X-Subject-Token', TOKEN)
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format, *args):
        """Keep quiet."""


class Keystone:
    """A thread that hands out tokens with a catalogue of one service.

    ``issued`` counts the tokens; none is while it ``is_unavailable``.
    """

    def __init__(self):
        self.placement_url = None
        self.issued = 0
        self.is_unavailable = False
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
        self._server.daemon_threads = True
        self._server.keystone = self
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self):
        """What `auth_url` names."""
        return f'http://127.0.0.1:{self._server.server_address[1]}/v3'

    def token(self):
        """The body of a token that is good for ever."""
        self.issued += 1
        domain = {'id': 'default', 'name': 'Default'}
        return {
            'methods': ['password'],
            'user': {'id': 'nova', 'name': 'nova', 'domain': domain},
            'project': {'id': 'service', 'name': 'service', 'domain': domain},
            'roles': [{'id': 'admin', 'name': 'admin'}],
            'issued_at': '2020-01-01T00:00:00.000000Z',
            'expires_at': '2099-01-01T00:00:00.000000Z',
            'catalog': [
                {
                    'type': 'placement',
                    'name': 'placement',
                    'id': 'placement',
                    'endpoints': [
                        {
                            'id': interface,
                            'interface': interface,
                            'region': 'RegionOne',
                            'region_id': 'RegionOne',
                            'url': self.placement_url,
                        }
                        for interface in ('public', 'internal', 'admin')
                    ],
                }
            ],
        }

    def start(self):
        """Serve from now on."""
        self._thread.start()

    def stop(self):
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
