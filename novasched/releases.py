# SPDX-License-Identifier: Apache-2.0
"""The releases of nova that are served, and what sets each apart from the newest.

Pure data, and what is looked up in it. Rules read the named behaviours of a Release; no
rule compares numbers of releases. docs/reference/releases.md says what each means.
"""

from __future__ import annotations

from dataclasses import dataclass

AUTO = 'auto'


@dataclass(frozen=True)
class Release:
    """A release of nova.

    ``has_..._trait`` says whether its query asks for the trait.
    """

    number: int
    version: str  # year.number
    name: str
    service_version: int  # written by its services into their rows
    oldest_compute: int  # lowest service version of a nova-compute that it accepts
    oldest_release: str  # the release of oldest_compute
    image_props: tuple[int, int]  # version of ImageMetaProps that its API sends
    image_props_payload: str  # version of the payload in notifications
    has_tpm_model_trait: bool = True
    has_tpm_secret_trait: bool = True
    has_virtio_sound_trait: bool = True
    has_encryption_model_trait: bool = True
    has_owner_trait: bool = True  # Nova as the owner of a provider
    has_tenant_key_suffixes: bool = True
    """Any key that starts with ``filter_tenant_id`` counts."""
    pins_within_free_memory: bool = False
    """A pinned guest cell must fit into memory that guests of any page size leave."""
    reads_old_messaging_names: bool = False
    """Its libraries read old names of options of oslo.messaging."""
    reads_misspelt_messaging_names: bool = False

    def __str__(self) -> str:
        return f'{self.number} ({self.version})'


RELEASES = (
    Release(
        29, '2024.1', 'Caracal', 67, 66, 'Antelope', (1, 37), '1.13',
        has_tpm_model_trait=False, has_tpm_secret_trait=False,
        has_virtio_sound_trait=False, has_encryption_model_trait=False,
        has_owner_trait=False, has_tenant_key_suffixes=False,
        pins_within_free_memory=True, reads_old_messaging_names=True,
        reads_misspelt_messaging_names=True,
    ),
    Release(
        30, '2024.2', 'Dalmatian', 67, 66, 'Caracal', (1, 38), '1.14',
        reads_old_messaging_names=True, reads_misspelt_messaging_names=True,
        has_tpm_secret_trait=False, has_virtio_sound_trait=False,
        has_encryption_model_trait=False, has_owner_trait=False,
    ),
    Release(
        31, '2025.1', 'Epoxy', 68, 66, 'Caracal', (1, 39), '1.15',
        reads_misspelt_messaging_names=True,
        has_tpm_secret_trait=False, has_virtio_sound_trait=False,
        has_encryption_model_trait=False, has_owner_trait=False,
    ),
    Release(
        32, '2025.2', 'Flamingo', 70, 68, 'Epoxy', (1, 42), '1.18',
        has_tpm_secret_trait=False, has_owner_trait=False,
    ),
    Release(
        33, '2026.1', 'Gazpacho', 72, 68, 'Epoxy', (1, 42), '1.18',
        has_owner_trait=False,
    ),
    Release(34, '2026.2', 'Hibiscus', 74, 72, 'Gazpacho', (1, 44), '1.20'),
)  # fmt: skip
"""The oldest first."""

OLDEST, NEWEST = RELEASES[0], RELEASES[-1]
NAMES = (AUTO, *(text for r in RELEASES for text in (str(r.number), r.version)))
"""What ``[novasched] nova_release`` may say."""


def named(name: str) -> Release | None:
    """Return the release of a number or a version; None for ``auto``."""
    found = (each for each in RELEASES if name in (str(each.number), each.version))
    return next(found, None)


def of_service(version: int) -> Release | None:
    """Return the release whose services write this version, the oldest of several.

    None if the version is too old for all; the newest release if it is too new.
    """
    if version < OLDEST.service_version:
        return None
    found = (each for each in RELEASES if version <= each.service_version)
    return next(found, NEWEST)


def of_request(release: Release, image_props: tuple[int, int]) -> Release:
    """Return the release that a request proves, ``release`` or one that writes the same
    service version; ``image_props`` is the version of the ImageMetaProps in it."""
    proven = (
        each
        for each in RELEASES
        if each.service_version == release.service_version
        and each.number > release.number
        and each.image_props <= image_props
    )
    return max(proven, key=lambda each: each.number, default=release)
