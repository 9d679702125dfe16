# SPDX-License-Identifier: Apache-2.0
"""HTTP to other services of the cloud, through keystoneauth1.

Each has an option group of nova with its address and our credentials.
"""

from __future__ import annotations

import copy
import email.utils
import ssl
from typing import Any
from urllib import parse

import requests
from keystoneauth1 import exceptions as ksa
from keystoneauth1 import loading
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from keystoneauth1.session import Session, TCPKeepAliveAdapter
from oslo_config import cfg
from urllib3.exceptions import NewConnectionError

from novasched import errors
from novasched.objects.context import RequestContext
from novasched.parsing import parse_json
from novasched.runtime import connections

POOL_SIZE = 64
PROBE_S = 5.0
REFUSED, SERVER_FAILED = 400, 500
"""From SERVER_FAILED on, a gateway answers, or a service that misses another. From
REFUSED until then, nothing was done."""
LONGEST_EXCERPT = 1000


def options(service_type: str) -> list[cfg.Opt]:
    """Return the options of the group of a service."""
    adapter_opts = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(
        adapter_opts,
        service_type=service_type,
        valid_interfaces=['internal', 'public'],
    )
    return [*credential_options(), *adapter_opts]


def timeout_option(
    group: str, service: str, default: int, consequence: str = ''
) -> cfg.IntOpt:
    """Return ``[novasched] <group>_timeout``, by which no request waits for ever."""
    return cfg.IntOpt(
        f'{group}_timeout',
        default=default,
        min=1,
        help=f"""
Seconds to wait for an answer of {service}.

Holds where ``[{group}] timeout`` is not set, which alone would mean to wait for
ever.{consequence}

Related options:

* ``[{group}] timeout``
""",
    )


def credential_options() -> list[cfg.Opt]:
    """Return the options of our credentials, and of how connections are made."""
    return [
        *loading.get_session_conf_options(),
        *loading.get_auth_common_conf_options(),
    ]


def auth_from_conf(conf: cfg.ConfigOpts, group: str) -> BaseAuthPlugin | None:
    """Make the credentials that a group names; None if it has no ``auth_type``.

    Nothing is sent. Raises errors.OptionError for invalid options.
    """
    try:
        return loading.load_auth_from_conf_options(conf, group)
    except ksa.NoMatchingPlugin as error:
        raise errors.OptionError(
            f'[{group}] auth_type',
            str(error),
            'Set it to the name of a keystoneauth1 plugin, such as password.',
        ) from error
    except ksa.AuthPluginException as error:
        raise errors.OptionError(
            f'[{group}]', str(error), 'Set the options that auth_type asks for.'
        ) from error


def adapter_from_conf(conf: cfg.ConfigOpts, group: str) -> Adapter:
    """Make the adapter that all requests to a service go through.

    Nothing is sent: the first request gets a token. Without ``auth_type`` there are
    no credentials. Error statuses do not raise. ``[novasched] <group>_timeout`` holds
    where the group sets none. Raises errors.OptionError for invalid options.
    """
    auth = auth_from_conf(conf, group)
    session = _session(conf, group)
    try:
        adapter = loading.load_adapter_from_conf_options(
            conf, group, session=session, auth=auth, raise_exc=False
        )
    except TypeError as error:
        raise errors.OptionError(
            f'[{group}] valid_interfaces',
            str(error),
            'Name only internal, public and admin.',
        ) from error
    # Nova does not act on these options: requests say which version they want.
    adapter.version = adapter.min_version = adapter.max_version = None
    return adapter


def probing(adapter: Adapter) -> Adapter:
    """Return an adapter with the same credentials and connections that gives up early.

    Each request, and each request for a token before it, takes at most PROBE_S and is
    never repeated. While another thread asks for a token with the same credentials,
    keystoneauth1 lets all wait for it.
    """
    made, made.session = copy.copy(adapter), copy.copy(adapter.session)
    made.session.timeout = PROBE_S
    made.connect_retries = made.status_code_retries = 0
    return made


def _check(conf: cfg.ConfigOpts, group: str) -> None:
    """Load the files that connections will load, and look at what they will be made
    with. Raises errors.OptionError."""
    options = conf[group]
    if options.timeout is not None and options.timeout <= 0:
        raise errors.OptionError(
            f'[{group}] timeout',
            f'it is {options.timeout:g}',
            'Set it to the seconds to wait for an answer',
        )
    if options.tls_ciphers:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(options.tls_ciphers)
        except ssl.SSLError as problem:
            raise errors.OptionError(
                f'[{group}] tls_ciphers',
                f'{options.tls_ciphers} names no cipher that there is',
                'Write it as OpenSSL does, or leave it out',
            ) from problem
    if not options.insecure:
        connections.check_authorities(
            f'[{group}] cafile', options.cafile, or_directory=True
        )
    if options.certfile and options.keyfile:  # else keystoneauth1 uses neither
        connections.check_certificate(
            f'[{group}] certfile',
            options.certfile,
            f'[{group}] keyfile',
            options.keyfile,
        )


class _CheapSession(requests.Session):
    """Looks into the environment for proxies and authorities once for each server: for
    each request, that takes as long as all else."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[tuple[object, ...], Any] = {}

    def merge_environment_settings(
        self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any
    ) -> Any:
        key = (*parse.urlsplit(url)[:2], str(proxies), stream, verify, cert)
        if key not in self._found:
            self._found[key] = super().merge_environment_settings(
                url, proxies, stream, verify, cert
            )
        return self._found[key]


def _session(conf: cfg.ConfigOpts, group: str) -> Session:
    _check(conf, group)
    http = _CheapSession()
    # keystoneauth1 keeps ten connections and throws away those of more threads.
    pool = TCPKeepAliveAdapter(
        pool_maxsize=POOL_SIZE,
        tls_ciphers=conf[group].tls_ciphers,
        tls_min_version=conf[group].tls_min_version,
    )
    for scheme in ('http://', 'https://'):
        http.mount(scheme, pool)
    session = loading.load_session_from_conf_options(
        conf, group, session=http, app_name='novasched'
    )
    if conf[group].timeout is None:
        session.timeout = float(conf.novasched[f'{group}_timeout'])
    return session


def headers(context: RequestContext) -> dict[str, str]:
    """Return the headers that name the request on whose behalf another one is made."""
    return {
        'Accept': 'application/json',
        'X-OpenStack-Request-ID': context.global_id,
    }


def failure_words(
    adapter: Adapter,
    group: str,
    error: ksa.ClientException,
    auth: BaseAuthPlugin | None = None,
) -> str:
    """Return why a service, or keystone before it, cannot be asked: the address, and
    what failed there.

    ``group`` has the options that decide it, ``auth`` its credentials, if they differ
    from the adapter's.
    """
    if isinstance(error, ksa.EndpointNotFound):
        return _not_in_catalog(adapter, group)
    if isinstance(error, ksa.Unauthorized):
        return f'keystone refuses the credentials of [{group}]'
    auth_url = str(getattr(auth or adapter.auth, 'auth_url', None) or '')
    keystone = f'keystone at [{group}] auth_url, {auth_url},'
    if isinstance(error, ksa.HttpError):  # those of the service do not raise
        return f'{keystone} answers HTTP {error.http_status}'
    if isinstance(error, ksa.InvalidResponse):
        return f'{keystone} does not answer with a token'
    if not isinstance(error, ksa.ConnectionError | ksa.DiscoveryFailure):
        return connections.reason(error)
    url = next(filter(None, map(_url, connections.causes(error))), '')
    is_keystone = isinstance(error, ksa.DiscoveryFailure)
    if url and auth_url:
        is_keystone = url.startswith(auth_url.rstrip('/'))
    where = parse.urljoin(url, '/') if url else adapter.endpoint_override
    service = f'{adapter.service_type} at {where}'
    reason = connections.reason(error)
    return f'{keystone if is_keystone else service} cannot be reached: {reason}'


def _url(problem: BaseException) -> str:
    """Return the URL of the request that failed, if requests says so."""
    request = getattr(problem, 'request', None)
    return str(getattr(request, 'url', None) or '')


def _not_in_catalog(adapter: Adapter, group: str) -> str:
    """Return the search of the service catalog that found nothing."""
    interfaces = adapter.interface or 'public'
    listed = [interfaces] if isinstance(interfaces, str) else list(interfaces)
    region = f'region {adapter.region_name}' if adapter.region_name else 'any region'
    return (
        f'the service catalog has no endpoint of type {adapter.service_type} with '
        f'interface {" or ".join(listed)} in {region}; correct [{group}] region_name, '
        'valid_interfaces or service_type, or set endpoint_override'
    )


def was_refused(error: ksa.ClientException) -> bool:
    """Tell a refused connection from one that broke, by what keystoneauth1 caught: it
    has one class for both."""
    cause = error.__context__
    reason = getattr(cause.args[0], 'reason', None) if cause and cause.args else None
    return isinstance(reason, NewConnectionError)


def is_unavailable(error: ksa.ClientException) -> bool:
    """Return whether a service, or keystone before it, did not answer, and may soon.

    It was not reached, was too slow, broke off, or showed a page.
    """
    if isinstance(error, ksa.HttpError):  # keystone's
        return bool(error.http_status >= SERVER_FAILED)
    return isinstance(
        error, ksa.ConnectionError | ksa.DiscoveryFailure | ksa.InvalidResponse
    )


def has_failed(answer: requests.Response) -> bool:
    """Return whether a service may soon answer: a gateway has, or it misses another.

    A gateway limits the rate, or shows a page as if all was well.
    """
    status, kind = answer.status_code, answer.headers.get('Content-Type', 'json')
    is_page = status < REFUSED and 'json' not in kind
    is_limited = status == requests.codes.too_many_requests
    return status >= SERVER_FAILED or is_limited or is_page


def is_refused(status: int) -> bool:
    """Return whether a status says that nothing was done."""
    return REFUSED <= status < SERVER_FAILED


def error_words(text: str) -> str:
    """Return the text of an error of an OpenStack service, without its JSON;
    the body itself if it has another form."""
    try:
        return str(parse_json(text)['errors'][0]['detail']).strip()
    except (ValueError, KeyError, IndexError, TypeError):
        return text


def excerpt(answer: requests.Response) -> str:
    """Return the begin of what an answer says, for logs: it may have megabytes."""
    return answer.content[:LONGEST_EXCERPT].decode(errors='replace')


def seconds(date: str | None) -> float | None:
    """Parse a date of HTTP into seconds since 1970; None if it is no date."""
    parsed = email.utils.parsedate_tz(date or '')
    try:
        return None if parsed is None else float(email.utils.mktime_tz(parsed))
    except (ValueError, OverflowError):
        return None
