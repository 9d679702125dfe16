# SPDX-License-Identifier: Apache-2.0
"""A keystone of three users, as far as logging in and validating a token goes."""

from __future__ import annotations

import contextlib
import datetime
import http.server
import json
import threading
import uuid
from collections.abc import Iterator
from typing import Any

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


class Keystone(http.server.ThreadingHTTPServer):
    """Answers at a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(('127.0.0.1', 0), _Handler)
        self.url = f'http://127.0.0.1:{self.server_address[1]}/v3'
        self.tokens: dict[str, str] = {}
        """The names of users by their tokens, those that are valid."""
        self.unscoped: set[str] = set()
        """Tokens of users of the system, who have not asked for it."""
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
        identity = [
            {'id': side, 'interface': side, 'region': 'r', 'url': self.url}
            for side in ('public', 'internal', 'admin')
        ]
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
                'catalog': [
                    {'id': 'i', 'type': 'identity', 'name': 'i', 'endpoints': identity}
                ],
                **known,
            }
        }


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True  # else a body waits 40 ms behind its headers
    server: Keystone

    def do_GET(self) -> None:
        self.server.wait()
        if self.path.rstrip('/') in ('/v3', ''):
            link = {'rel': 'self', 'href': f'{self.server.url}/'}
            version = {'id': 'v3.14', 'status': 'stable', 'links': [link]}
            self._answer(200, {'version': version})
        elif name := self._subject():
            subject = self.headers['X-Subject-Token']
            self._answer(200, self.server.body(name, subject))
        else:
            self._answer(404, _error(404))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        self.server.wait()
        length = int(self.headers.get('Content-Length', 0))
        asked = json.loads(self.rfile.read(length))['auth']
        name, scope = self._name(asked['identity']), asked.get('scope') or {}
        known = USERS.get(name)
        is_his = not scope or any(kind in scope for kind in (known or {}))
        if known is None or not is_his:
            self._answer(401, _error(401))
            return
        token = uuid.uuid4().hex
        self.server.tokens[token] = name
        if 'system' in known and not scope:
            self.server.unscoped.add(token)
        self._answer(201, self.server.body(name, token), token)

    def _name(self, identity: dict[str, Any]) -> str:
        """Return the name of the user who is identified, '' for none."""
        if identity['methods'] == ['token']:
            return self.server.tokens.get(identity['token']['id'], '')
        self.server.passwords += 1
        user = identity['password']['user']
        return str(user.get('name', '')) if user['password'] == PASSWORD else ''

    def do_DELETE(self) -> None:
        if self.path != '/v3/auth/tokens':
            self._answer(404, _error(404))
            return
        self.server.tokens.pop(self.headers.get('X-Subject-Token', ''), None)
        self._answer(204, None)

    def _subject(self) -> str | None:
        if self.headers.get('X-Auth-Token') not in self.server.tokens:
            return None
        return self.server.tokens.get(self.headers.get('X-Subject-Token', ''))

    def _answer(self, status: int, said: Any, token: str = '') -> None:
        content = b'' if said is None else json.dumps(said).encode()
        self.send_response(status)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(content)))
        if token:
            self.send_header('X-Subject-Token', token)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    def log_message(self, *words: Any) -> None:
        """Say nothing."""


def _error(status: int) -> dict[str, Any]:
    return {'error': {'code': status, 'title': 'no', 'message': 'no'}}


@contextlib.contextmanager
def running() -> Iterator[Keystone]:
    """Run it while the context lasts."""
    with Keystone() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.shutdown()
            thread.join()
