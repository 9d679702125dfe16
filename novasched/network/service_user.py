# SPDX-License-Identifier: Apache-2.0
"""Our own token beside that of the user: who has it need not mind that it expired."""

from __future__ import annotations

import logging

from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from novasched import http

LOG = logging.getLogger(__name__)

GROUP = 'service_user'

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        cfg.BoolOpt(
            'send_service_user_token',
            default=False,
            help="""
Send a token of this service along with the token of the user.

The network service takes a user's token that expired while the request was on its way
when a service vouches for it. The credentials are those of this group.

Related options:

* ``[service_user] auth_type``, and what that asks for
* ``[keystone_authtoken] service_token_roles`` of the network service
""",
        ),
        *http.credential_options(),
    ],
}


def from_conf(conf: cfg.ConfigOpts) -> BaseAuthPlugin | None:
    """Return the credentials for the service token; None: there is none to be sent.

    Raises errors.OptionError for options that make no sense.
    """
    if not conf.service_user.send_service_user_token:
        return None
    found = http.auth_from_conf(conf, GROUP)
    if found is None:
        LOG.warning(
            '[service_user] send_service_user_token is set, but auth_type is not: '
            'no service token is sent'
        )
    return found
