# SPDX-License-Identifier: Apache-2.0
"""The size of an instance."""

from __future__ import annotations

from oslo_versionedobjects import base as ovo

from novasched.objects import fields
from novasched.objects.base import NovaObjectRegistry, NovaPersistentObject


@NovaObjectRegistry.register
class Flavor(ovo.VersionedObjectDictCompat, NovaPersistentObject):
    """A flavor. memory_mb and swap are in MiB, root_gb and ephemeral_gb in GiB."""

    VERSION = '1.2'

    id: int = fields.integer()
    name: str | None = fields.string(nullable=True)
    memory_mb: int = fields.integer()
    vcpus: int = fields.integer()
    root_gb: int = fields.integer()
    ephemeral_gb: int = fields.integer()
    flavorid: str = fields.string()
    swap: int = fields.integer()
    rxtx_factor: float | None = fields.real(nullable=True, default=1.0)
    vcpu_weight: int | None = fields.integer(nullable=True)
    disabled: bool = fields.boolean()
    is_public: bool = fields.boolean()
    extra_specs: dict[str, str] = fields.string_dict()
    projects: list[str] = fields.strings()
    description: str | None = fields.string(nullable=True)
