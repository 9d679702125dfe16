# SPDX-License-Identifier: Apache-2.0
"""As much of Glance, Neutron and Keystone as the peer's services ask for.

There is every image, also one that is made, and no network; every token is an
administrator's.
"""

import http.server
import json
import threading
import uuid

# What Neutron's lists are called in its answers.
EMPTY = (
    'agents',
    'extensions',
    'floatingips',
    'networks',
    'ports',
    'security_groups',
    'subnets',
)
DOMAIN = {'id': 'default', 'name': 'Default'}
TOKEN = {
    'methods': ['password'],
    'user': {'id': 'admin', 'name': 'admin', 'domain': DOMAIN},
    'project': {'id': 'demo', 'name': 'demo', 'domain': DOMAIN},
    'roles': [{'id': role, 'name': role} for role in ('admin', 'member', 'reader')],
    'issued_at': '2020-01-01T00:00:00.000000Z',
    'expires_at': '2099-01-01T00:00:00.000000Z',
    'catalog': [],
}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers

    def do_GET(self):
        path = self.path.partition('?')[0]
        last = path.rsplit('/', 1)[-1].removesuffix('.json')
        if path.startswith('/v2/schemas/'):
            properties = {name: {} for name in image(last)}
            self._answer(200, {'name': last, 'properties': properties})
        elif path.startswith('/v2/images/'):
            self._answer(200, image(last))
        elif path == '/v3/auth/tokens':
            self._answer(200, {'token': TOKEN})
        elif last in EMPTY:
            self._answer(200, {last: []})
        else:
            self._answer(404, {'error': f'nothing at {self.path}'})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        if self.path.startswith('/v2/images'):
            self._answer(201, {**image(str(uuid.uuid4())), **body})
        else:
            self._answer(404, {'error': f'nothing at {self.path}'})

    def do_DELETE(self):
        self.send_response(204)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def _answer(self, status, body):
        payload = json.dumps(body).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, format, *args):
        """Keep quiet."""


def image(image_uuid):
    """A small public image."""
    at = '2020-01-01T00:00:00Z'
    return {
        'id': image_uuid,
        'name': 'cirros',
        'status': 'active',
        'visibility': 'public',
        'container_format': 'bare',
        'disk_format': 'qcow2',
        'size': 1 << 20,
        'virtual_size': None,
        'min_ram': 0,
        'min_disk': 0,
        'owner': 'images',
        'protected': False,
        'tags': [],
        'created_at': at,
        'updated_at': at,
        'checksum': None,
    }


class Neighbours:
    """A thread that answers for all of them at one address."""

    def __init__(self):
        self._server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self):
        """What `endpoint_override` names."""
        return f'http://127.0.0.1:{self._server.server_address[1]}'

    def start(self):
        """Serve from now on."""
        self._thread.start()

    def stop(self):
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
