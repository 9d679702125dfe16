# SPDX-License-Identifier: Apache-2.0
"""Session with placement: endpoint, credentials and timeout."""

from __future__ import annotations

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import errors, http

GROUP = 'placement'

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: http.options('placement'),
    'novasched': [
        cfg.IntOpt(
            'placement_timeout',
            default=60,
            min=1,
            help="""
Seconds to wait for an answer of placement.

Holds where ``[placement] timeout`` is not set, which alone would mean to wait
for ever. A claim whose answer did not come in time is looked up, and undone
where that fails, too.

Related options:

* ``[placement] timeout``
""",
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


def from_conf(conf: cfg.ConfigOpts) -> Adapter:
    """Make the adapter that all requests to placement go through.

    Raises errors.OptionError for options that make no sense.
    """
    timeout_s = float(conf.novasched.placement_timeout)
    return http.adapter_from_conf(conf, GROUP, timeout_s)


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
        return _warning(str(error))
    except ksa.Unauthorized as error:
        raise errors.OptionError(
            '[placement] auth_type',
            f'Placement service credentials do not work: {error}',
            'Correct the credentials in [placement].',
        ) from error
    except ksa.ClientException as error:
        raise errors.OptionError(
            '[placement]', str(error), 'Correct auth_url and cafile in [placement].'
        ) from error
    return _judged(answer)


def _judged(answer: requests.Response) -> str | None:
    if (
        answer.status_code == requests.codes.request_timeout
        or answer.status_code >= 500
    ):
        return _warning(f'HTTP {answer.status_code}')
    try:
        if answer.json()['versions']:
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
