# SPDX-License-Identifier: Apache-2.0
"""The user's own way to the network service: token and catalog of the request."""

from __future__ import annotations

from typing import Any

from keystoneauth1 import exceptions as ksa
from keystoneauth1 import plugin
from keystoneauth1.access.service_catalog import ServiceCatalogV2
from keystoneauth1.session import Session

from novasched.objects.context import RequestContext


class UserAccess(plugin.BaseAuthPlugin):
    """Acts for the user of a request.

    ``own`` are the credentials of this service: they know where the network service
    is when the catalog does not say.
    """

    def __init__(
        self, context: RequestContext, own: plugin.BaseAuthPlugin | None = None
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
        """Return where the network service is; None: nobody knows."""
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
