# SPDX-License-Identifier: Apache-2.0
"""Options that decided where nova-scheduler connects, and that no library reads today.

They stand in configurations that have grown over many releases, where they look as if
they did something.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from novasched.compat.messaging_options import GROUPS, OLD_NAMES

BROKER = '[DEFAULT] transport_url = rabbit://USER:PASSWORD@HOST:5672/VIRTUAL_HOST'
_CREDENTIALS = 'auth_type, auth_url, username, password and project_name of [neutron]'

REMOVED: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (
        ('DEFAULT', 'oslo_messaging_rabbit'),
        r'rabbit_hosts?|rabbit_port|rabbit_userid|rabbit_password|rabbit_virtual_host'
        r'|rpc_backend|fake_rabbit',
        BROKER,
    ),
    (('DEFAULT', 'oslo_messaging_qpid'), r'qpid_\w+', BROKER),
    (('DEFAULT',), r'rpc_zmq_\w+|matchmaker_\w+', BROKER),
    (
        ('DEFAULT',),
        r'amqp_\w+|rabbit_\w+|kombu_\w+',
        'the option of [oslo_messaging_rabbit] of this name',
    ),
    (
        ('DEFAULT',),
        r'notification_driver|notification_transport_url|notification_topics',
        'driver, transport_url and topics of [oslo_messaging_notifications]',
    ),
    (('DEFAULT', 'database'), r'sql_connection|db_connection', '[database] connection'),
    (('sql',), r'connection', '[database] connection'),
    (('api_database',), r'sql_connection', '[api_database] connection'),
    (('placement',), r'os_region_name', '[placement] region_name'),
    (('placement',), r'os_interface', '[placement] valid_interfaces'),
    (
        ('neutron',),
        r'admin_\w+|auth_strategy|ca_certificates_file|api_insecure',
        _CREDENTIALS,
    ),
    (('DEFAULT',), r'neutron_\w+|quantum_\w+', _CREDENTIALS),
    (('DEFAULT',), r'memcached_servers', '[cache] memcache_servers'),
)
"""The groups they stood in, their names, and what takes their place. The first row that
fits counts."""

_RENAMED = {group: {o.name for o in OLD_NAMES if o.group == group} for group in GROUPS}
"""Names that some releases still read; messaging_options has them."""


def instead_of(group: str, name: str) -> str | None:
    """Return the successor of an option; None if the option is not removed."""
    if name in _RENAMED.get(group, ()):
        return f'[{group}] {name}, by the name that it has today'
    for groups, names, instead in REMOVED:
        if group in groups and re.fullmatch(names, name):
            return instead
    return None


def found(
    held: Mapping[str, Collection[str]], known: Mapping[str, Collection[str]]
) -> dict[str, list[str]]:
    """Return the removed options of some files, by what takes their place.

    ``held`` are the options of the files by group, ``known`` those that are read.
    """
    removed: dict[str, list[str]] = {}
    for group, names in held.items():
        read = {*known.get(group, ()), *_RENAMED.get(group, ())}
        for name in sorted(set(names) - read):
            if instead := instead_of(group, name):
                removed.setdefault(instead, []).append(f'[{group}] {name}')
    return removed


def warnings(
    held: Mapping[str, Collection[str]], known: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yield a line for each thing that removed options said."""
    for instead, options in found(held, known).items():
        yield f'{", ".join(options)}: nothing reads this any more. Set {instead}.'


def broker_warning(
    held: Mapping[str, Collection[str]], known: Mapping[str, Collection[str]]
) -> str | None:
    """Return the problem where removed options alone say where the broker is."""
    options = found(held, known).get(BROKER)
    if not options:
        return None
    return (
        f'{", ".join(options)}: nothing reads this any more, and [DEFAULT] '
        'transport_url is not set: the service would connect to the broker of this '
        f'machine, as guest. Set {BROKER}.'
    )
