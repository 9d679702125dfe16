# SPDX-License-Identifier: Apache-2.0
"""TrustedFilter, which asks an attestation server how far each node is trusted."""

from __future__ import annotations

import contextlib
import datetime
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import requests
from oslo_config import cfg
from oslo_utils import netutils, timeutils

from novasched import errors
from novasched.objects.request_spec import RequestSpec
from novasched.parsing import parse_json
from novasched.runtime import connections
from novasched.runtime.clock import SYSTEM_CLOCK, Clock
from novasched.scheduler.filters import ColumnFilter
from novasched.scheduler.hosts import HostState, HostTable, Mask
from novasched.scheduler.reasons import Code, Reason

LOG = logging.getLogger(__name__)

SPEC = 'trust:trusted_host'
GROUP = 'trusted_computing'
UNKNOWN = 'unknown'
ACCEPTED = (200, 201, 202, 204)
C_LOCALE = '%a %b %d %H:%M:%S %Y'

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        cfg.HostAddressOpt(
            'attestation_server',
            help='Name or address of the attestation server that TrustedFilter asks. '
            'Unset: the level of every node is unknown.',
        ),
        cfg.StrOpt(
            'attestation_server_ca_file',
            help='File with the certificates of the authorities that vouch for the '
            'attestation server. Unset: those that the system trusts.',
        ),
        cfg.PortOpt(
            'attestation_port',
            default=8443,
            help='Port of the attestation server; it is asked over HTTPS.',
        ),
        cfg.StrOpt(
            'attestation_api_url',
            default='/OpenAttestationWebServices/V1.0',
            help='Path of the API on the attestation server.',
        ),
        cfg.StrOpt(
            'attestation_auth_blob',
            secret=True,
            help='What authorizes us: sent as the header ``x-auth-blob``.',
        ),
        cfg.IntOpt(
            'attestation_auth_timeout',
            default=60,
            min=0,
            help='Seconds for which the level of a node is believed, counted from the '
            'time at which the server checked it.',
        ),
        cfg.BoolOpt(
            'attestation_insecure_ssl',
            default=False,
            help='Do not check the certificate of the attestation server.',
        ),
    ],
    'novasched': [
        cfg.IntOpt(
            'attestation_timeout',
            default=10,
            min=1,
            help='Seconds to wait for the attestation server to be reached, and then '
            'for its answer. Requests that need a level of trust wait as long.',
        ),
    ],
}


def check(conf: cfg.ConfigOpts) -> None:
    """Connect to the attestation server, if it is set; any answer is enough.

    Raises errors.OptionError.
    """
    server, group = AttestationServer.from_conf(conf), conf[GROUP]
    if server.url is None:
        return
    if not group.attestation_insecure_ssl:
        connections.check_authorities(
            f'[{GROUP}] attestation_server_ca_file',
            group.attestation_server_ca_file,
            or_directory=True,
        )
    try:
        requests.get(
            server.url,
            timeout=server.timeout_s,
            verify=server.verify,
            allow_redirects=False,
        )
    except OSError as problem:
        raise errors.OptionError(
            f'[{GROUP}] attestation_server',
            f'{server.url} cannot be reached: {connections.reason(problem)}',
            'Check the server, attestation_port and attestation_server_ca_file',
        ) from problem


class Attested(NamedTuple):
    """A level of trust, and when it was checked: UTC without a zone."""

    level: str
    checked_at: datetime.datetime


@dataclass(frozen=True)
class AttestationServer:
    """Asks the attestation server, over a new connection each time."""

    url: str | None  # the full address of its API; None if there is none
    verify: str | bool = True
    """As in requests: a file of authorities, or whether to check the certificate."""
    auth_blob: str | None = None
    timeout_s: float = 10.0
    clock: Clock = SYSTEM_CLOCK

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Make it from its options; nothing connects."""
        group, url = conf[GROUP], None
        if group.attestation_server:
            host = netutils.escape_ipv6(group.attestation_server)
            url = f'https://{host}:{group.attestation_port}{group.attestation_api_url}'
        checked = not group.attestation_insecure_ssl
        return cls(
            url=url,
            verify=checked and (group.attestation_server_ca_file or True),
            auth_blob=group.attestation_auth_blob,
            timeout_s=conf.novasched.attestation_timeout,
        )

    def poll(self, nodes: Sequence[str]) -> dict[str, Attested]:
        """Return the answer of the server on the nodes; empty if there is none.

        Nova 16: scheduler/filters/trusted_filter.py, AttestationService.
        """
        if self.url is None:
            LOG.warning('No node is trusted: [%s] attestation_server is not set', GROUP)
            return {}
        try:
            return attested(self._post(self.url, nodes), self.clock.utcnow())
        except (OSError, ValueError) as problem:  # requests' errors are OSErrors
            LOG.warning('The attestation server %s fails: %s', self.url, problem)
            return {}

    def _post(self, url: str, nodes: Sequence[str]) -> Any:
        """Return the decoded answer, None if it is empty."""
        headers = {'Accept': 'application/json'}
        if self.auth_blob:
            headers['x-auth-blob'] = self.auth_blob
        answer = requests.post(
            f'{url}/PollHosts',
            json={'count': len(nodes), 'hosts': list(nodes)},
            headers=headers,
            timeout=self.timeout_s,
            verify=self.verify,
            allow_redirects=False,  # the blob is for this server only
        )
        if answer.status_code not in ACCEPTED:
            raise ValueError(f'HTTP {answer.status_code}')
        return parse_json(answer.content) if answer.content else None


def attested(answer: Any, now: datetime.datetime) -> dict[str, Attested]:
    """Read the answer: levels by node. What cannot be read is left out.

    If the time of a level cannot be read, the level is unknown and starts now. Raises
    ValueError for an answer of another shape.
    """
    if answer is None:
        return {}
    listed = answer.get('hosts') if isinstance(answer, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError('the answer has no list of hosts')
    found = {}
    for each in listed:
        if isinstance(each, Mapping) and 'host_name' in each:
            checked_at = time_of(each.get('vtime'))
            level = str(each.get('trust_lvl', UNKNOWN)) if checked_at else UNKNOWN
            found[str(each['host_name'])] = Attested(level, checked_at or now)
    return found


def time_of(text: Any) -> datetime.datetime | None:
    """Read a time, in ISO 8601 or as C prints it; None if it is neither."""
    if not isinstance(text, str):
        return None
    try:
        return timeutils.normalize_time(timeutils.parse_isotime(text))
    except (ValueError, OverflowError):
        pass
    try:
        return datetime.datetime.strptime(text, C_LOCALE)  # noqa: DTZ007
    except ValueError:
        return None


NEVER = Attested(UNKNOWN, datetime.datetime(1970, 1, 1))  # noqa: DTZ001


@dataclass
class KnownLevels:
    """Cache of what ``poll`` returns, for ``max_age_s`` seconds after each check.

    One poll asks for all nodes of the cloud. Threads that need one share it.
    """

    poll: Callable[[Sequence[str]], Mapping[str, Attested]]
    max_age_s: float
    clock: Clock = SYSTEM_CLOCK
    lock: contextlib.AbstractContextManager[Any] = field(default_factory=threading.Lock)
    _known: dict[str, Attested] = field(default_factory=dict, init=False)
    _polls: int = field(default=0, init=False)

    def look_up(self, nodes: Sequence[str], cloud: Sequence[str]) -> Mapping[str, str]:
        """Return the level of each node; poll at most once, if one is old.

        ``cloud`` are all nodes that there are. After a poll that failed every level
        is unknown, until the next look.
        """
        polls = self._polls
        with self.lock:
            if self._is_old(nodes, shared=self._polls != polls):
                known = dict.fromkeys([*cloud, *nodes], NEVER)
                answers = self.poll(list(known))
                self._known = {node: answers.get(node, NEVER) for node in known}
                self._polls += 1
            return {node: self._known[node].level for node in nodes}

    def _is_old(self, nodes: Sequence[str], shared: bool) -> bool:
        """``shared``: another thread polled while this one waited."""
        if not all(node in self._known for node in nodes):
            return True
        now = self.clock.utcnow()
        ages = (now - self._known[node].checked_at for node in nodes)
        return not shared and any(age.total_seconds() > self.max_age_s for age in ages)

    def last(self, node: str) -> str:
        """Return the level that was last learned, without a poll."""
        return self._known.get(node, NEVER).level


class TrustedFilter(ColumnFilter):
    """Pass hosts whose attested level of trust is what ``trust:trusted_host`` asks.

    The attestation server is asked when a request first needs a level, and again
    when what it said is older than ``[trusted_computing]
    attestation_auth_timeout``. Nova 16: scheduler/filters/trusted_filter.py.
    """

    codes = (Code.NOT_TRUSTED,)
    deprecated = (
        'TrustedFilter is deprecated in Pike and will be removed in a subsequent '
        'release. Traits in placement say which hosts are trusted.'
    )
    run_filter_once_per_request = True

    def __init__(self, levels: KnownLevels) -> None:
        self.levels = levels

    @classmethod
    def from_conf(cls, conf: Any) -> Self:
        server = AttestationServer.from_conf(conf)
        return cls(KnownLevels(server.poll, conf[GROUP].attestation_auth_timeout))

    def mask(self, hosts: HostTable, request: RequestSpec) -> Mask:
        asked = request.extra_specs.get(SPEC)
        if asked is None or not len(hosts):
            return np.ones(len(hosts), bool)
        nodes = hosts.nodename.tolist()
        cloud = hosts.snapshot.column('nodename').tolist()
        levels = self.levels.look_up(nodes, cloud)
        return np.array([levels[node] == asked for node in nodes], bool)

    def why(self, host: HostState, request: RequestSpec) -> Reason:
        level, asked = self.levels.last(host.nodename), request.extra_specs.get(SPEC)
        return Reason(Code.NOT_TRUSTED, f'trust level {level}, not {asked}')
