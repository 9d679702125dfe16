# SPDX-License-Identifier: Apache-2.0
"""Attestation server: the trust level of each node, and when it was checked."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import requests
from oslo_config import cfg
from oslo_utils import netutils, timeutils

from novasched.clock import SYSTEM_CLOCK, Clock

LOG = logging.getLogger(__name__)

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


class Attested(NamedTuple):
    """A level of trust, and when it was checked: UTC without a zone."""

    level: str
    checked_at: datetime.datetime


@dataclass(frozen=True)
class AttestationServer:
    """Asks the server at ``url``, the full address of its API; None: there is none.

    ``verify`` says how the server's certificate is checked, in the words of
    requests: a file of authorities, or whether to check it. A new connection is
    made each time.
    """

    url: str | None
    verify: str | bool = True
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
        return cls(
            url=url,
            verify=not group.attestation_insecure_ssl
            and (group.attestation_server_ca_file or True),
            auth_blob=group.attestation_auth_blob,
            timeout_s=conf.novasched.attestation_timeout,
        )

    def poll(self, nodes: Sequence[str]) -> dict[str, Attested]:
        """Return what the server says of the nodes; empty if it does not answer.

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
        return answer.json() if answer.content else None


def attested(answer: Any, now: datetime.datetime) -> dict[str, Attested]:
    """Read the answer: levels by node. What cannot be read is left out.

    A level whose time cannot be read is unknown, as of now. Raises ValueError for
    an answer of another shape.
    """
    if answer is None:
        return {}
    listed = answer.get('hosts') if isinstance(answer, Mapping) else None
    if not isinstance(listed, list):
        raise ValueError('the answer has no list of hosts')
    named = [one for one in listed if isinstance(one, Mapping) and 'host_name' in one]
    return {str(one['host_name']): _attested(one, now) for one in named}


def _attested(state: Mapping[str, Any], now: datetime.datetime) -> Attested:
    checked_at = time_of(state.get('vtime'))
    if checked_at is None:
        return Attested(UNKNOWN, now)
    return Attested(str(state.get('trust_lvl', UNKNOWN)), checked_at)


def time_of(text: Any) -> datetime.datetime | None:
    """Read a time, ISO 8601 or as C prints it; None: it is neither."""
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
