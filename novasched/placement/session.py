# SPDX-License-Identifier: Apache-2.0
"""Session with placement: endpoint, credentials, timeout, and one request."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json
from novasched.ports import QueryFailed
from novasched.runtime.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'placement': http.options('placement'),
    'novasched': [
        http.timeout_option(
            'placement',
            'placement',
            60,
            ' A claim whose answer did not come in time is looked up, and undone\n'
            'where that fails, too.',
        ),
    ],
}

_UNREACHABLE = (
    ksa.EndpointNotFound,
    ksa.DiscoveryFailure,
    ksa.RequestTimeout,
    ksa.GatewayTimeout,
    ksa.ConnectFailure,
    ksa.ConnectTimeout,
)
_NO_SERVER = (502, 503)
_AT_ONCE_S = 2.0
"""How soon a stale connection breaks, or a gateway says that it has no server; with the
time that keystone takes for a token."""
_TOKEN_ENDED = 401

_WARNINGS: tuple[tuple[type[ksa.ClientException], str], ...] = (
    (ksa.EndpointNotFound, 'The placement API endpoint was not found.'),
    (ksa.MissingAuthPlugin, 'No authentication information found for placement API.'),
    (ksa.Unauthorized, 'Placement service credentials do not work.'),
    (ksa.DiscoveryFailure, 'Discovering suitable URL for placement API failed.'),
    (ksa.ClientException, 'Placement API service is not responding.'),
)


def from_conf(conf: cfg.ConfigOpts) -> Adapter:
    """Make the adapter that all requests to placement go through.

    Raises errors.OptionError for invalid options.
    """
    return http.adapter_from_conf(conf, 'placement')


def check(adapter: Adapter) -> str | None:
    """Ask placement for its versions, as the start of the service does.

    Returns None, or a warning when placement cannot be reached now but may be
    later. Raises errors.OptionError when waiting will not help.
    """
    if adapter.auth is None and adapter.session.auth is None:
        raise errors.OptionError(
            '[placement] auth_type',
            'No authentication information found for placement API',
            'Set it, and the options of the plugin that it names.',
        )
    try:
        answer = adapter.get('/')
    except _UNREACHABLE as error:
        return _warning(http.failure_words(adapter, 'placement', error))
    except ksa.Unauthorized as error:
        raise errors.OptionError(
            '[placement] auth_type',
            'Placement service credentials do not work: keystone refuses them',
            'Correct the credentials in [placement].',
        ) from error
    except ksa.ClientException as error:
        raise errors.OptionError(
            '[placement]',
            http.failure_words(adapter, 'placement', error),
            'Correct auth_url and cafile in [placement].',
        ) from error
    if answer.status_code == 408 or answer.status_code >= 500:
        return _warning(f'HTTP {answer.status_code}')
    try:
        if parse_json(answer.content)['versions']:
            return None
    except (ValueError, KeyError, TypeError):
        pass
    raise errors.OptionError(
        '[placement]',
        f'{answer.url} answers HTTP {answer.status_code} and is not placement',
        'Correct the endpoint in the catalog, or endpoint_override.',
    )


def _warning(problem: str) -> str:
    return (
        f'Unable to initialize placement client ({problem}); Continuing with '
        'startup, but scheduling will not be possible.'
    )


class NoAnswer(NamedTuple):
    """No answer of placement; when ``sent``, it may have acted all the same.

    ``text`` is a sentence that says where it was looked for, and what failed.
    ``is_unavailable``: it, or keystone before it, may soon answer.
    """

    text: str
    sent: bool
    is_unavailable: bool = False


def ask(
    adapter: Adapter,
    context: RequestContext,
    method: str,
    url: str,
    version: str | None,  # None for placement's oldest
    body: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,  # None for the adapter's
    is_quiet: bool = False,  # whether the caller logs why there is no answer
    clock: Clock = SYSTEM_CLOCK,
) -> requests.Response | NoAnswer:
    """Send a request; answers of any status are answers.

    A GET that fails at once, by a broken connection or a gateway without a server, is
    sent once more. Slow ones are not: many at once would overload a recovering server.
    Any request is sent again if its token has ended, as keystoneauth1 lets one of
    several threads renew it.
    """
    headers = http.headers(context)
    if version is not None:
        headers['OpenStack-API-Version'] = f'placement {version}'
    options: dict[str, Any] = {'headers': headers, 'raise_exc': False}
    if body is not None:
        options['json'] = body
    if timeout_s is not None:
        options['timeout'] = timeout_s
    began_s, is_read = clock.monotonic(), method == 'GET'

    def was_at_once() -> bool:
        return clock.monotonic() - began_s <= _AT_ONCE_S

    try:
        answer = adapter.request(url, method, **options)
        no_server = is_read and answer.status_code in _NO_SERVER and was_at_once()
        if not no_server and answer.status_code != _TOKEN_ENDED:
            return answer
    except (ksa.ConnectFailure, ksa.UnknownConnectionError) as error:
        if not is_read or not _was_sent(error) or not was_at_once():
            return _no_answer(adapter, error, is_quiet)
    except ksa.ClientException as error:
        return _no_answer(adapter, error, is_quiet)
    try:
        return adapter.request(url, method, **options)
    except ksa.ClientException as error:
        return _no_answer(adapter, error, is_quiet)


def _no_answer(
    adapter: Adapter, error: ksa.ClientException, is_quiet: bool
) -> NoAnswer:
    if isinstance(error, ksa.EndpointNotFound) and adapter.auth is not None:
        # The catalog came with the token; the next request gets new ones.
        adapter.invalidate()
    level = logging.DEBUG if is_quiet else logging.WARNING
    LOG.log(level, next(text for kind, text in _WARNINGS if isinstance(error, kind)))
    LOG.debug('Placement could not be asked: %s', error)
    text = http.failure_words(adapter, 'placement', error)
    said = text[:1].upper() + text[1:]
    return NoAnswer(said, _was_sent(error), http.is_unavailable(error))


def failed(answer: requests.Response | NoAnswer) -> QueryFailed:
    """Return the failure of a question that has no usable answer."""
    if isinstance(answer, NoAnswer):
        return QueryFailed(0, answer.text, answer.is_unavailable)
    status = answer.status_code
    return QueryFailed(status, http.excerpt(answer), http.has_failed(answer))


def _was_sent(error: ksa.ClientException) -> bool:
    """Return whether placement may have got the request.

    keystoneauth1 has one class for timeouts of connecting and of reading; what it
    caught distinguishes them.
    """
    if not isinstance(error, ksa.ConnectionError):
        return False
    if isinstance(error.__context__, requests.ConnectTimeout):
        return False
    return not http.was_refused(error)
