# SPDX-License-Identifier: Apache-2.0
"""Options of the console: where it listens, and who may look."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from novasched import errors
from novasched.observability.settings import Address, parse

GROUP = 'novasched_console'
LISTEN = f'[{GROUP}] listen'
NO_AUTHENTICATION, KEYSTONE = 'none', 'keystone'
DEFAULT_SOCKET = 'unix:///run/novasched/console.sock'
LOOPBACK = 'tcp://127.0.0.1:9109'

OPTS: dict[str, list[cfg.Opt]] = {
    GROUP: [
        cfg.StrOpt(
            'listen',
            default=DEFAULT_SOCKET,
            help="""
Where the console listens: one of ``tcp://host:port``, ``tcp://[IPv6 address]:port``
and ``unix:///absolute/path``.

A unix socket is for its user and group alone. At a loopback address any user of the
machine may look. Other addresses need ``auth_strategy = keystone``.

Related options:

* ``[novasched_console] auth_strategy``
""",
        ),
        cfg.StrOpt(
            'auth_strategy',
            default=NO_AUTHENTICATION,
            choices=[
                (NO_AUTHENTICATION, 'no authentication'),
                (
                    KEYSTONE,
                    'a token of keystone is needed, and the policy '
                    '``novasched:read`` must allow it',
                ),
            ],
            help="""
How the console authenticates and authorizes its users.

With ``keystone``, ``[keystone_authtoken]`` says how tokens are validated, and
``[oslo_policy]`` where policies stand.

Related options:

* ``[novasched_console] listen``
""",
        ),
        cfg.ListOpt(
            'allowed_hosts',
            default=['localhost', '127.0.0.1', '::1'],
            help='Names by which browsers may ask for the console, without a port, '
            'without authentication. A page of another site could '
            'otherwise read it, by a name that leads to this machine.',
        ),
        cfg.ListOpt(
            'flavors',
            default=[],
            help='Flavors whose free slots ``/metrics`` of the console shows as '
            '``novasched_free_slots``, by zone.',
        ),
        cfg.StrOpt(
            'lab_dir',
            default='',
            help='Directory of runs of ``novasched lab run``, which the page ``/lab`` '
            'shows. Unset: there is no such page.',
        ),
        cfg.IntOpt(
            'threads',
            default=8,
            min=1,
            help='Requests that are answered at a time; four times as many wait. '
            'Further ones get 503 with ``Retry-After``.',
        ),
        cfg.StrOpt(
            'tls_certificate',
            default='',
            help='File with the certificate that the console shows, and those above '
            'it, in PEM. Unset: plain HTTP.',
        ),
        cfg.StrOpt(
            'tls_key',
            default='',
            help='File with the private key of ``tls_certificate``, in PEM. Unset: it '
            'stands in the file of the certificate.',
        ),
    ],
}


@dataclass(frozen=True)
class ConsoleSettings:
    """Where the console listens, and who may look."""

    listen: Address
    has_keystone: bool = False
    allowed_hosts: frozenset[str] = frozenset({'localhost', '127.0.0.1', '::1'})
    threads: int = 8
    tls_certificate: str = ''
    tls_key: str = ''

    @classmethod
    def from_conf(cls, conf: Any, listen: str | None = None) -> ConsoleSettings:
        """Read the options; ``listen`` overrides the option of its name.

        Raises errors.OptionError, also if anybody could look from elsewhere.
        """
        own = conf[GROUP]
        made = cls(
            listen=_address(listen or own.listen),
            has_keystone=own.auth_strategy == KEYSTONE,
            allowed_hosts=frozenset(
                host.strip().strip('[]').lower() for host in own.allowed_hosts
            ),
            threads=own.threads,
            tls_certificate=own.tls_certificate,
            tls_key=own.tls_key,
        )
        if not made.has_keystone and not is_local(made.listen):
            raise errors.OptionError(
                LISTEN,
                f'{made.listen} can be reached from other machines, and anybody there '
                'could look',
                f'Set [{GROUP}] auth_strategy = {KEYSTONE}, or listen at '
                f'{DEFAULT_SOCKET} or {LOOPBACK}',
            )
        return made


def _address(text: str) -> Address:
    found = parse(LISTEN, text)
    if len(found) != 1:
        raise errors.OptionError(
            LISTEN, f'{text!r} is not one address', f'Write it as {DEFAULT_SOCKET}'
        )
    return found[0]


def is_local(address: Address) -> bool:
    """Return whether an address can be reached from its own machine alone."""
    if address.path:
        return True
    return is_loopback(address.host)


def is_loopback(host: str) -> bool:
    """Return whether a name or an address means the machine itself."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == 'localhost'
