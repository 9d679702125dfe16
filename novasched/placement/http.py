# SPDX-License-Identifier: Apache-2.0
"""HTTP requests to placement and their answers."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.adapter import Adapter

from novasched import http
from novasched.objects.context import RequestContext

LOG = logging.getLogger(__name__)

_WARNINGS: tuple[tuple[type[ksa.ClientException], str], ...] = (
    (ksa.EndpointNotFound, 'The placement API endpoint was not found.'),
    (ksa.MissingAuthPlugin, 'No authentication information found for placement API.'),
    (ksa.Unauthorized, 'Placement service credentials do not work.'),
    (ksa.DiscoveryFailure, 'Discovering suitable URL for placement API failed.'),
)


_NO_SERVER = (502, 503)


class NoAnswer(NamedTuple):
    """Placement did not answer; when ``sent``, it may have acted all the same."""

    text: str
    sent: bool


def ask(
    adapter: Adapter,
    context: RequestContext,
    method: str,
    url: str,
    version: str | None,
    body: Mapping[str, Any] | None = None,
    timeout_s: float | None = None,
) -> requests.Response | NoAnswer:
    """Send a request; answers of any status are answers.

    ``version`` None asks for placement's oldest; ``timeout_s`` None leaves the
    adapter's. A GET is sent once more when its connection breaks, as the server may
    have closed an idle connection just then, when its answer breaks off, and when a
    gateway has no server for it.
    """
    headers = {
        'Accept': 'application/json',
        'X-OpenStack-Request-ID': context.global_id,
    }
    if version is not None:
        headers['OpenStack-API-Version'] = f'placement {version}'
    options: dict[str, Any] = {'headers': headers, 'raise_exc': False}
    if body is not None:
        options['json'] = body
    if timeout_s is not None:
        options['timeout'] = timeout_s
    try:
        answer = adapter.request(url, method, **options)
        if method != 'GET' or answer.status_code not in _NO_SERVER:
            return answer
    except (ksa.ConnectFailure, ksa.UnknownConnectionError) as error:
        if method != 'GET' or not _was_sent(error):
            return _no_answer(adapter, error)
    except ksa.ClientException as error:
        return _no_answer(adapter, error)
    try:
        return adapter.request(url, method, **options)
    except ksa.ClientException as error:
        return _no_answer(adapter, error)


def _no_answer(adapter: Adapter, error: ksa.ClientException) -> NoAnswer:
    if isinstance(error, ksa.EndpointNotFound) and adapter.auth is not None:
        # The catalog came with the token; the next request gets new ones.
        adapter.invalidate()
    for kind, text in _WARNINGS:
        if isinstance(error, kind):
            LOG.warning(text)
            break
    else:
        LOG.warning('Placement API service is not responding.')
    LOG.debug('Placement could not be asked: %s', error)
    return NoAnswer(str(error), _was_sent(error))


def _was_sent(error: ksa.ClientException) -> bool:
    """Tell whether placement may have got the request.

    keystoneauth1 has one class for timeouts of connecting and of reading; what it
    caught distinguishes them.
    """
    if not isinstance(error, ksa.ConnectionError):
        return False
    if isinstance(error.__context__, requests.ConnectTimeout):
        return False
    return not http.was_refused(error)
