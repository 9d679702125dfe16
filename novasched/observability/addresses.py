# SPDX-License-Identifier: Apache-2.0
"""Addresses to answer at: TCP ports and unix sockets."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
from typing import Any, NamedTuple

from oslo_config import cfg

from novasched import errors
from novasched.observability.catalogue import PREFIX

OPTS: dict[str, list[cfg.Opt]] = {
    'healthcheck': [
        cfg.StrOpt(
            'uri',
            default='',
            help="""
Where the health of the service is shown, at ``/health``.

One or more of ``tcp://host:port``, ``tcp://[IPv6 address]:port`` and
``unix:///absolute/path``, separated by commas. Unset: nowhere.

There is no authentication, and the answer has names of hosts and cells in it. Bind
to localhost, or use a socket in a directory that only the right users can enter.
""",
        ),
    ],
    'novasched': [
        cfg.StrOpt(
            'metrics_uri',
            default='',
            help="""
Where the metrics of all workers of this host are shown, at ``/metrics``.

In the form of Prometheus; written as ``[healthcheck] uri``, and may be the same
address. Unset: nothing is counted.
""",
        ),
        cfg.StrOpt(
            'metrics_prefix',
            default=PREFIX,
            choices=[
                (PREFIX, 'a prefix of their own'),
                ('scheduler', "that of kube-scheduler's metrics, for its dashboards"),
            ],
            help='What the names of all metrics begin with.',
        ),
    ],
}

REMEDY = 'Write it as tcp://localhost:9090 or unix:///run/nova/scheduler.sock.'
HEALTH, METRICS = '[healthcheck] uri', '[novasched] metrics_uri'
URI = re.compile(
    r'tcp://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>[\w.-]+)):(?P<port>\d{1,5})'
    r'|unix://(?P<path>/[\w./-]+)',
    re.ASCII,
)
MOST_PATH = 107
"""Bytes of the path of a unix socket, on Linux."""


class Address(NamedTuple):
    """Where to listen: a port of a host, or a ``path``. Port 0: any free one."""

    host: str = ''
    port: int = 0
    path: str = ''

    def __str__(self) -> str:
        if self.path:
            return f'unix://{self.path}'
        return (
            f'tcp://{f"[{self.host}]" if ":" in self.host else self.host}:{self.port}'
        )


def parse(option: str, text: str) -> tuple[Address, ...]:
    """Return the addresses of a comma-separated list; none for no text.

    Raises errors.OptionError that names the option.
    """
    return tuple(_one(option, part.strip()) for part in text.split(',') if part.strip())


def _one(option: str, text: str) -> Address:
    found = URI.fullmatch(text)
    if not found:
        raise errors.OptionError(option, f'{text!r} is no address', REMEDY)
    if path := found['path']:
        if len(path) > MOST_PATH:
            raise errors.OptionError(option, f'{path} is too long', REMEDY)
        return Address(path=path)
    port = int(found['port'])
    if port > 65535:
        raise errors.OptionError(option, f'there is no port {port}', REMEDY)
    return Address(found['v6'] or found['host'], port)


class Wanted(NamedTuple):
    """Where health and metrics are shown, and the prefix of the latter's names."""

    health: tuple[Address, ...] = ()
    metrics: tuple[Address, ...] = ()
    prefix: str = PREFIX

    @classmethod
    def from_conf(cls, conf: Any) -> Wanted:
        """Read the options. Raises errors.OptionError."""
        return cls(
            parse(HEALTH, conf.healthcheck.uri),
            parse(METRICS, conf.novasched.metrics_uri),
            conf.novasched.metrics_prefix,
        )

    def __bool__(self) -> bool:
        return bool(self.health or self.metrics)


def check(conf: Any) -> None:
    """Find out whether the addresses can be used. Raises errors.OptionError."""
    wanted = Wanted.from_conf(conf)
    for option, addresses in ((HEALTH, wanted.health), (METRICS, wanted.metrics)):
        for address in addresses:
            try:
                listen(address).close()
            except OSError as problem:
                raise errors.OptionError(
                    option,
                    f'{address}: {problem.strerror or problem}',
                    'Name an address of this host that nobody uses.',
                ) from problem
            if address.path:
                os.unlink(address.path)


def listen(address: Address) -> socket.socket:
    """Return a socket that listens. Raises OSError.

    A unix socket that nobody listens at is replaced.
    """
    if address.path:
        _clear(address.path)
        return _listening(socket.AF_UNIX, address.path)
    family, _, _, _, place = socket.getaddrinfo(
        address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return _listening(family, place)


def _listening(family: int, place: Any) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
        made.listen(64)
    except OSError:
        made.close()
        raise
    return made


def _clear(path: str) -> None:
    """Remove what a process that is gone has left. Raises OSError if it is not."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1.0)
        try:
            asking.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except TimeoutError:
            pass
    raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
