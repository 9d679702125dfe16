# SPDX-License-Identifier: Apache-2.0
"""Cells, and which host is in which."""

from __future__ import annotations

from typing import ClassVar

from novasched.objects import fields
from novasched.objects.base import NovaObjectRegistry, NovaTimestampObject


@NovaObjectRegistry.register
class CellMapping(NovaTimestampObject):
    """A cell. The templates in its URLs are filled in already."""

    VERSION = '1.1'
    SINCE: ClassVar = {'disabled': '1.1'}

    id: int = fields.integer(read_only=True)
    uuid: str = fields.uuid()
    name: str | None = fields.string(nullable=True)
    transport_url: str = fields.string()
    database_connection: str = fields.string()
    disabled: bool = fields.boolean(default=False)


@NovaObjectRegistry.register
class HostMapping(NovaTimestampObject):
    """The cell that a compute service host is in."""

    VERSION = '1.0'

    id: int = fields.integer(read_only=True)
    host: str = fields.string()
    cell_mapping: CellMapping = fields.object_of('CellMapping')
