# SPDX-License-Identifier: Apache-2.0
"""Neutron client: ports, and segments of networks and subnets."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.service_token import ServiceTokenAuthWrapper
from oslo_config import cfg

from novasched import errors, http
from novasched.network import session
from novasched.network.session import UserAccess
from novasched.objects.context import RequestContext
from novasched.resources.requirements import NetworkOrSubnet, Port

LOG = logging.getLogger(__name__)

MOST_PAGES = 1000

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 60.0

Result = TypeVar('Result')


class NetworkClient:
    """Satisfies ports.Network by HTTP; threads may share it.

    Ports are looked up as the user, who must see them; segments with the
    credentials of ``adapter``. Where one is missing, the other stands in. Without
    an adapter there is no network service to ask. ``sleep`` waits between attempts,
    in seconds. A token of ``service`` goes along with that of a user.
    """

    def __init__(
        self,
        adapter: Adapter | None,
        sleep: Callable[[float], None] = time.sleep,
        service: BaseAuthPlugin | None = None,
    ) -> None:
        self._adapter = adapter
        self._service = service
        self._sleep = sleep
        self._own = adapter.auth if adapter is not None else None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read ``[neutron]`` and ``[service_user]``; see session.from_conf()."""
        return cls(
            session.from_conf(conf), service=session.service_auth_from_conf(conf)
        )

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
        return _read(answer, parse_port, f'Failed to access port {port_id}')

    def segments(
        self, context: RequestContext, place: NetworkOrSubnet
    ) -> frozenset[str]:
        """A subnet has none where the service does not know of segments."""
        problem = f'Failed to access {place.kind} {place.id}'
        if place.kind == 'subnet':
            auth = self._own or self._user(context)
            url = f'/v2.0/subnets/{quote(place.id, safe="")}'
            return _read(self._get(context, auth, url), parse_segments, problem)
        return self._segments_of_network(context, place.id, problem)

    def _segments_of_network(
        self, context: RequestContext, network_id: str, problem: str
    ) -> frozenset[str]:
        """Ask page by page, as the service may bound what it says at once."""
        auth = self._own or self._user(context)
        query = urlencode({'network_id': network_id, 'fields': 'segment_id'})
        found: frozenset[str] = frozenset()
        for _ in range(MOST_PAGES):
            answer = self._get(context, auth, f'/v2.0/subnets?{query}')
            page = _read(answer, parse_page, problem)
            found |= page.segments
            if page.next_query is None:
                return found
            query = page.next_query
        raise errors.NetworkFailed(f'{problem}: more than {MOST_PAGES} pages')

    def _user(self, context: RequestContext) -> BaseAuthPlugin | None:
        if not context.auth_token:
            return None
        user = UserAccess(context, self._own)
        return ServiceTokenAuthWrapper(user, self._service) if self._service else user

    def _get(
        self, context: RequestContext, auth: BaseAuthPlugin | None, url: str
    ) -> requests.Response:
        """Ask; credentials of our own get a new token when theirs is refused.

        Raises errors.NetworkFailed without an answer, and a kind of it for an
        answer that is about who asks.
        """
        if self._adapter is None or auth is None:
            raise errors.NetworkUnauthorized('Not authorized.')
        try:
            answer = self._sent(self._adapter, context, auth, url)
        except ksa.Unauthorized as error:
            raise errors.NetworkUnauthorized('Not authorized.') from error
        except ksa.ClientException as error:
            LOG.warning('The network service could not be asked: %s', error)
            raise errors.NetworkFailed(f'Failed to access {url}: {error}') from error
        if answer.status_code == requests.codes.unauthorized:
            raise errors.NetworkUnauthorized('Not authorized.')
        if answer.status_code == requests.codes.forbidden:
            raise errors.NetworkForbidden(http.excerpt(answer))
        return answer

    def _sent(
        self, adapter: Adapter, context: RequestContext, auth: BaseAuthPlugin, url: str
    ) -> requests.Response:
        """Send a request, and again while the connection is refused.

        keystoneauth1 would also send again what took too long, and wait as long for
        each attempt.
        """
        headers = {
            'Accept': 'application/json',
            'X-OpenStack-Request-ID': context.global_id,
        }
        options = {'auth': auth, 'headers': headers, 'raise_exc': False}
        for attempt in range(adapter.connect_retries or 0):
            try:
                return adapter.get(url, connect_retries=0, **options)
            except ksa.ConnectFailure as error:
                if not http.was_refused(error):
                    raise
            self._sleep(_delay_s(adapter, attempt))
        return adapter.get(url, connect_retries=0, **options)


def _delay_s(adapter: Adapter, attempt: int) -> float:
    """Return how long to wait; unless an option says so as long as keystoneauth1."""
    delay_s: float | None = adapter.connect_retry_delay
    if delay_s is None:
        delay_s = min(FIRST_DELAY_S * 2.0**attempt, LONGEST_DELAY_S)
    return delay_s


def _read(
    answer: requests.Response, shape: Callable[[Any], Result], problem: str
) -> Result:
    """Parse an answer; raises errors.NetworkFailed where ``shape`` cannot."""
    if answer.status_code == requests.codes.ok:
        try:
            return shape(http.parse_json(answer.content))
        except ValueError as misfit:
            LOG.debug('%s: %s', problem, misfit)
    raise errors.NetworkFailed(
        f'{problem}: {answer.status_code}-{http.excerpt(answer)}'
    )


class SubnetPage(NamedTuple):
    """Some subnets of a network; ``next_query`` asks for more, None: there are none."""

    segments: frozenset[str]
    next_query: str | None


def parse_port(body: Any) -> Port:
    """Read ``{"port": {...}}``; of its addresses the first counts."""
    found = _part(body, 'port', dict)
    addresses = found.get('fixed_ips') or [{}]
    if not isinstance(addresses, list):
        raise ValueError('fixed_ips is no list')
    return Port(
        vnic_type=_text(found, 'binding:vnic_type'),
        network_id=_text(found, 'network_id'),
        subnet_id=_text(addresses[0], 'subnet_id'),
    )


def parse_segments(body: Any) -> frozenset[str]:
    """Read the segment of ``{"subnet": {...}}``, of which there may be none."""
    return _segments([_part(body, 'subnet', dict)])


def parse_page(body: Any) -> SubnetPage:
    """Read the segments of ``{"subnets": [...]}``, and where there are more."""
    found = _segments(_part(body, 'subnets', list))
    return SubnetPage(found, _next_query(body.get('subnets_links') or ()))


def _part(body: Any, name: str, kind: type) -> Any:
    found = body.get(name) if isinstance(body, dict) else None
    if not isinstance(found, kind):
        raise ValueError(f'there is no {name}')
    return found


def _segments(subnets: list[Any]) -> frozenset[str]:
    return frozenset(filter(None, (_text(each, 'segment_id') for each in subnets)))


def _text(thing: Any, name: str) -> str | None:
    if not isinstance(thing, dict):
        raise ValueError(f'{name} is asked of no object')
    text = thing.get(name)
    if text is not None and not isinstance(text, str):
        raise ValueError(f'{name} is no text')
    return text


def _next_query(links: Any) -> str | None:
    """Return the query of the next page: a link may name an address of its own,
    and tokens are for no other than the one in the catalog."""
    for link in links if isinstance(links, list) else ():
        if _text(link, 'rel') == 'next':
            query = urlsplit(_text(link, 'href') or '').query
            if not query:
                raise ValueError('the link to the next page has no query')
            return query
    return None
