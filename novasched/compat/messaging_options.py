# SPDX-License-Identifier: Apache-2.0
"""Names of options of oslo.messaging that the libraries of older releases read, too.

Today's library ignores them, but all other services of such a cloud act on them. They
decide whether TLS is spoken, and how exchange and queues are declared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from oslo_config import cfg

from novasched.releases import RELEASES, Release

_RABBIT, _NOTIFICATIONS = 'oslo_messaging_rabbit', 'oslo_messaging_notifications'


class OldName(NamedTuple):
    """A name in a group, and the name in another group that takes its place."""

    group: str
    name: str
    present_group: str
    present: str

    @property
    def is_misspelt(self) -> bool:
        """Whether it is a misspelling, which was read for longer than a name."""
        return self.name.startswith('rabbit_quroum')

    def is_read_by(self, release: Release) -> bool:
        """Return whether the libraries of a release read it."""
        if self.is_misspelt:
            return release.reads_misspelt_messaging_names
        return release.reads_old_messaging_names


_MOVED = (
    'amqp_auto_delete conn_pool_min_size conn_pool_ttl kombu_reconnect_delay '
    'rabbit_ha_queues rabbit_login_method rabbit_retry_backoff rpc_conn_pool_size'
)
OLD_NAMES = (
    OldName(_RABBIT, 'rabbit_use_ssl', _RABBIT, 'ssl'),
    OldName(_RABBIT, 'kombu_ssl_version', _RABBIT, 'ssl_version'),
    OldName(_RABBIT, 'kombu_ssl_keyfile', _RABBIT, 'ssl_key_file'),
    OldName(_RABBIT, 'kombu_ssl_certfile', _RABBIT, 'ssl_cert_file'),
    OldName(_RABBIT, 'kombu_ssl_ca_certs', _RABBIT, 'ssl_ca_file'),
    *(OldName('DEFAULT', name, _RABBIT, name) for name in _MOVED.split()),
    *(
        OldName(_RABBIT, f'rabbit_quroum_{end}', _RABBIT, f'rabbit_quorum_{end}')
        for end in ('max_memory_bytes', 'max_memory_length')
    ),
    *(
        OldName(group, f'{prefix}{name}', _NOTIFICATIONS, name)
        for group, prefix in (('DEFAULT', 'notification_'), ('rpc_notifier2', ''))
        for name in ('driver', 'topics', 'transport_url')
    ),
)

GROUPS = frozenset(each.group for each in OLD_NAMES)


def present(held: Mapping[str, Collection[str]]) -> list[OldName]:
    """Return the old names in some files whose present name is not there; ``held`` are
    the options of the files by group."""
    return [
        each
        for each in OLD_NAMES
        if each.name in held.get(each.group, ())
        and each.present not in held.get(each.present_group, ())
    ]


def warnings(held: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a line for the old names in the files that the same releases read."""
    found: dict[int, list[str]] = {}
    for each in OLD_NAMES:
        if each.name in held.get(each.group, ()):
            last = max(r.number for r in RELEASES if each.is_read_by(r))
            now = f'[{each.present_group}] {each.present}'
            found.setdefault(last, []).append(f'[{each.group}] {each.name} (now {now})')
    for last, names in found.items():
        yield (
            f'{", ".join(names)}: only the libraries of nova {last} and older read '
            'this, and this service in their clouds. Set what is named now.'
        )


def apply(
    conf: cfg.ConfigOpts,
    values: Mapping[tuple[str, str], Sequence[str]],
    release: Release | None,
) -> None:
    """Make values that files give under old names the defaults of the present options.

    ``values`` are the values in the files, by group and name, in order. The old names
    of ``release`` count; if it is None, all these defaults are taken back.
    """
    for each in OLD_NAMES:
        conf.clear_default(each.present, each.present_group)
    for each in OLD_NAMES:
        found = values.get((each.group, each.name))
        if found and release is not None and each.is_read_by(release):
            value = list(found) if each.present == 'driver' else found[-1]
            conf.set_default(each.present, value, each.present_group)
