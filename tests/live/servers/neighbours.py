# SPDX-License-Identifier: Apache-2.0
"""As much of Glance, Neutron and Keystone as the peer's services ask for.

There is every image, also one that is made, and no network; every token is an
administrator's.
"""

import json
import uuid

from tests.support.servers.http_servers import HttpServer, JsonHandler

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


class _Handler(JsonHandler):
    def get(self):
        path = self.path.partition('?')[0]
        last = path.rsplit('/', 1)[-1].removesuffix('.json')
        if path.startswith('/v2/schemas/'):
            properties = {name: {} for name in image(last)}
            self.answer(200, {'name': last, 'properties': properties})
        elif path.startswith('/v2/images/'):
            self.answer(200, image(last))
        elif path == '/v3/auth/tokens':
            self.answer(200, {'token': TOKEN})
        elif last in EMPTY:
            self.answer(200, {last: []})
        else:
            self.answer(404, {'error': f'nothing at {self.path}'})

    def post(self):
        body = json.loads(self.body())
        if self.path.startswith('/v2/images'):
            self.answer(201, {**image(str(uuid.uuid4())), **body})
        else:
            self.answer(404, {'error': f'nothing at {self.path}'})

    def delete(self):
        self.answer(204)


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


class Neighbours(HttpServer):
    """Answers for all of them at one address."""

    def __init__(self):
        super().__init__(_Handler)
