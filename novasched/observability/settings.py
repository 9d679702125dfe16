# SPDX-License-Identifier: Apache-2.0
"""Options of health and metrics: where they are shown, and by which rules."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
        cfg.IntOpt(
            'ttl',
            default=300,
            min=0,
            help='Seconds for which news about a component counts. When they are '
            'over, its state is not known, which is a warning. 0: for ever.',
        ),
        cfg.IntOpt(
            'cache_control',
            min=-1,
            help='What the answer says in Cache-Control: for so many seconds it may '
            'be kept. 0: there is no such header; -1: no-cache. Unset: the ttl.',
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
    r'tcp://(?:\[(?P<v6>[0-9A-Fa-f:.]+)\]|(?P<host>(?:[\w-]{1,63}\.)*[\w-]{1,63}\.?))'
    r':(?P<port>\d{1,5})'
    r'|unix://(?P<path>/[\w./-]+)',
    re.ASCII,
)
LONGEST_PATH = 107
"""Bytes of the path of a unix socket, on Linux."""


class Address(NamedTuple):
    """Where to listen: a port of a host, or a ``path``. Port 0: any free one."""

    host: str = ''
    port: int = 0
    path: str = ''

    def __str__(self) -> str:
        if self.path:
            return f'unix://{self.path}'
        host = f'[{self.host}]' if ':' in self.host else self.host
        return f'tcp://{host}:{self.port}'


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
        if len(path) > LONGEST_PATH:
            raise errors.OptionError(option, f'{path} is too long', REMEDY)
        return Address(path=path)
    port = int(found['port'])
    if port > 65535:
        raise errors.OptionError(option, f'there is no port {port}', REMEDY)
    return Address(found['v6'] or found['host'], port)


@dataclass(frozen=True)
class Settings:
    """The options, and other options that health and metrics depend on.

    ``host`` and ``description`` are shown with the health. ``patience_s`` is how long a
    caller waits, ``stop_s`` how long workers may take to end.
    """

    host: str = ''
    description: str = ''
    health: tuple[Address, ...] = ()
    metrics: tuple[Address, ...] = ()
    prefix: str = PREFIX
    ttl_s: int = 300
    max_age_s: int = 300
    threads: int = 64
    patience_s: float = 60.0
    check_interval_s: float = 60.0
    stop_s: float = 160.0

    @classmethod
    def from_conf(cls, conf: Any, host: str = '', description: str = '') -> Settings:
        """Read the options. Raises errors.OptionError."""
        own = conf.healthcheck
        return cls(
            host=host,
            description=description,
            health=parse(HEALTH, own.uri),
            metrics=parse(METRICS, conf.novasched.metrics_uri),
            prefix=conf.novasched.metrics_prefix,
            ttl_s=own.ttl,
            max_age_s=own.ttl if own.cache_control is None else own.cache_control,
            threads=conf.executor_thread_pool_size,
            patience_s=conf.rpc_response_timeout,
            check_interval_s=conf.novasched.check_interval,
            stop_s=conf.manager_shutdown_timeout,
        )
