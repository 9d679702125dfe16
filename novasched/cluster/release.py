# SPDX-License-Identifier: Apache-2.0
"""The release of the cloud: pinned by an option, or found in the rows of services."""

from __future__ import annotations

from typing import Any, NamedTuple

from oslo_config import cfg

from novasched import errors, releases
from novasched.cluster.discovery import ServiceDirectory
from novasched.cluster.services import Window, down_time
from novasched.objects.base import version_numbers
from novasched.objects.request_spec import RequestSpec
from novasched.ports import ServiceRow
from novasched.releases import AUTO, NAMES, NEWEST, OLDEST, Release, named, of_service
from novasched.runtime.clock import Clock

OPTION = '[novasched] nova_release'
PINNED = f'{OPTION} says so'

OPTS: dict[str, list[cfg.Opt]] = {
    'novasched': [
        cfg.StrOpt(
            'nova_release',
            default=AUTO,
            choices=NAMES,
            help="""
The release of nova that this scheduler serves, by its number or its version.

It decides which traits placement is asked for, the memory of pinned guests, and the
keys of aggregates that name projects. It also decides the version in the row of this
service, the oldest computes that are accepted, and the versions in notifications.
``auto`` finds it in the services of the database of ``[database] connection``: the
newest nova-conductor that is up decides. It is looked at every ``check_interval``
seconds, and a newer release is followed. 29 and 30 write the same version: it counts as
29 until the first request shows that it is 30.
""",
        )
    ]
}

CONDUCTOR = 'nova-conductor'
OTHERS = ('nova-osapi_compute', 'nova-compute')
"""Looked at, in this order, where no conductor has ever registered."""


class FoundRelease(NamedTuple):
    """A release, ``how`` it is known, and a ``warning`` for the operator, if any."""

    release: Release
    how: str
    warning: str = ''

    def __str__(self) -> str:
        return f'nova {self.release}: {self.how}'

    @property
    def is_pinned(self) -> bool:
        """Whether the option says so."""
        return self.how == PINNED


BY_DEFAULT = FoundRelease(NEWEST, 'by default')
"""Where nothing is known of services."""


class KnownRelease:
    """The newest release that this process has known; a reload does not forget it."""

    def __init__(self) -> None:
        self._newest: Release | None = None

    def learn(self, release: Release) -> None:
        """Take in what a request or a conductor shows."""
        if self._newest is None or release.number > self._newest.number:
            self._newest = release

    def newest(self, release: Release) -> Release:
        """Return the newer of a release and the newest that is known."""
        return max(release, self._newest or release, key=lambda each: each.number)

    def at_least(self, found: FoundRelease) -> FoundRelease:
        """Return the newest that is known; what an option says counts as it is."""
        if found.is_pinned:
            return found
        self.learn(found.release)
        if self._newest in (None, found.release):
            return found
        return FoundRelease(self._newest or found.release, 'known to this process')


def find(conf: Any, services: ServiceDirectory | None, clock: Clock) -> FoundRelease:
    """Return the pinned release, else the one that is detected.

    ``services`` is None if nothing is known of services. Raises errors.StoreFailed, and
    errors.OptionError for a cloud that is too old and not pinned.
    """
    pinned = named(conf.novasched.nova_release)
    if services is None:
        return FoundRelease(pinned, PINNED) if pinned else BY_DEFAULT
    down_time_s, _ = down_time(conf.service_down_time, conf.report_interval)
    window = Window.around(clock.utcnow(), down_time_s)
    if pinned is None:
        return detect(services, window)
    return FoundRelease(pinned, PINNED, _doubt(pinned, services, window))


def _doubt(pinned: Release, services: ServiceDirectory, window: Window) -> str:
    """Return a warning where the pin is not what would be detected."""
    try:
        found = detect(services, window)
    except errors.OptionError as problem:
        return str(problem)
    same = found.release.service_version == pinned.service_version
    if same or found.how == NO_SERVICES:
        return ''
    return f'{OPTION} is {pinned}, but the services say {found}.'


NO_SERVICES = 'no service of nova is in the database of [database] connection'


def detect(services: ServiceDirectory, window: Window) -> FoundRelease:
    """Return the release of the services in a database.

    The newest conductor that is up decides, else the newest of all conductors, else the
    newest API, else the newest compute. Without any it is the newest release. Raises
    errors.OptionError where it is older than all that are served.
    """
    conductors = _versioned(services, CONDUCTOR)
    up = [row for row in conductors if not row.forced_down and window.holds(row)]
    if up or conductors:
        return _of(max(up or conductors, key=lambda row: row.version))
    for binary in OTHERS:
        if rows := _versioned(services, binary):
            return _of(max(rows, key=lambda row: row.version))
    return FoundRelease(NEWEST, NO_SERVICES)


def _versioned(services: ServiceDirectory, binary: str) -> list[ServiceRow]:
    return [row for row in services.of_program(binary) if row.version]


def _of(row: ServiceRow) -> FoundRelease:
    how = f'{row.binary} on {row.host} has service version {row.version}'
    release = of_service(row.version)
    if release is None:
        raise errors.OptionError(
            OPTION,
            f'{how}, which is older than nova {OLDEST}',
            f'Nova {OLDEST} to {NEWEST} are served: upgrade nova, or name one of them '
            'here if the row is a mistake',
        )
    for each in releases.RELEASES:
        if each.service_version == row.version and each is not release:
            how += f', which nova {each} writes, too'
    warning = ''
    if row.version > NEWEST.service_version:
        warning = f'{how}, which is newer than nova {NEWEST}: the rules of that count.'
    return FoundRelease(release, how, warning)


def image_props_version(request: RequestSpec) -> tuple[int, int]:
    """Return the version of ImageMetaProps that came over the wire; (0, 0): none did.

    Only an object that was read has one of its own.
    """
    image = request.image if 'image' in request else None
    properties = image.if_set('properties') if image is not None else None
    version = vars(properties).get('VERSION') if properties is not None else None
    return (0, 0) if version is None else version_numbers(version)
