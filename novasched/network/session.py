# SPDX-License-Identifier: Apache-2.0
"""The way to the network service: where it is, who we are, how long we wait."""

from __future__ import annotations

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session, TCPKeepAliveAdapter
from oslo_config import cfg

from novasched import errors

GROUP = 'neutron'
POOL_SIZE = 64

_adapter_opts = loading.get_adapter_conf_options(include_deprecated=False)
cfg.set_defaults(
    _adapter_opts, service_type='network', valid_interfaces=['internal', 'public']
)

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
        *_adapter_opts,
        cfg.IntOpt(
            'http_retries',
            default=3,
            min=0,
            help="""
How often a request is sent again when the network service refuses the connection.

``[neutron] connect_retries`` comes first where it is set. 0: it is sent once. A
service that does not answer in time is not asked again.
""",
        ),
    ],
    'novasched': [
        cfg.IntOpt(
            'neutron_timeout',
            default=30,
            min=1,
            help="""
Seconds to wait for an answer of the network service.

Holds where ``[neutron] timeout`` is not set, which alone would mean to wait for
ever.

Related options:

* ``[neutron] timeout``
""",
        ),
    ],
}


def from_conf(conf: cfg.ConfigOpts) -> Adapter:
    """Make the adapter that all requests to the network service go through.

    Nothing is sent. Without ``auth_type`` it has no credentials of its own. Error
    statuses do not raise. Raises errors.OptionError for options that make no sense.
    """
    try:
        auth = None
        if conf.neutron.auth_type or conf.neutron.auth_section:
            auth = loading.load_auth_from_conf_options(conf, GROUP)
        adapter = loading.load_adapter_from_conf_options(
            conf, GROUP, session=_session(conf), auth=auth, raise_exc=False
        )
    except ksa.NoMatchingPlugin as error:
        raise errors.OptionError(
            '[neutron] auth_type',
            str(error),
            'Set it to the name of a keystoneauth1 plugin, such as password.',
        ) from error
    except ksa.AuthPluginException as error:
        raise errors.OptionError(
            '[neutron]', str(error), 'Set the options that auth_type asks for.'
        ) from error
    except TypeError as error:
        raise errors.OptionError(
            '[neutron] valid_interfaces',
            str(error),
            'Name only internal, public and admin.',
        ) from error
    if adapter.connect_retries is None:
        adapter.connect_retries = conf.neutron.http_retries
    # The URLs name the version of the API, which has one.
    adapter.version = adapter.min_version = adapter.max_version = None
    return adapter


def _session(conf: cfg.ConfigOpts) -> Session:
    http = requests.Session()
    # keystoneauth1 keeps ten connections and throws away those of more threads.
    pool = TCPKeepAliveAdapter(
        pool_maxsize=POOL_SIZE,
        tls_ciphers=conf.neutron.tls_ciphers,
        tls_min_version=conf.neutron.tls_min_version,
    )
    for scheme in ('http://', 'https://'):
        http.mount(scheme, pool)
    session = loading.load_session_from_conf_options(
        conf, GROUP, session=http, app_name='novasched'
    )
    if conf.neutron.timeout is None:
        session.timeout = float(conf.novasched.neutron_timeout)
    return session
