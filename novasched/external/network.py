# SPDX-License-Identifier: Apache-2.0
"""Neutron client: ports, and segments of networks and subnets."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1.access.service_catalog import ServiceCatalogV2
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.service_token import ServiceTokenAuthWrapper
from keystoneauth1.session import Session
from oslo_config import cfg

from novasched import errors, http
from novasched.objects.context import RequestContext
from novasched.outages import NETWORK
from novasched.parsing import parse_json
from novasched.resources.requirements import NetworkOrSubnet, Port

LOG = logging.getLogger(__name__)

OPTS: dict[str, list[cfg.Opt]] = {
    'neutron': [
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
    'service_user': [
        cfg.BoolOpt(
            'send_service_user_token',
            default=False,
            help="""
Send a token of this service along with the token of the user.

The network service takes a user's token that expired while the request was on its way
when a service vouches for it. The options of this group have the credentials.

Related options:

* ``[service_user] auth_type``, and what that asks for
* ``[keystone_authtoken] service_token_roles`` of the network service
""",
        ),
        *http.credential_options(),
    ],
    'novasched': [
        http.timeout_option('neutron', 'the network service', 30),
    ],
}

MOST_PAGES = 1000
FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 60.0

Result = TypeVar('Result')


def adapter_from_conf(conf: cfg.ConfigOpts) -> Adapter:
    """Make the adapter that all requests to the network service go through.

    Raises errors.OptionError for invalid options.
    """
    adapter = http.adapter_from_conf(conf, 'neutron')
    if adapter.connect_retries is None:
        adapter.connect_retries = conf.neutron.http_retries
    return adapter


def service_auth_from_conf(conf: cfg.ConfigOpts) -> BaseAuthPlugin | None:
    """Return the credentials for the service token; None if none is to be sent.

    Neutron accepts an expired user token that comes with a service token. Raises
    errors.OptionError for invalid options.
    """
    if not conf.service_user.send_service_user_token:
        return None
    found = http.auth_from_conf(conf, 'service_user')
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
        return self._token

    def get_endpoint(self, session: Session, **wanted: Any) -> str | None:
        """Return the URL of the network service; None if neither catalog has it."""
        keys = ('service_type', 'interface', 'service_name', 'region_name')
        try:
            return self._catalog.url_for(**{key: wanted.get(key) for key in keys})
        except ksa.CatalogException:
            return self._own.get_endpoint(session, **wanted) if self._own else None


class NetworkClient:
    """Satisfies ports.Network by HTTP; threads may share it.

    Ports are looked up as the user, who must see them; segments with the credentials of
    ``adapter``. If either is missing, the other stands in. Without an adapter there is
    no network service. A token of ``service`` goes along with a user's token.
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
        """Read ``[neutron]`` and ``[service_user]``; raises errors.OptionError."""
        return cls(adapter_from_conf(conf), service=service_auth_from_conf(conf))

    def close(self) -> None:
        if self._adapter is not None:
            self._adapter.session.session.close()

    def answers(self) -> bool:
        if self._adapter is None:
            return True
        has_own = self._own is not None
        # The list of versions would come without keystone and the database.
        url = '/v2.0/ports?fields=id&limit=1' if has_own else '/'
        try:
            answer = http.probing(self._adapter).get(
                url, authenticated=has_own, raise_exc=False
            )
        except ksa.ClientException as error:
            return not http.is_unavailable(error)
        return bool(answer.status_code < http.SERVER_FAILED)

    def port(self, context: RequestContext, port_id: str) -> Port:
        url = f'/v2.0/ports/{quote(port_id, safe="")}'
        answer = self._get(context, self._user(context) or self._own, url)
        if answer.status_code == requests.codes.not_found:
            raise errors.PortNotFound(port_id)
        return _read(answer, parse_port, f'Failed to access port {port_id}')

    def segments(
        self, context: RequestContext, place: NetworkOrSubnet
    ) -> frozenset[str]:
        problem = f'Failed to access {place.kind} {place.id}'
        auth = self._own or self._user(context)
        if place.kind == 'subnet':
            url = f'/v2.0/subnets/{quote(place.id, safe="")}'
            return _read(self._get(context, auth, url), parse_segments, problem)
        query = urlencode({'network_id': place.id, 'fields': 'segment_id'})
        found: frozenset[str] = frozenset()
        for _ in range(MOST_PAGES):  # the service may bound what it says at once
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

        Raises errors.NetworkFailed without an answer, a subclass if the sender is
        refused.
        """
        if self._adapter is None or auth is None:
            raise errors.NetworkUnauthorized('Not authorized.')
        try:
            answer = self._sent(self._adapter, url, auth, http.headers(context))
        except ksa.Unauthorized as error:
            raise errors.NetworkUnauthorized('Not authorized.') from error
        except ksa.ClientException as error:
            text = http.failure_words(self._adapter, 'neutron', error)
            LOG.warning('The network service could not be asked: %s', text)
            raise errors.NetworkFailed(
                f'Failed to access {url}: {text}',
                NETWORK if http.is_unavailable(error) else '',
            ) from error
        if answer.status_code == requests.codes.unauthorized:
            raise errors.NetworkUnauthorized('Not authorized.')
        if answer.status_code == requests.codes.forbidden:
            raise errors.NetworkForbidden(http.excerpt(answer))
        return answer

    def _sent(
        self, adapter: Adapter, url: str, auth: BaseAuthPlugin, headers: dict[str, str]
    ) -> requests.Response:
        """Send a request, and again while the connection is refused.

        keystoneauth1 would also send again what took too long, and wait as long for
        each attempt.
        """
        send = functools.partial(
            adapter.get, url, auth=auth, headers=headers, raise_exc=False
        )
        for delay_s in _delays_s(adapter):
            try:
                return send(connect_retries=0)
            except ksa.ConnectFailure as error:
                if not http.was_refused(error):
                    raise
            self._sleep(delay_s)
        return send(connect_retries=0)


def _delays_s(adapter: Adapter) -> Iterator[float]:
    """Yield how long to wait before each further attempt: unless an option says so,
    as long as keystoneauth1."""
    for attempt in range(adapter.connect_retries or 0):
        if adapter.connect_retry_delay is not None:
            yield adapter.connect_retry_delay
        else:
            yield min(FIRST_DELAY_S * 2.0**attempt, LONGEST_DELAY_S)


def _read(
    answer: requests.Response, shape: Callable[[Any], Result], problem: str
) -> Result:
    """Parse an answer; raises errors.NetworkFailed where ``shape`` cannot."""
    if answer.status_code == requests.codes.ok:
        try:
            return shape(parse_json(answer.content))
        except ValueError as misfit:
            LOG.debug('%s: %s', problem, misfit)
    raise errors.NetworkFailed(
        f'{problem}: {answer.status_code}-{http.excerpt(answer)}',
        NETWORK if answer.status_code >= http.SERVER_FAILED else '',
    )


class SubnetPage(NamedTuple):
    """Some subnets of a network."""

    segments: frozenset[str]
    next_query: str | None  # asks for more; None if there are no more


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
    """Return the query of the next page.

    A link may name another address, but tokens are only for the catalog's.
    """
    for link in links if isinstance(links, list) else ():
        if _text(link, 'rel') == 'next':
            query = urlsplit(_text(link, 'href') or '').query
            if not query:
                raise ValueError('the link to the next page has no query')
            return query
    return None
