# SPDX-License-Identifier: Apache-2.0
"""The way to the network service: where it is, who we are, how long we wait."""

from __future__ import annotations

from keystoneauth1.adapter import Adapter
from oslo_config import cfg

from novasched import http

GROUP = 'neutron'

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        *http.options('network'),
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

    Raises errors.OptionError for options that make no sense.
    """
    timeout_s = float(conf.novasched.neutron_timeout)
    adapter = http.adapter_from_conf(conf, GROUP, timeout_s)
    if adapter.connect_retries is None:
        adapter.connect_retries = conf.neutron.http_retries
    return adapter
