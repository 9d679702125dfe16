# SPDX-License-Identifier: Apache-2.0
"""Checks of every request to the console, and headers of every answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from werkzeug.wrappers import Response

from novasched.commands.console_client import API
from novasched.console.settings import GROUP, ConsoleSettings, is_loopback

if TYPE_CHECKING:
    import flask

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

READING = ('GET', 'HEAD')
POSTED = ('/login', '/logout')
UNLINKED = (API, '/capacity/heat')
"""Beginnings of the paths to which pages of other sites cannot link."""

HEADERS: Mapping[str, str] = {
    'Content-Security-Policy': "default-src 'none'; script-src 'self'; "
    "style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'",
    'Referrer-Policy': 'no-referrer',
    'Cache-Control': 'no-store',
    'X-Content-Type-Options': 'nosniff',
}
"""Headers of every answer; they replace those that the application sets."""
REPLACED = frozenset(name.lower() for name in HEADERS)


def install(app: flask.Flask, settings: ConsoleSettings) -> None:
    """Have an application answer as the console must, whatever its routes are.

    What wraps the application, as login.wrap() does, comes before this.
    """
    # What is sent to /login has a name and a password in it.
    app.config['MAX_CONTENT_LENGTH'] = 16 * 1024
    app.wsgi_app = Guard(app.wsgi_app, settings)  # type: ignore[method-assign]


class Guard:
    """A WSGI application around another: refuses what is not to be answered, and sets
    the headers of every answer."""

    def __init__(self, app: Application, settings: ConsoleSettings) -> None:
        self._app = app
        self._settings = settings

    def __call__(
        self, environ: Environ, start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
            own = [each for each in headers if each[0].lower() not in REPLACED]
            return start_response(status, own + list(HEADERS.items()), *more)

        answer = self._refusal(environ) or self._app
        return answer(environ, start)

    def _refusal(self, environ: Environ) -> Response | None:
        if not self._settings.has_keystone:
            client = environ.get('REMOTE_ADDR') or 'localhost'  # unix sockets have none
            if not is_loopback(client):
                return _refused(_NOT_FROM_HERE)
            if host_of(environ) not in self._settings.allowed_hosts:
                return _refused(_OTHER_HOST)
        if not is_open_to_other_sites(environ):
            return _refused(_OTHER_SITE)
        posted = POSTED if self._settings.has_keystone else ()
        method, path = environ['REQUEST_METHOD'], environ.get('PATH_INFO', '')
        if path in posted and method == 'POST':
            if not is_from_here(environ):
                return _refused(_OTHER_ORIGIN)
        elif method not in READING:
            allow = [*READING, *(['POST'] if path in posted else [])]
            return _refused(
                _READ_ONLY, '405 Method Not Allowed', Allow=', '.join(allow)
            )
        return None


def _refused(text: str, status: str = '403 Forbidden', **headers: str) -> Response:
    return Response(text, status, headers, content_type='text/plain; charset=utf-8')


_NOT_FROM_HERE = (
    'There is no authentication here, so that only clients of this machine are '
    f'answered. Set [{GROUP}] auth_strategy = keystone for others.\n'
)
_OTHER_HOST = (
    f'The console does not answer to this name. Use localhost, or add the name to '
    f'[{GROUP}] allowed_hosts.\n'
)
_OTHER_ORIGIN = 'This was sent by a page of somebody else.\n'
_OTHER_SITE = (
    'A page of another site has asked for this. Its links to pages of the console '
    'may be followed, and no more.\n'
)
_READ_ONLY = 'The console only shows; nothing can be changed here.\n'


def host_of(environ: Environ) -> str:
    """Return the name by which a client asks, without port and brackets."""
    try:
        found = urlsplit(f'//{environ.get("HTTP_HOST", "")}').hostname
    except ValueError:
        return ''
    return found or ''


def is_of_other_site(environ: Environ) -> bool:
    """Return whether a page of another site has caused a request."""
    return environ.get('HTTP_SEC_FETCH_SITE', 'none') not in ('same-origin', 'none')


def is_open_to_other_sites(environ: Environ) -> bool:
    """Return whether a request may be answered in view of the site that caused it.

    Another site may link to pages. It may not embed or fetch them, nor ask for the API:
    a page open in a browser could keep the console busy. Other names of the same domain
    are other sites. Clients other than browsers send no Sec-Fetch-Site.
    """
    if not is_of_other_site(environ):
        return True
    is_followed = environ.get('HTTP_SEC_FETCH_DEST') == 'document'
    return is_followed and not environ.get('PATH_INFO', '').startswith(UNLINKED)


def is_from_here(environ: Environ) -> bool:
    """Return whether a form was sent by a page of this console.

    Origin is ``null`` in browsers that keep to our Referrer-Policy; they say it in
    Sec-Fetch-Site, which no page can set.
    """
    if site := environ.get('HTTP_SEC_FETCH_SITE'):
        return bool(site == 'same-origin')
    origin = environ.get('HTTP_ORIGIN', '').partition('://')[2]
    return bool(origin) and origin.lower() == environ.get('HTTP_HOST', '').lower()
