# SPDX-License-Identifier: Apache-2.0
"""The network service, as the manager sees it."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any, Self
from urllib.parse import quote, urlencode

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg

from novasched import errors
from novasched.network import session
from novasched.network.access import UserAccess
from novasched.objects.context import RequestContext
from novasched.resources.prefilters.requirements import Place, Port

LOG = logging.getLogger(__name__)


class NetworkClient:
    """Satisfies ports.Network by HTTP; threads may share it.

    Ports are looked up as the user, who must see them; segments with the
    credentials of ``adapter``. Where one is missing, the other stands in. Without
    an adapter there is no network service to ask.
    """

    def __init__(self, adapter: Adapter | None) -> None:
        self._adapter = adapter
        self._own = adapter.auth if adapter is not None else None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read ``[neutron]``; see session.from_conf()."""
        return cls(session.from_conf(conf))

    def close(self) -> None:
        """Close the connections."""
        if self._adapter is not None:
            self._adapter.session.session.close()

    def port(self, context: RequestContext, port_id: str) -> Port:
        """Raises errors.PortNotFound for a port that the user does not see."""
        url = f'/v2.0/ports/{quote(port_id, safe="")}'
        answer = self._get(context, self._user(context) or self._own, url)
        if answer.status_code == requests.codes.not_found:
            raise errors.PortNotFound(port_id)
        port = _content(answer, 'port', f'Failed to access port {port_id}')
        addresses = port.get('fixed_ips') or [{}]
        return Port(
            vnic_type=port.get('binding:vnic_type'),
            network_id=port.get('network_id'),
            subnet_id=addresses[0].get('subnet_id'),
        )

    def segments(self, context: RequestContext, place: Place) -> frozenset[str]:
        """A subnet has none where the service does not know of segments."""
        auth = self._own or self._user(context)
        problem = f'Failed to access {place.kind} {place.id}'
        if place.kind == 'subnet':
            url = f'/v2.0/subnets/{quote(place.id, safe="")}'
            subnets = [_content(self._get(context, auth, url), 'subnet', problem)]
        else:
            query = urlencode({'network_id': place.id, 'fields': 'segment_id'})
            answer = self._get(context, auth, f'/v2.0/subnets?{query}')
            subnets = _content(answer, 'subnets', problem)
        ids = (subnet.get('segment_id') for subnet in subnets)
        return frozenset(filter(None, ids))

    def _user(self, context: RequestContext) -> UserAccess | None:
        return UserAccess(context, self._own) if context.auth_token else None

    def _get(
        self, context: RequestContext, auth: BaseAuthPlugin | None, url: str
    ) -> requests.Response:
        """Ask; credentials of our own get a new token when theirs is refused.

        Raises errors.NetworkFailed without an answer, and a kind of it for an
        answer that is about who asks.
        """
        if self._adapter is None or auth is None:
            raise errors.NetworkUnauthorized('Not authorized.')
        headers = {
            'Accept': 'application/json',
            'X-OpenStack-Request-ID': context.global_id,
        }
        try:
            answer = self._adapter.get(url, auth=auth, headers=headers, raise_exc=False)
        except ksa.Unauthorized as error:
            raise errors.NetworkUnauthorized('Not authorized.') from error
        except ksa.ClientException as error:
            LOG.warning('The network service could not be asked: %s', error)
            raise errors.NetworkFailed(f'Failed to access {url}: {error}') from error
        if answer.status_code == requests.codes.unauthorized:
            raise errors.NetworkUnauthorized('Not authorized.')
        if answer.status_code == requests.codes.forbidden:
            raise errors.NetworkForbidden(answer.text)
        return answer


def _content(answer: requests.Response, name: str, problem: str) -> Any:
    """Return the part ``name`` of an answer; errors.NetworkFailed: it has none."""
    if answer.status_code == requests.codes.ok:
        try:
            content = json.loads(answer.content)
        except ValueError:
            content = None
        if isinstance(content, Mapping) and isinstance(content.get(name), dict | list):
            return content[name]
    raise errors.NetworkFailed(f'{problem}: {answer.status_code}-{answer.text}')
