# SPDX-License-Identifier: Apache-2.0
"""Authentication by keystone: requests need a token that a policy allows.

Clients send it in X-Auth-Token; browsers get it by a form, and keep it in a cookie that
no script can read.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from typing import Any

import flask
from keystoneauth1 import exceptions as keystone_errors
from oslo_config import cfg
from werkzeug.wrappers import Response

from novasched import errors
from novasched.commands.console_client import API
from novasched.console.app import json_error
from novasched.console.identity import (
    BUSY,
    COOKIE,
    DEFAULT_DOMAIN,
    HEADER,
    Identity,
    KeystoneLimit,
    TokenCheck,
    TokenOfCookie,
    option_error,
    token_of,
)
from novasched.console.policies import RULE, TokenOwner, enforcer_of
from novasched.runtime import connections

LOG = logging.getLogger(__name__)

OPEN = frozenset({'login', 'logout', 'static'})
"""Endpoints that need no token."""
MOST_ENDED = 100_000
"""Tokens that were logged out and are remembered: more than any client could log out
while one of them is cached."""


def wrap(app: flask.Flask, conf: cfg.ConfigOpts) -> None:
    """Have an application answer those alone whom the policy allows to look.

    Raises errors.OptionError.
    """
    # Half of the threads are left for what needs no keystone.
    limit = KeystoneLimit(max(1, conf.novasched_console.threads // 2))
    inner = app.wsgi_app
    try:
        validated = TokenCheck(inner, conf, limit)
    except keystone_errors.ClientException as problem:
        raise option_error(str(problem)) from problem
    app.wsgi_app = TokenOfCookie(validated, inner)  # type: ignore[method-assign]
    access = AccessCheck(Identity.from_conf(conf, limit), enforcer_of(conf))
    app.before_request(access.check)
    app.add_url_rule('/login', 'login', access.log_in, methods=['GET', 'POST'])
    app.add_url_rule('/logout', 'logout', access.log_out, methods=['POST'])


class EndedTokens:
    """The tokens that were logged out here last, by their hashes; threads may share it.

    keystonemiddleware takes a revoked token for a valid one for some minutes.
    """

    def __init__(self, most: int = MOST_ENDED) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._hashes: dict[bytes, None] = {}

    def add(self, token: str) -> None:
        with self._lock:
            self._hashes[_hash(token)] = None
            while len(self._hashes) > self._most:
                del self._hashes[next(iter(self._hashes))]

    def __contains__(self, token: str) -> bool:
        return _hash(token) in self._hashes


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


class AccessCheck:
    """Lets those in whom the policy allows, and shows the others a form."""

    def __init__(self, identity: Identity, enforcer: Any) -> None:
        self._identity = identity
        self._enforcer = enforcer
        self._ended = EndedTokens()

    def check(self) -> Any:
        """Return the answer instead of a page; None if the client is authorized."""
        request = flask.request
        if request.endpoint in OPEN:
            return None
        if problem := request.environ.get(BUSY):
            raise problem
        token = request.environ.get(HEADER, '')
        is_confirmed = request.environ.get('HTTP_X_IDENTITY_STATUS') == 'Confirmed'
        if not is_confirmed or token in self._ended:
            if token:
                LOG.info(
                    'A token is not valid any more, or was never: from %s', _from()
                )
            return _unauthenticated()
        who = TokenOwner.from_environ(request.environ)
        if self._enforcer.authorize(RULE, {}, who):
            flask.g.user = who.user_id
            return None
        LOG.info(
            'User %s from %s is not authorized: policy %s', who.user_id, _from(), RULE
        )
        roles = ', '.join(sorted(who.roles)) or 'none'
        text = f'None of your roles ({roles}) is allowed by policy {RULE}.'
        if request.path.startswith(API):
            return json_error(403, text)
        return _form(403, 'Not authorized', text, may_log_in=False)

    def log_in(self) -> Any:
        """Show the form, or get a token for the user that it names."""
        given = flask.request.form
        if flask.request.method != 'POST':
            return _form(200, 'Log in')
        # All that can fail comes before there is a token, which would stay valid.
        answer = flask.redirect(_next(given.get('next', '')), 303)
        try:
            token = self._identity.token(
                given.get('username', ''),
                given.get('password', ''),
                given.get('domain', ''),
                given.get('project', ''),
            )
        except (keystone_errors.Unauthorized, keystone_errors.BadRequest):
            name = given.get('username', '')
            LOG.info('Keystone has refused the login of %.64s from %s', name, _from())
            text = 'Keystone does not know this name with this password and scope.'
            return _form(401, 'Log in', text)
        except errors.Busy as problem:
            return _form(503, 'Log in', f'{problem}.')
        except keystone_errors.ClientException as problem:
            why = connections.reason(problem)
            LOG.warning('Logins fail, as keystone is unavailable: %s', why)
            return _form(503, 'Log in', 'Keystone does not answer. Try again.')
        answer.set_cookie(COOKIE, token, secure=True, httponly=True, samesite='Strict')
        return answer

    def log_out(self) -> Response:
        """Forget the token, here and in keystone."""
        token = token_of(flask.request)
        if token:
            self._ended.add(token)
            try:
                self._identity.revoke(token)
            except (keystone_errors.ClientException, errors.Busy) as problem:
                LOG.info('A token stays valid until it expires: %s', problem)
        answer = flask.redirect('/login', 303)
        answer.delete_cookie(COOKIE, secure=True, httponly=True, samesite='Strict')
        return answer


def _from() -> str:
    """Return the address of a client; behind a proxy, of that."""
    return flask.request.remote_addr or 'a local socket'


def _unauthenticated() -> Any:
    """Return the way to the form for browsers, and words for other clients.

    A program that gathers metrics would take a form for them.
    """
    request = flask.request
    has_sent_token = HEADER in request.environ and COOKIE not in request.cookies
    is_browser = 'text/html' in request.headers.get('Accept', '')
    if has_sent_token or not is_browser or request.path.startswith(API):
        return json_error(401, 'Send a valid token of keystone in X-Auth-Token.')
    target = request.full_path.rstrip('?')
    return flask.redirect(flask.url_for('login', next=target), 303)


def _next(path: str) -> str:
    """Return where to go after the login: a page of this console.

    Browsers drop control characters, so that one may hide another server's name.
    """
    is_ours = path.startswith('/') and not path.startswith(('//', '/\\'))
    return path if is_ours and path.isprintable() else '/'


def _form(
    status: int, title: str, problem: str = '', may_log_in: bool = True
) -> Response:
    given = flask.request.values
    page = {
        'title': title,
        'problem': problem,
        'may_log_in': may_log_in,
        'next': _next(given.get('next', '')),
        'username': given.get('username', ''),
        'domain': given.get('domain', DEFAULT_DOMAIN),
        'project': given.get('project', ''),
    }
    return flask.make_response(flask.render_template('login.html', page=page), status)
