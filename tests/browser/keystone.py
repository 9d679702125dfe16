# SPDX-License-Identifier: Apache-2.0
"""A keystone of three users, as far as logging in and validating a token goes."""

from __future__ import annotations

import datetime
import json
import threading
import uuid
from typing import Any

from tests.support.servers.http_servers import HttpServer, JsonHandler

PASSWORD = 'correct horse'
SYSTEM = {'system': {'all': True}}
PROJECT = {
    'project': {
        'id': 'p1',
        'name': 'p1',
        'domain': {'id': 'default', 'name': 'Default'},
    }
}
USERS: dict[str, dict[str, Any]] = {
    'reader': {'roles': ['reader'], **SYSTEM},
    'admin': {'roles': ['admin', 'member', 'reader'], **PROJECT},
    'member': {'roles': ['member', 'reader'], **PROJECT},
    'novasched': {'roles': ['service'], **PROJECT},
}
"""The last is that of the console itself."""
CONF = """[keystone_authtoken]
auth_type = password
auth_url = {url}
www_authenticate_uri = {url}
username = novasched
password = correct horse
project_name = p1
user_domain_id = default
project_domain_id = default
"""


class Keystone(HttpServer):
    """Answers at a free port of this machine."""

    def __init__(self) -> None:
        super().__init__(_Handler, '/v3')
        self.tokens: dict[str, str] = {}
        """The names of users by their tokens, those that are valid."""
        self.unscoped: set[str] = set()
        """Tokens of users of the system, who have not asked for it."""
        self.console_url: str | None = None
        """The endpoint of a console in the catalog of every token."""
        self.passwords = 0
        """How many were sent."""
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.waiting = 0
        """Requests that wait until it may answer."""

    def wait(self) -> None:
        """Wait until it may answer."""
        self.waiting += 1
        self.may_answer.wait()
        self.waiting -= 1

    def body(self, name: str, token: str) -> dict[str, Any]:
        """Return what a token of a user says."""
        known = dict(USERS[name])
        if token in self.unscoped:
            known = {'roles': []}
        now = datetime.datetime.now(datetime.UTC)
        later = now + datetime.timedelta(hours=1)
        catalog = [_service('identity', self.url)]
        if self.console_url is not None:
            catalog.append(_service('scheduler-console', self.console_url))
        roles = [{'id': role, 'name': role} for role in known.pop('roles')]
        return {
            'token': {
                'methods': ['password'],
                'user': {
                    'id': f'id of {name}',
                    'name': name,
                    'domain': {'id': 'default', 'name': 'Default'},
                },
                'roles': roles,
                'issued_at': f'{now:%Y-%m-%dT%H:%M:%S.%fZ}',
                'expires_at': f'{later:%Y-%m-%dT%H:%M:%S.%fZ}',
                'audit_ids': ['a'],
                'catalog': catalog,
                **known,
            }
        }


class _Handler(JsonHandler):
    @property
    def keystone(self) -> Keystone:
        found: Keystone = self.server.service
        return found

    def get(self) -> None:
        self.keystone.wait()
        if self.path.rstrip('/') in ('/v3', ''):
            link = {'rel': 'self', 'href': f'{self.keystone.url}/'}
            version = {'id': 'v3.14', 'status': 'stable', 'links': [link]}
            self.answer(200, {'version': version})
        elif name := self._subject():
            subject = self.headers['X-Subject-Token']
            self.answer(200, self.keystone.body(name, subject))
        else:
            self.answer(404, _error(404))

    def post(self) -> None:
        self.keystone.wait()
        asked = json.loads(self.body())['auth']
        name, scope = self._name(asked['identity']), asked.get('scope') or {}
        known = USERS.get(name)
        is_his = not scope or any(kind in scope for kind in (known or {}))
        if known is None or not is_his:
            self.answer(401, _error(401))
            return
        token = uuid.uuid4().hex
        self.keystone.tokens[token] = name
        if 'system' in known and not scope:
            self.keystone.unscoped.add(token)
        self.answer(201, self.keystone.body(name, token), X_Subject_Token=token)

    def _name(self, identity: dict[str, Any]) -> str:
        """Return the name of the user who is identified, '' for none."""
        if identity['methods'] == ['token']:
            return self.keystone.tokens.get(identity['token']['id'], '')
        self.keystone.passwords += 1
        user = identity['password']['user']
        return str(user.get('name', '')) if user['password'] == PASSWORD else ''

    def delete(self) -> None:
        if self.path != '/v3/auth/tokens':
            self.answer(404, _error(404))
            return
        self.keystone.tokens.pop(self.headers.get('X-Subject-Token', ''), None)
        self.answer(204)

    def _subject(self) -> str | None:
        if self.headers.get('X-Auth-Token') not in self.keystone.tokens:
            return None
        return self.keystone.tokens.get(self.headers.get('X-Subject-Token', ''))


def _service(type: str, url: str) -> dict[str, Any]:
    """Return a service of a catalog."""
    endpoints = [
        {'id': side, 'interface': side, 'region': 'r', 'url': url}
        for side in ('public', 'internal', 'admin')
    ]
    return {'id': type, 'type': type, 'name': type, 'endpoints': endpoints}


def _error(status: int) -> dict[str, Any]:
    return {'error': {'code': status, 'title': 'no', 'message': 'no'}}
