# SPDX-License-Identifier: Apache-2.0
"""The two Keystone calls that a service makes on its way to placement.

Every password but `WRONG` is accepted; the token is the word that placement's
`noauth2` strategy takes for an administrator.
"""

from tests.support.servers.http_servers import HttpServer, JsonHandler

WRONG = 'wrong-password'
TOKEN = 'admin'


class _Handler(JsonHandler):
    def get(self):
        version = {
            'id': 'v3.14',
            'status': 'stable',
            'links': [{'rel': 'self', 'href': f'{self.server.service.url}/'}],
        }
        if self.path.startswith('/v3'):
            self.answer(200, {'version': version})
        else:
            self.answer(300, {'versions': {'values': [version]}})

    def post(self):
        asked = self.body()
        if self.server.service.is_unavailable:
            code = self.server.service.answers
            self.answer(code, {'error': {'code': code, 'title': 'Unavailable'}})
        elif WRONG in asked.decode():
            self.answer(401, {'error': {'code': 401, 'title': 'Unauthorized'}})
        else:
            self.answer(
                201, {'token': self.server.service.token()}, X_Subject_Token=TOKEN
            )


class Keystone(HttpServer):
    """A thread that hands out tokens with a catalogue of one service.

    ``issued`` counts the tokens; none is while it ``is_unavailable`` and ``answers``
    with a status: 200 is a gateway's page.
    """

    def __init__(self):
        self.placement_url = None
        self.issued = 0
        self.is_unavailable, self.answers = False, 503
        super().__init__(_Handler, '/v3')

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
