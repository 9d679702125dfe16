# SPDX-License-Identifier: Apache-2.0
"""Tokens of keystone: got by a password, validated, and given back.

A keystone that hangs holds some threads of the console, never all.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import flask
from keystoneauth1 import exceptions as keystone_errors
from keystoneauth1 import loading
from keystoneauth1.identity import v3
from keystoneauth1.session import Session
from keystonemiddleware import auth_token  # type: ignore[import-untyped]
from keystonemiddleware.opts import list_auth_token_opts  # type: ignore[import-untyped]
from oslo_config import cfg

from novasched import errors
from novasched.console.security import Application, Environ
from novasched.process import configuration

GROUP = 'keystone_authtoken'
COOKIE = 'novasched_token'
HEADER = 'HTTP_X_AUTH_TOKEN'
TOKENS = (HEADER, 'HTTP_X_SERVICE_TOKEN')
"""Headers that keystonemiddleware sends on to keystone."""
A_TOKEN = re.compile(r'[!-~]+')
"""Characters that a token may have; no others can be sent in a header."""
IDENTITY = ('HTTP_X_', 'HTTP_OPENSTACK_')
"""Beginnings of the headers by which keystonemiddleware names the sender of a request,
or looks for a token. All but TOKENS are dropped if a client sends them."""
CACHED_S = 60
"""How long a token that was valid is taken for valid, at most.

A token that was revoked elsewhere, or logged out at another process of this console,
works on for so long.
"""
KEYSTONE_S = 10.0
WAIT_S = 1.0
"""Most calls to keystone take less."""
BUSY = 'novasched.keystone_busy'
"""The errors.Busy that kept the token of a request from being validated."""
DEFAULT_DOMAIN = 'Default'
UNGUARDED = ('/login', '/logout', '/static/')
"""Beginnings of the paths whose requests need no token."""


class KeystoneLimit:
    """Limit of the calls to keystone at a time; those beyond it wait for WAIT_S."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._free = threading.BoundedSemaphore(most)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Count a call while it lasts. Raises errors.Busy."""
        if not self._free.acquire(timeout=WAIT_S):
            raise errors.Busy(
                self._most,
                f'{self._most} clients are waiting for keystone already; try again in '
                'a moment',
            )
        try:
            yield
        finally:
            self._free.release()


class TokenCheck(auth_token.AuthProtocol):  # type: ignore[misc]
    """A WSGI application around another: finds the owner of the token of a request, or
    the reason why it could not, under BUSY."""

    def __init__(self, app: Application, conf: cfg.ConfigOpts, limit: KeystoneLimit):
        self._limit = limit
        given = {'oslo_config_config': conf, 'delay_auth_decision': True}
        super().__init__(app, {**given, 'token_cache_time': cached_s(conf)})

    def process_request(self, request: Any) -> Any:
        try:
            with self._limit.held():
                return super().process_request(request)
        except errors.Busy as problem:
            request.remove_auth_headers()
            request.environ[BUSY] = problem
            return None


def cached_s(conf: cfg.ConfigOpts) -> int:
    """Return how long a token is cached; below 0: not at all. 0 would mean for ever."""
    configuration.register(conf, list_auth_token_opts())
    wanted = int(conf[GROUP].token_cache_time)
    return min(wanted or CACHED_S, CACHED_S)


class TokenOfCookie:
    """A WSGI application around another: a token in the cookie counts as one in the
    header, where there is none. ``unguarded`` answers what needs none.

    Redirects name no server: auth_token has them name the one that it sees, which is
    another than the browser's behind a proxy that ends TLS.
    """

    def __init__(self, app: Application, unguarded: Application) -> None:
        self._app = app
        self._unguarded = unguarded

    def __call__(
        self, environ: Environ, start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            own = [(k, _path_of(v) if k == 'Location' else v) for k, v in headers]
            return start_response(status, own, *more)

        for header in [each for each in environ if each.startswith(IDENTITY)]:
            if header not in TOKENS or not A_TOKEN.fullmatch(environ[header]):
                del environ[header]
        if environ.get('PATH_INFO', '').startswith(UNGUARDED):
            return self._unguarded(environ, start)
        if HEADER not in environ and (token := token_of(flask.Request(environ))):
            environ[HEADER] = token
        return self._app(environ, start)


def token_of(request: flask.Request) -> str:
    """Return the token in the cookie of a request; empty: there is none.

    A quoted cookie may hold escaped characters of any kind.
    """
    token = request.cookies.get(COOKIE, '')
    return token if A_TOKEN.fullmatch(token) else ''


def _path_of(url: str) -> str:
    """Return a URL without its server; it never begins as another server's."""
    found = urlsplit(url)._replace(scheme='', netloc='')
    return found._replace(path='/' + found.path.lstrip('/')).geturl()


class Identity:
    """Gets tokens from the keystone that validates them, and gives them back."""

    def __init__(self, session: Session, url: str, limit: KeystoneLimit) -> None:
        self._session = session
        self._url = url
        self._limit = limit

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, limit: KeystoneLimit) -> Identity:
        """Read [keystone_authtoken], which auth_token has registered.

        Raises errors.OptionError.
        """
        loading.register_auth_conf_options(conf, GROUP)
        try:
            plugin = loading.load_auth_from_conf_options(conf, GROUP)
        except (keystone_errors.ClientException, cfg.Error) as problem:
            raise option_error(str(problem)) from problem
        url = getattr(plugin, 'auth_url', None)
        if not url:
            raise option_error('auth_url is missing')
        own = conf[GROUP]
        session = Session(
            verify=not own.insecure and (own.cafile or True),
            cert=(own.certfile, own.keyfile) if own.certfile else None,
            timeout=KEYSTONE_S,
        )
        return cls(session, url, limit)

    def token(self, name: str, password: str, domain: str, project: str) -> str:
        """Return a token for a project; without one for the whole system, or else for
        what keystone gives the user by itself.

        The password is sent once: keystone may lock out a user after some wrong ones.
        Raises keystoneauth1.exceptions.ClientException and errors.Busy.
        """
        domain = domain or DEFAULT_DOMAIN
        scope: dict[str, Any] = {}
        if project:
            scope = {'project_name': project, 'project_domain_name': domain}
        user: dict[str, Any] = {'username': name, 'password': password}
        user['user_domain_name'] = domain
        with self._limit.held():
            given = self._token(v3.Password(self._url, **user, **scope))
            if project:
                return given
            try:
                return self._token(v3.Token(self._url, given, system_scope='all'))
            except (keystone_errors.Unauthorized, keystone_errors.Forbidden):
                return given

    def _token(self, plugin: v3.Auth) -> str:
        return str(plugin.get_access(self._session).auth_token)

    def revoke(self, token: str) -> None:
        """Revoke a token. Raises keystoneauth1.exceptions.ClientException and
        errors.Busy."""
        headers = {'X-Auth-Token': token, 'X-Subject-Token': token}
        root = self._url.rstrip('/')
        if not root.endswith('/v3'):  # as keystoneauth does to get one
            root += '/v3'
        url = f'{root}/auth/tokens'
        with self._limit.held():
            self._session.delete(url, headers=headers, authenticated=False)


def option_error(problem: str) -> errors.OptionError:
    return errors.OptionError(
        f'[{GROUP}]', problem, 'Set it as for the other services of the cloud'
    )
