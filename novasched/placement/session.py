# SPDX-License-Identifier: Apache-2.0
"""The way to placement: where it is, who we are, how long we wait."""

from __future__ import annotations

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session, TCPKeepAliveAdapter
from oslo_config import cfg

from novasched import errors

GROUP = 'placement'
POOL_SIZE = 64

_adapter_opts = loading.get_adapter_conf_options(include_deprecated=False)
cfg.set_defaults(
    _adapter_opts, service_type='placement', valid_interfaces=['internal', 'public']
)

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *_adapter_opts,
    ],
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

    Nothing is sent: the first request gets a token. Error statuses do not
    raise. Raises errors.OptionError for options that make no sense.
    """
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        adapter = loading.load_adapter_from_conf_options(
            conf,
            GROUP,
            session=_session(conf),
            auth=auth,
            raise_exc=False,
        )
    except ksa.NoMatchingPlugin as error:
        raise errors.OptionError(
            '[placement] auth_type',
            str(error),
            'Set it to the name of a keystoneauth1 plugin, such as password.',
        ) from error
    except ksa.AuthPluginException as error:
        raise errors.OptionError(
            '[placement]', str(error), 'Set the options that auth_type asks for.'
        ) from error
    except TypeError as error:
        raise errors.OptionError(
            '[placement] valid_interfaces',
            str(error),
            'Name only internal, public and admin.',
        ) from error
    # Nova reads these three options and does not act on them.
    adapter.version = adapter.min_version = adapter.max_version = None
    return adapter


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


def _session(conf: cfg.ConfigOpts) -> Session:
    http = requests.Session()
    # keystoneauth1 keeps ten connections and throws away those of more threads.
    pool = TCPKeepAliveAdapter(
        pool_maxsize=POOL_SIZE,
        tls_ciphers=conf.placement.tls_ciphers,
        tls_min_version=conf.placement.tls_min_version,
    )
    for scheme in ('http://', 'https://'):
        http.mount(scheme, pool)
    session = loading.load_session_from_conf_options(
        conf, GROUP, session=http, app_name='novasched'
    )
    if conf.placement.timeout is None:
        session.timeout = float(conf.novasched.placement_timeout)
    return session


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
