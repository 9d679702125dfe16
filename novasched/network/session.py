# SPDX-License-Identifier: Apache-2.0
"""Session with the network service: endpoint, credentials and retries."""

from __future__ import annotations

import logging
from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1.access.service_catalog import ServiceCatalogV2
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session
from oslo_config import cfg

from novasched import http
from novasched.objects.context import RequestContext

LOG = logging.getLogger(__name__)

GROUP = 'neutron'
SERVICE_GROUP = 'service_user'

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
    SERVICE_GROUP: [
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


def service_auth_from_conf(conf: cfg.ConfigOpts) -> BaseAuthPlugin | None:
    """Return the credentials for the service token; None: none is to be sent.

    Neutron accepts an expired user token that comes with a service token.
    Raises errors.OptionError for options that make no sense.
    """
    if not conf.service_user.send_service_user_token:
        return None
    found = http.auth_from_conf(conf, SERVICE_GROUP)
    if found is None:
        LOG.warning(
            '[service_user] send_service_user_token is set, but auth_type is not: '
            'no service token is sent'
        )
    return found


class UserAccess(BaseAuthPlugin):
    """Credentials of the user of a request: token and service catalog.

    ``own`` are the credentials of this service: they know where the network service
    is when the catalog does not say.
    """

    def __init__(
        self, context: RequestContext, own: BaseAuthPlugin | None = None
    ) -> None:
        super().__init__()
        self._own = own
        self._token = context.auth_token
        self._catalog = ServiceCatalogV2(
            [dict(service) for service in context.service_catalog]
        )

    def get_token(self, session: Session) -> str | None:
        """Return the token that came with the request."""
        return self._token

    def get_endpoint(
        self,
        session: Session,
        *,
        service_type: str | None = None,
        interface: Any = None,
        service_name: str | None = None,
        region_name: str | None = None,
        **kwargs: Any,
    ) -> str | None:
        """Return the URL of the network service; None: neither catalog has it."""
        wanted = {
            'service_type': service_type,
            'interface': interface,
            'service_name': service_name,
            'region_name': region_name,
        }
        try:
            return self._catalog.url_for(**wanted)
        except ksa.CatalogException:
            if self._own is None:
                return None
            return self._own.get_endpoint(session, **wanted, **kwargs)
